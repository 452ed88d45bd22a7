package autodiff

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Kernels that lie in the padding with some of their columns for every output.
func TestConvWhoseTapsLieInThePadding(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		for _, tc := range []struct {
			image, kernel [2]int
			window        Window
			y, dx         []float64
		}{
			{[2]int{1, 1}, [2]int{5, 5}, Window{Pad: [2]int{2, 2}}, []float64{26}, []float64{13}},
			{[2]int{1, 1}, [2]int{1, 3}, Window{Pad: [2]int{0, 4}, Dilation: [2]int{1, 4}}, []float64{4}, []float64{2}},
			{[2]int{1, 1}, [2]int{3, 5}, Window{Pad: [2]int{1, 2}, Stride: [2]int{2, 2}}, []float64{16}, []float64{8}},
		} {
			ad := New(NewCPU(), s)
			n := tc.kernel[0] * tc.kernel[1]
			values := make([]float64, n) // 1, 2, 3, ...
			for i := range values {
				values[i] = float64(i + 1)
			}
			x := ad.Track(Full(ad, 2, 1, 1, tc.image[0], tc.image[1]).Cast(tensor.F64))
			w := ad.Track(Floats(ad, values, 1, 1, tc.kernel[0], tc.kernel[1]))
			y := x.Conv2d(w, Float[*Autodiff[*CPU, Strategy]]{}, tc.window)
			got, err := y.Float64s()
			require.NoError(t, err)
			require.Equal(t, tc.y, got)
			g, err := ad.Backward(y, WithSum())
			require.NoError(t, err)
			dx, _ := ad.Grad(x, g)
			got, err = dx.Float64s()
			require.NoError(t, err)
			require.Equal(t, tc.dx, got)
			dw, _ := ad.Grad(w, g)
			got, err = dw.Float64s()
			require.NoError(t, err)
			want := make([]float64, n)
			want[n/2] = 2
			require.Equal(t, want, got)
		}
		// No channels: y is the bias, and nothing has a gradient of elements.
		ad := New(NewCPU(), s)
		x, w := ad.Track(Zeros(ad, 3, 0, 5, 5)), ad.Track(Zeros(ad, 2, 0, 3, 3))
		bias := ad.Track(Floats(ad, []float32{1, 2}))
		y := x.Conv2d(w, bias, Window{})
		got, err := y.Sum(0, 2, 3).Float64s()
		require.NoError(t, err)
		require.Equal(t, []float64{27, 54}, got)
		g, err := ad.Backward(y, WithSum())
		require.NoError(t, err)
		dw, ok := ad.Grad(w, g)
		require.True(t, ok)
		require.Equal(t, []int{2, 0, 3, 3}, dw.Shape())
	})
}
