package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// TestTaps compares convolutions of single channels in assembly with those by columns.
func TestTaps(t *testing.T) {
	defer cpu.Limit(cpu.Best())
	scratch := func(n int) ([]float32, func()) {
		return slices.Repeat([]float32{float32(math.NaN())}, n), func() {}
	}
	one, two := [2]int{1, 1}, [2]int{2, 2}
	for _, d := range []*Conv{
		{N: 3, C: 2, H: 9, W: 28, O: 2, KH: 3, KW: 3, OH: 9, OW: 28, Stride: one, Pad: one, Dilation: one, Groups: 2},
		{N: 2, C: 1, H: 8, W: 10, O: 3, KH: 5, KW: 3, OH: 4, OW: 8, Stride: one, Dilation: one, Groups: 1},
		{N: 1, C: 3, H: 7, W: 41, O: 3, KH: 3, KW: 2, OH: 7, OW: 43, Stride: one, Pad: two, Dilation: two, Groups: 3},
		{N: 1, C: 2, H: 4, W: 8, O: 4, KH: 1, KW: 1, OH: 4, OW: 8, Stride: one, Dilation: one, Groups: 2},
		{N: 1, C: 2, H: 4, W: 8, O: 2, KH: 1, KW: 1, OH: 6, OW: 10, Stride: one, Pad: one, Dilation: one, Groups: 2},
		{N: 1, C: 2, H: 16, W: 16, O: 2, KH: 3, KW: 3, OH: 8, OW: 8, Stride: two, Pad: one, Dilation: one, Groups: 2},
		{N: 1, C: 1, H: 3, W: 9, O: 1, KH: 2, KW: 2, OH: 2, OW: 8, Stride: one, Dilation: one, Groups: 1},
	} {
		for _, odd := range []float32{1e-30, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.NaN())} {
			for _, where := range []string{"nowhere", "x", "w", "g"} {
				x, w := uniform[float32](d.N*d.C*d.H*d.W, 1), uniform[float32](d.O*d.KH*d.KW, 2)
				g, bias := uniform[float32](d.N*d.O*d.OH*d.OW, 3), uniform[float32](d.O, 4)
				row := map[string][]float32{"x": x, "w": w, "g": g}[where]
				for i := 0; i < len(row); i += 11 {
					row[i] = odd
				}
				run := func(rows cpu.ISA, threads Threads) []string {
					cpu.Limit(rows)
					y, dx := make([]float32, len(g)), make([]float32, len(x))
					Forward(threads, d, scratch, y, x, w, bias)
					GradInput(threads, d, scratch, dx, g, w)
					return append(bits(y), bits(dx)...)
				}
				want := run(cpu.Go, 1)
				require.Equal(t, want, run(cpu.AVX2, 1), "%+v with %v in %s", *d, odd, where)
				require.Equal(t, want, run(cpu.AVX2, 2), "%+v with %v in %s, two threads", *d, odd, where)
			}
		}
	}
}
