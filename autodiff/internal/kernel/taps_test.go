package kernel

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// TestTaps compares convolutions of framed planes, in assembly, with those by columns.
func TestTaps(t *testing.T) {
	defer cpu.Limit(cpu.Best())
	defer func(n int) { MinPiece = n }(MinPiece)
	MinPiece = 64
	var taken atomic.Int64
	scratch := func(n int) ([]float32, func()) {
		taken.Add(1)
		return slices.Repeat([]float32{float32(math.NaN())}, n), func() { taken.Add(-1) }
	}
	one, two := [2]int{1, 1}, [2]int{2, 2}
	for _, d := range []*Conv{
		{N: 3, C: 2, H: 9, W: 28, O: 2, KH: 3, KW: 3, OH: 9, OW: 28, Stride: one, Pad: one, Dilation: one, Groups: 2},
		{N: 2, C: 1, H: 8, W: 10, O: 3, KH: 5, KW: 3, OH: 4, OW: 8, Stride: one, Dilation: one, Groups: 1},
		{N: 1, C: 3, H: 7, W: 41, O: 3, KH: 3, KW: 2, OH: 7, OW: 43, Stride: one, Pad: two, Dilation: two, Groups: 3},
		{N: 1, C: 2, H: 4, W: 8, O: 4, KH: 1, KW: 1, OH: 4, OW: 8, Stride: one, Dilation: one, Groups: 2},
		{N: 1, C: 2, H: 4, W: 8, O: 2, KH: 1, KW: 1, OH: 6, OW: 10, Stride: one, Pad: one, Dilation: one, Groups: 2},
		{N: 1, C: 2, H: 16, W: 16, O: 2, KH: 3, KW: 3, OH: 8, OW: 8, Stride: two, Pad: one, Dilation: one, Groups: 2},
		// More positions than a call takes.
		{N: 1, C: 1, H: 2, W: 5000, O: 1, KH: 1, KW: 1, OH: 2, OW: 5000, Stride: one, Dilation: one, Groups: 1},
		{N: 9, C: 11, H: 9, W: 6, O: 11, KH: 3, KW: 5, OH: 4, OW: 6, Stride: [2]int{2, 1}, Pad: [2]int{1, 2}, Dilation: [2]int{2, 1}, Groups: 11},
		// Several channels.
		{N: 9, C: 4, H: 16, W: 17, O: 5, KH: 3, KW: 3, OH: 16, OW: 17, Stride: one, Pad: one, Dilation: one, Groups: 1},
		{N: 2, C: 8, H: 20, W: 14, O: 10, KH: 2, KW: 4, OH: 19, OW: 11, Stride: one, Dilation: one, Groups: 2},
		{N: 2, C: 5, H: 26, W: 24, O: 13, KH: 3, KW: 2, OH: 26, OW: 26, Stride: one, Pad: two, Dilation: two, Groups: 1},
		{N: 1, C: 10, H: 15, W: 15, O: 50, KH: 3, KW: 3, OH: 8, OW: 8, Stride: two, Pad: one, Dilation: one, Groups: 1},
		{N: 2, C: 3, H: 21, W: 30, O: 4, KH: 7, KW: 7, OH: 11, OW: 15, Stride: two, Pad: [2]int{3, 3}, Dilation: one, Groups: 1},
		{N: 1, C: 4, H: 25, W: 19, O: 6, KH: 2, KW: 3, OH: 8, OW: 17, Stride: [2]int{3, 1}, Pad: [2]int{0, 2}, Dilation: [2]int{1, 3}, Groups: 2},
		{N: 1, C: 2, H: 20, W: 40, O: 3, KH: 1, KW: 3, OH: 10, OW: 10, Stride: [2]int{2, 4}, Pad: [2]int{0, 1}, Dilation: one, Groups: 1},
		{N: 1, C: 3, H: 24, W: 20, O: 4, KH: 7, KW: 3, OH: 12, OW: 20, Stride: [2]int{2, 1}, Pad: [2]int{3, 1}, Dilation: one, Groups: 1},
		{N: 1, C: 4, H: 20, W: 20, O: 6, KH: 5, KW: 5, OH: 18, OW: 18, Stride: one, Pad: one, Dilation: one, Groups: 1},
		{N: 1, C: 32, H: 8, W: 9, O: 2, KH: 1, KW: 1, OH: 8, OW: 9, Stride: one, Dilation: one, Groups: 1},
		// Without elements.
		{N: 1, C: 4, H: 3, W: 0, O: 4, KH: 2, KW: 2, OH: 4, OW: 1, Stride: one, Pad: one, Dilation: one, Groups: 4},
		{N: 3, C: 16, H: 40, W: 40, O: 0, KH: 3, KW: 3, OH: 40, OW: 40, Stride: one, Pad: one, Dilation: one, Groups: 1},
		// Frames that would be larger than all else.
		{N: 1, C: 8, H: 8, W: 8, O: 8, KH: 3, KW: 3, OH: 8, OW: 8, Stride: one, Pad: [2]int{1 << 20, 1}, Dilation: [2]int{1 << 20, 1}, Groups: 1},
		{N: 1, C: 8, H: 8, W: 8, O: 8, KH: 1, KW: 3, OH: 3, OW: 8, Stride: [2]int{1 << 20, 1}, Pad: [2]int{1 << 20, 1}, Dilation: one, Groups: 8},
		{N: 1, C: 1, H: 3, W: 9, O: 1, KH: 2, KW: 2, OH: 2, OW: 8, Stride: one, Dilation: one, Groups: 1},
	} {
		for _, odd := range []float32{1e-30, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.NaN())} {
			for _, where := range []string{"nowhere", "x", "w", "g"} {
				x, w := uniform[float32](d.N*d.C*d.H*d.W, 1), uniform[float32](d.O*d.C/d.Groups*d.KH*d.KW, 2)
				g, bias := uniform[float32](d.N*d.O*d.OH*d.OW, 3), uniform[float32](d.O, 4)
				row := map[string][]float32{"x": x, "w": w, "g": g}[where]
				for i := 0; i < len(row); i += 11 {
					row[i] = odd
				}
				run := func(rows cpu.ISA, threads Threads) []uint64 {
					cpu.Limit(rows)
					y, dx, dw := make([]float32, len(g)), make([]float32, len(x)), make([]float32, len(w))
					Forward(threads, d, scratch, y, x, w, bias)
					GradInput(threads, d, scratch, dx, g, w)
					GradWeight(threads, d, scratch, dw, g, x)
					require.Zero(t, taken.Load(), "memory that nobody gave back")
					return slices.Concat(bits(y), bits(dx), bits(dw))
				}
				want := run(cpu.Go, 1)
				for _, rows := range []cpu.ISA{cpu.AVX2, cpu.AVX512} {
					require.Equal(t, want, run(rows, 1), "%+v with %v in %s, %v", *d, odd, where, rows)
					require.Equal(t, want, run(rows, 2), "%+v with %v in %s, %v, two threads", *d, odd, where, rows)
				}
			}
		}
	}
}
