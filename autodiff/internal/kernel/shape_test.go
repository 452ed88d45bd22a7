package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// TestMoves holds Permute, Slice, SliceInto and SliceAdd to one element after the other.
func TestMoves(t *testing.T) {
	t.Run("8 bits", testMoves[uint8])
	t.Run("16 bits", testMoves[uint16])
	t.Run("32 bits", testMoves[uint32])
	t.Run("64 bits", testMoves[uint64])
}

func testMoves[T Bits](t *testing.T) {
	defer cpu.Limit(cpu.Best())
	defer func(n int) { MinPiece = n }(MinPiece)
	MinPiece = 64
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 120 {
		cpu.Limit([]cpu.ISA{cpu.Go, cpu.Best()}[round%2])
		shape := make([]int64, 1+rng.IntN(4))
		p := Part{Whole: shape}
		for d := range shape {
			shape[d] = 1 + rng.Int64N([]int64{3, 20, 70}[rng.IntN(3)])
			lo, hi, step := rng.IntN(int(shape[d])), int(shape[d]), 1+rng.IntN(2)
			if rng.IntN(2) == 0 { // all of it
				lo, step = 0, 1
			}
			n := (hi - lo + step - 1) / step
			if rng.IntN(3) == 0 { // backwards
				lo, step = lo+(n-1)*step, -step
			}
			p.Starts, p.Steps, p.Shape = append(p.Starts, lo), append(p.Steps, step), append(p.Shape, int64(n))
		}
		axes := rng.Perm(len(shape))
		permuted := make([]int64, len(shape))
		for i, a := range axes {
			permuted[i] = shape[a]
		}
		whole := make([]T, product(shape))
		for i := range whole {
			whole[i] = T(rng.Uint64())
		}
		guarded := func(n int) []T { return slices.Repeat([]T{77}, n+2) } // one on either side

		z := guarded(len(whole))
		Permute(3, z[1:len(z)-1], whole, shape, axes)
		part := guarded(product(p.Shape))
		Slice(3, part[1:len(part)-1], whole, p)
		into, sums := slices.Clone(whole), make([]float32, len(whole))
		SliceInto(3, part[1:len(part)-1], into, p)
		SliceAdd(3, ones(product(p.Shape)), sums, p)

		wantZ, wantPart, wantSums := guarded(len(whole)), guarded(product(p.Shape)), make([]float32, len(whole))
		for i := range whole {
			at := make([]int64, len(shape))
			for j, a := range axes {
				at[a] = indices(permuted, i)[j]
			}
			wantZ[1+i] = whole[offset(shape, at)]
		}
		for i := range product(p.Shape) {
			at := indices(p.Shape, i)
			for d := range at {
				at[d] = int64(p.Starts[d]) + at[d]*int64(p.Steps[d])
			}
			wantPart[1+i] = whole[offset(shape, at)]
			wantSums[offset(shape, at)]++
		}
		require.Equal(t, wantZ, z, "%v permuted by %v", shape, axes)
		require.Equal(t, wantPart, part, "%v", p)
		require.Equal(t, whole, into, "%v", p)
		require.Equal(t, wantSums, sums, "%v", p)
	}
}

func ones(n int) []float32 { return slices.Repeat([]float32{1}, n) }

func product(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// indices returns the indices of an element.
func indices(shape []int64, i int) []int64 {
	at := make([]int64, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = int64(i) % shape[d]
		i /= int(shape[d])
	}
	return at
}

// offset returns the element at some indices.
func offset(shape, at []int64) (i int) {
	for d, n := range shape {
		i = i*int(n) + int(at[d])
	}
	return i
}
