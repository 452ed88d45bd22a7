package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Extents of 1<<40 and 1<<62, where an int has 64 bits.
const far, farther = math.MaxInt>>23 + 1, math.MaxInt/2 + 1

// A tensor without elements may have any other extents: what is made of it, and its gradient, take neither
// time nor memory for them.
func TestExtentsOfNothing(t *testing.T) {
	ad := over(None{})
	var none Float[adf]
	rows, columns, square := ad.Track(Zeros(ad, far, 0)), ad.Track(Zeros(ad, 0, far)), Zeros(ad, 0, 0)
	images := ad.Track(Zeros(ad, 0, 1, 2, 2))
	for name, c := range map[string]struct {
		y     Float[adf]
		shape []int
	}{
		"linear":               {rows.Linear(square, ad.Track(Zeros(ad, 0))), []int{far, 0}},
		"quantized_linear":     {rows.QuantizedLinear(square, none), []int{far, 0}},
		"interpolate":          {images.Interpolate(far, far, SampleMode{}), []int{0, 1, far, far}},
		"interpolate, nearest": {Zeros(ad, 0, 1, farther, farther).Interpolate(2, 3, SampleMode{Mode: "nearest"}), []int{0, 1, 2, 3}},
		"group_norm":           {Zeros(ad, farther, 4, 0).GroupNorm(2, none, none, 1), []int{farther, 4, 0}},
		"flatten":              {Zeros(ad, farther, farther, 0).Flatten(0), []int{0}},
		"reshape":              {columns.Reshape(farther, 4, 0), []int{farther, 4, 0}},
		"one_hot":              {Ints(ad, []int64{}).OneHot(far), []int{0, far}},
		"dropout":              {rows.Dropout(0.5, 1), []int{far, 0}},
		"embedding":            {columns.Embedding(Ints(ad, []int64{})), []int{0, far}},
		"fake_quantize":        {columns.FakeQuantize(Zeros(ad, 0), PerChannel(0, -8, 7)), []int{0, far}},
		"grid_sample":          {images.GridSample(Zeros(ad, 0, far, 1, 2), SampleMode{}), []int{0, 1, far, 1}},
		"affine_grid":          {Zeros(ad, 0, 2, 3).AffineGrid(false, 0, 1, far, 1), []int{0, far, 1, 2}},
		"attention":            {columns.ScaledDotProductAttention(columns, columns, Bool[adf]{}), []int{0, far}},
	} {
		require.NoError(t, c.y.Err(), name)
		require.Equal(t, c.shape, c.y.Shape(), name)
		if ad.IsTracked(c.y) {
			_, err := ad.Backward(c.y, WithSum(), KeepGraph())
			require.NoError(t, err, name)
		}
	}
}

// What no tensor has room for, or would take a step for each extent, is an error.
func TestExtentsBeyondAll(t *testing.T) {
	be := NewCPU()
	var none cpuFloat
	x, square := Zeros(be, farther, 0), Zeros(be, 0, 0)
	recurrent := Recurrent[*CPU]{InWeight: square, HiddenWeight: square}
	_, lstm, _ := Zeros(be, math.MaxInt, 0).LSTM(recurrent, none, none)
	_, gru := Zeros(be, math.MaxInt, 0).GRU(recurrent, none)
	image := Zeros(be, 1, 0, 4, 4)
	for want, y := range map[string]cpuFloat{
		"0]; want [l, ..., in], with 1 to 16777216 steps": lstm,
		"gru: x is":                         gru,
		"cat: the result would be f32[":     Cat(0, x, x, x, x),
		"want two elements of each":         Zeros(be, 0, farther).BatchNorm(BatchNorm[*CPU]{}, true, 0.1, 1),
		"reshape: ":                         Zeros(be, 0, farther, 4).Flatten(1),
		"in 4 groups; want [n, c, h, w]":    image.Conv2d(Zeros(be, 0, farther, 2, 2), none, Window{Groups: 4}),
		"and nothing beyond 1073741824":     Zeros(be, 1, 0, math.MaxInt, 4).ConvTranspose2d(Zeros(be, 0, 1, 2, 2), none, Window{Stride: [2]int{2, 2}}),
		"[..., 4*hidden] and [..., hidden]": {square.run(OpLSTMCell, nil, Zeros(be, 0, farther).Tensor)},
	} {
		require.ErrorContains(t, y.Err(), want)
	}
}
