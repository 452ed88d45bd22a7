package autodiff

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Direct casts have the bits of those by way of blocks, on every instruction set: of random bits, of
// every number of 16 bits, and beside the ends of types.
func TestDirectCasts(t *testing.T) {
	defer cpu.Limit(cpu.Best())
	r := rand.New(rand.NewPCG(1, 2))
	const n = 1<<16 + 333
	words := make([]uint64, n)
	for i := range words {
		words[i] = r.Uint64()
		switch near := math.Ldexp(1, r.IntN(140)-70) * float64(1-2*r.IntN(2)); i % 3 {
		case 1:
			words[i] = math.Float64bits(near * (1 + float64(r.IntN(5))*0x1p-11))
		case 2:
			words[i] = uint64(math.Float32bits(float32(near))) + r.Uint64N(5) - 2
		}
	}
	be := NewCPUThreads(1)
	for types, cast := range directCasts {
		x := be.new(Info{types[0], []int64{n}})
		size, to := int(types[0].Size()), int(types[1].Size())
		for i, v := range words {
			element := binary.LittleEndian.AppendUint64(nil, v)
			switch {
			case size == 2:
				binary.LittleEndian.PutUint16(element, uint16(i))
			case types[0] == tensor.Bool:
				element[0] = byte(v & 1)
			}
			copy(x.buf.mem[i*size:], element[:size])
		}
		want, got := be.new(Info{types[1], []int64{n}}), be.new(Info{types[1], []int64{n}})
		convertBlocks(1, want, x)
		for _, isa := range []cpu.ISA{cpu.Go, cpu.Best()} {
			cpu.Limit(isa)
			for _, ends := range [][2]int{{0, n}, {0, 1}, {1, 8}, {1, 9}, {3, 40}} {
				clear(got.buf.mem)
				cast(got, x, ends[0], ends[1])
				for i := ends[0]; i < ends[1]; i++ {
					a, b := got.buf.mem[i*to:][:to], want.buf.mem[i*to:][:to]
					if !bytes.Equal(a, b) && !(isNaN(got, i) && isNaN(want, i)) {
						t.Fatalf("%v to %v: element %d, %x, is %x; want %x (%v)", types[0], types[1], i, x.buf.mem[i*size:][:size], a, b, isa)
					}
				}
				require.Empty(t, bytes.Trim(got.buf.mem[ends[1]*to:], "\x00"), "%v to %v wrote outside", types[0], types[1])
			}
		}
	}
}

// isNaN reports whether an element is a NaN, of which there are many.
func isNaN(x *cpuTensor, i int) bool {
	c := castings[x.dtype]
	if !c.isFloat {
		return false
	}
	var v [1]float64
	c.floats(x, i, v[:])
	return v[0] != v[0]
}
