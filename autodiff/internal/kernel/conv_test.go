package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// convolve is the textbook loop.
func convolve(d *Conv, x, w, bias []float64) []float64 {
	y := make([]float64, d.N*d.O*d.OH*d.OW)
	cg, og := d.C/d.Groups, d.O/d.Groups
	for i := range y {
		ox, oy, o, n := i%d.OW, i/d.OW%d.OH, i/d.OW/d.OH%d.O, i/d.OW/d.OH/d.O
		for c := range cg {
			for kh := range d.KH {
				for kw := range d.KW {
					iy := oy*d.Stride[0] + kh*d.Dilation[0] - d.Pad[0]
					ix := ox*d.Stride[1] + kw*d.Dilation[1] - d.Pad[1]
					if iy >= 0 && iy < d.H && ix >= 0 && ix < d.W {
						y[i] = math.FMA(x[((n*d.C+o/og*cg+c)*d.H+iy)*d.W+ix], w[((o*cg+c)*d.KH+kh)*d.KW+kw], y[i])
					}
				}
			}
		}
		y[i] += bias[o]
	}
	return y
}

// TestConv compares convolutions with the textbook loop, and their gradients with what they are the
// gradients of.
func TestConv(t *testing.T) {
	scratch := func(n int) ([]float64, func()) { // that holds anything
		return slices.Repeat([]float64{math.NaN()}, n), func() {}
	}
	dot := func(x, y []float64) (sum float64) {
		for i := range x {
			sum += x[i] * y[i]
		}
		return sum
	}
	one, two := [2]int{1, 1}, [2]int{2, 2}
	for _, d := range []*Conv{
		{N: 9, C: 2, H: 5, W: 6, O: 3, KH: 3, KW: 2, OH: 3, OW: 5, Stride: one, Dilation: one, Groups: 1},
		{N: 2, C: 4, H: 6, W: 5, O: 4, KH: 3, KW: 3, OH: 3, OW: 3, Stride: [2]int{2, 2}, Pad: one, Dilation: one, Groups: 2},
		{N: 1, C: 1, H: 7, W: 8, O: 2, KH: 2, KW: 3, OH: 7, OW: 3, Stride: [2]int{1, 3}, Pad: [2]int{1, 2}, Dilation: [2]int{2, 2}, Groups: 1},
		{N: 1, C: 1, H: 2, W: 2, O: 1, KH: 5, KW: 5, OH: 2, OW: 2, Stride: one, Pad: two, Dilation: one, Groups: 1},
		// Images as wide as the output.
		{N: 9, C: 4, H: 5, W: 6, O: 2, KH: 3, KW: 3, OH: 5, OW: 6, Stride: one, Pad: one, Dilation: one, Groups: 2},
		{N: 1, C: 2, H: 6, W: 7, O: 3, KH: 3, KW: 3, OH: 6, OW: 7, Stride: one, Pad: two, Dilation: two, Groups: 1},
		{N: 1, C: 1, H: 6, W: 3, O: 1, KH: 2, KW: 5, OH: 7, OW: 3, Stride: one, Pad: [2]int{1, 2}, Dilation: one, Groups: 1},
		{N: 1, C: 1, H: 4, W: 5, O: 2, KH: 1, KW: 1, OH: 4, OW: 5, Stride: one, Dilation: one, Groups: 1},
		{N: 2, C: 2, H: 5, W: 6, O: 2, KH: 3, KW: 3, OH: 3, OW: 6, Stride: [2]int{2, 1}, Pad: one, Dilation: one, Groups: 1},
	} {
		x := uniform[float64](d.N*d.C*d.H*d.W, 1)
		w := uniform[float64](d.O*d.C/d.Groups*d.KH*d.KW, 2)
		bias := uniform[float64](d.O, 3)
		want := convolve(d, x, w, bias)
		for _, threads := range []Threads{1, 4} {
			y := make([]float64, len(want))
			Forward(threads, d, scratch, y, x, w, bias)
			require.InDeltaSlice(t, want, y, 1e-12)
		}
		// Gradients belong to a linear function of x, and of w.
		g, dx, dw := uniform[float64](len(want), 4), slices.Clone(x), slices.Clone(w)
		GradInput(1, d, scratch, dx, g, w)
		GradWeight(1, d, scratch, dw, g, x)
		along := dot(g, convolve(d, x, w, make([]float64, d.O)))
		require.InDelta(t, along, dot(dx, x), 1e-12)
		require.InDelta(t, along, dot(dw, w), 1e-12)
	}
}
