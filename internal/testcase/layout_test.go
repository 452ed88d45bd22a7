package testcase

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// In every layout, elements are read where they were put, and one byte written
// beside them is found.
func TestPlaced(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	gaps := 0
	for _, shape := range [][]int64{{}, {0, 3}, {1}, {5}, {2, 3, 4}, {3, 1, 2, 5}} {
		for _, layout := range []Layout{Compact, Strided, Transposed, Sliced, Reversed, Expanded, Mixed(r), Alike(r)} {
			for memory := Plain; memory <= BeginsPage; memory++ {
				a := &Arg{ArgInfo: plans.ArgInfo{Present: true, Shape: shape, Direction: "out"}, DType: tensor.F32, Expanded: make([]bool, len(shape))}
				for range 4 * tensor.NumElements(shape) {
					a.Before = append(a.Before, byte(r.IntN(256)))
				}
				p := newPlaced(a, Options{Layout: layout, Memory: memory}, false)
				defer p.free()
				if !bytes.Equal(p.Read(), a.Before) || p.Stray() != nil {
					t.Fatalf("%v: read %x, want %x; %v", shape, p.Read(), a.Before, p.Stray())
				}
				beside := bytes.Repeat([]byte{1}, len(p.Memory))
				for _, at := range p.offsets {
					copy(beside[4*at:], []byte{0, 0, 0, 0})
				}
				for i := range p.Memory {
					if p.offsets == nil || beside[i] == 0 {
						continue
					}
					gaps++
					p.Memory[i]++
					if p.Stray() == nil {
						t.Fatalf("%v: byte %d was written, and not found", shape, i)
					}
					p.Memory[i]--
				}
			}
		}
	}
	if gaps < 1000 {
		t.Errorf("%d bytes lie beside elements", gaps)
	}
}
