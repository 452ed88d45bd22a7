package autodiff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A graph holds attributes of its own: a caller's slices may change before Backward.
func TestSlicesThatChangeLater(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x := leaf(ad, []float64{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2)
		scale := leaf(ad, []float64{0.5, 0.25}, 1, 1, 2)
		gradients := func(change bool) [][]float64 {
			axes, shape, block := []int{2, 0, 1}, []int{4, 2}, []int64{2, 2, 1}
			scheme := Scheme{Granularity: "per_block", BlockSize: block, QMin: -8, QMax: 7}
			y := x.FakeQuantize(scale, scheme).Add(x.Quantize(scale, scheme).Dequantize(x.DType()))
			y = y.Permute(axes...).Reshape(shape...).Mul(leaf(ad, []float64{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2)).Sum(axes[2:]...)
			if change {
				copy(axes, []int{0, 1, 0})
				copy(shape, []int{1, 8})
				copy(block, []int64{1, 2, 2})
			}
			g, err := ad.Backward(y, WithSum())
			require.NoError(t, err)
			dx, _ := ad.Grad(x, g)
			ds, _ := ad.Grad(scale, g)
			return [][]float64{list(t, dx), list(t, ds)}
		}
		require.Equal(t, gradients(false), gradients(true))
	})
}

// Where there is nothing to choose from, an error says so, not "want 0 to -1".
func TestIndicesOfNothing(t *testing.T) {
	be := NewCPU()
	i := Ints(be, []int64{1})
	for _, err := range []error{
		Zeros(be, 0, 3).Select(0, i).Err(), Zeros(be, 0).Gather(0, i).Err(), i.OneHot(0).Err(), Zeros(be, 1, 0).CrossEntropy(i, 0).Err(),
	} {
		require.ErrorContains(t, err, "index 0 is 1; want none: there are no elements to choose from")
	}
}

// A backend's own operations take what no method of Float asks for.
func TestAxisThatIsKept(t *testing.T) {
	be := NewCPU()
	x := Floats(be, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	for _, op := range []Op{OpProd, OpMax} {
		y := Float[*CPU]{x.run(op, &Attr{Axis: 1, KeepDim: true})}
		require.Equal(t, []int{2, 1}, y.Shape())
	}
	grad := Float[*CPU]{Ones(be, 2, 1).run(OpProdGrad, &Attr{Axis: -1, KeepDim: true}, x.Tensor)}
	require.Equal(t, []float64{6, 3, 2, 30, 24, 20}, list(t, grad))
}

// Bounds that are equal, windows of one element, results of one.
func TestLeastArguments(t *testing.T) {
	be := NewCPU()
	one := Floats(be, []float32{-3}, 1, 1, 1, 1)
	require.Equal(t, []float64{2}, list(t, one.Clamp(2, 2)))
	require.Equal(t, []float64{-3}, list(t, one.MaxPool2d(Window{Kernel: [2]int{1, 1}})))
	require.Equal(t, []float64{6}, list(t, one.ConvTranspose2d(Full(be, -2, 1, 1, 1, 1), Float[*CPU]{}, Window{})))
	require.ErrorContains(t, Ones(be, 2).MaxPool2d(Window{Kernel: [2]int{1, 1}}).Err(), "want [..., h, w]")
	require.Equal(t, "none", Info{}.String())
}
