package autodiff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Layers and losses of nothing are nothing, biases or, of means, NaN; and so are their gradients.
func TestLayersOfNothing(t *testing.T) {
	ad := over(None{})
	leaf := func(shape ...int) Float[adf] { return ad.Track(Ones(ad, shape...)) }
	none, whole, sum := Float[adf]{}, Int[adf]{}, WithReduction("sum")
	at := func(shape ...int) Int[adf] { return Ints(ad, []int64{}, shape...) }
	x := leaf(0, 3)
	for name, c := range map[string]struct {
		y     Float[adf]
		shape []int
		each  float64
	}{
		"conv3d of no volumes":           {leaf(0, 2, 3, 3, 3).Conv3d(leaf(4, 2, 2, 2, 2), none, Window3d{Pad: [3]int{1, 0, 0}}), []int{0, 4, 4, 2, 2}, 0},
		"conv3d of no channels":          {leaf(1, 0, 2, 2, 2).Conv3d(leaf(2, 0, 2, 2, 2), leaf(2), Window3d{}), []int{1, 2, 1, 1, 1}, 1},
		"conv_transpose3d of no volumes": {leaf(0, 2, 2, 2, 2).ConvTranspose3d(leaf(2, 3, 2, 2, 2), leaf(3), Window3d{}), []int{0, 3, 3, 3, 3}, 0},
		"conv1d of no sequences":         {leaf(0, 2, 3).Conv1d(leaf(4, 2, 2), none, Window1d{}), []int{0, 4, 2}, 0},
		"max_pool3d":                     {leaf(0, 2, 2, 2).MaxPool3d(Window3d{Kernel: [3]int{2, 2, 2}}), []int{0, 1, 1, 1}, 0},
		"adaptive_avg_pool":              {leaf(0, 5).AdaptiveAvgPool(2), []int{0, 2}, 0},
		"adaptive_max_pool":              {leaf(0, 5).AdaptiveMaxPool(2), []int{0, 2}, 0},
		"cross_entropy":                  {x.CrossEntropy(at(0), 0.1, sum), []int{}, 0},
		"cross_entropy of pixels":        {leaf(2, 3, 0).CrossEntropy(at(2, 0), 0, WithReduction("none")), []int{2, 0}, 0},
		"soft_cross_entropy":             {x.SoftCrossEntropy(Ones(ad, 0, 3), 0, sum), []int{}, 0},
		"l1":                             {x.L1(leaf(0, 3), sum), []int{}, 0},
		"bce":                            {x.BCE(leaf(0, 3), sum), []int{}, 0},
		"embedding_bag of no bags":       {leaf(4, 3).EmbeddingBag(at(0), at(0), none, "mean"), []int{0, 3}, 0},
		"embedding_bag of empty bags":    {leaf(4, 3).EmbeddingBag(at(0), Ints(ad, []int64{0, 0}), none, "max"), []int{2, 3}, 0},
		"embedding_bag of no columns":    {leaf(4, 0).EmbeddingBag(at(2, 0), whole, none, "sum"), []int{2, 0}, 0},
		"attention of no keys":           {leaf(2, 4).ScaledDotProductAttention(leaf(0, 4), leaf(0, 3), CausalMask(ad, 2, 0)), []int{2, 3}, 0},
		"attention of no queries":        {leaf(0, 4).ScaledDotProductAttention(leaf(2, 4), leaf(2, 3), CausalMask(ad, 0, 2)), []int{0, 3}, 0},
		"cross attention of no keys": {leaf(1, 2, 2).MultiheadCrossAttention(leaf(1, 0, 2), leaf(1, 0, 2), 1, Attention[adf]{InWeight: leaf(6, 2), OutWeight: leaf(2, 2)}, Bool[adf]{}),
			[]int{1, 2, 2}, 0},
	} {
		require.NoError(t, c.y.Err(), name)
		require.Equal(t, c.shape, c.y.Shape(), name)
		for _, v := range list(t, c.y) {
			require.Equal(t, c.each, v, name)
		}
		_, err := ad.Backward(c.y, WithSum())
		require.NoError(t, err, name)
	}
	mean, err := x.CrossEntropy(at(0), 0, WithIgnoreIndex(1)).Item()
	require.NoError(t, err)
	require.NotEqual(t, mean, mean)
	mean, err = Ones(ad, 2, 3).CrossEntropy(Ints(ad, []int32{-100, -100}), 0).Item()
	require.NoError(t, err)
	require.NotEqual(t, mean, mean)
}
