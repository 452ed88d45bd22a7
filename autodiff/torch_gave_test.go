package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// torchGave has what PyTorch 2.15 gave for TestLayersBesidePyTorch: of each result the sum of its elements times sin(1), sin(2)
// and so on.
var torchGave = map[string]float64{
	"attention, blind":                         -1.45190446665,
	"attention, blind, gradient 0":             -0.12227780046,
	"attention, blind, gradient 1":             -0.145706979123,
	"attention, blind, gradient 2":             -1.55517977893,
	"attention, scale and bias":                -0.513129825523,
	"attention, causal":                        -0.517765840219,
	"attention weights, mean":                  0.486085683247,
	"attention weights, mean, gradient 0":      -0.17389856684,
	"attention weights, mean, gradient 1":      0.465005893943,
	"attention weights":                        0.635898756527,
	"attention weights, gradient 0":            -0.436472498011,
	"attention weights, gradient 1":            0.13108469985,
	"embedding, by frequency":                  0.883769296276,
	"embedding, by frequency, gradient 0":      -0.501023274868,
	"bag, by frequency":                        -0.0817394703967,
	"bag, by frequency, gradient 0":            0.4587294043,
	"embedding, norm 2":                        0.587549215211,
	"table, norm 2":                            1.86311572041,
	"embedding, norm 1":                        0.325999529132,
	"table, norm 1":                            1.58845299032,
	"embedding, norm 3":                        0.648897308638,
	"table, norm 3":                            1.93785257892,
	"cross attention":                          0.80040378465,
	"cross attention, gradient 0":              -0.807245226288,
	"cross attention, gradient 1":              -0.191385989028,
	"cross attention, other features":          0.617855758643,
	"cross_entropy":                            1.52128149288,
	"cross_entropy, gradient 0":                0.311640459981,
	"cross_entropy, weight":                    1.5900308196,
	"cross_entropy, weight, gradient 0":        0.341123316516,
	"cross_entropy, sum":                       9.93776187182,
	"cross_entropy, none":                      3.33225769553,
	"cross_entropy, images":                    1.31624662725,
	"cross_entropy, images, gradient 0":        0.27306503014,
	"cross_entropy, one":                       0.940152636135,
	"nll":                                      0.172041850097,
	"soft":                                     6.00203149853,
	"l1":                                       4.51934237074,
	"l1, gradient 0":                           2.20408871825,
	"l1, gradient 1":                           -2.20408871825,
	"huber":                                    0.345249106884,
	"huber, gradient 0":                        0.215950957647,
	"huber, gradient 1":                        -0.215950957647,
	"smooth_l1":                                0.493213009835,
	"smooth_l1, gradient 0":                    0.308501368067,
	"smooth_l1, gradient 1":                    -0.308501368067,
	"mse none":                                 1.75429321916,
	"kl":                                       -0.235515542058,
	"kl mean":                                  -0.0785051806859,
	"kl gradient 0":                            0.027819865785,
	"kl log":                                   0.53231586345,
	"poisson":                                  1.12073440845,
	"gaussian":                                 1.49100245452,
	"gaussian, gradient 0":                     0.136014867848,
	"gaussian, gradient 1":                     -0.136014867848,
	"gaussian, gradient 2":                     -9.17978344471,
	"bce_with_logits":                          2.59294809577,
	"bce_with_logits, gradient 0":              0.613767160367,
	"bce":                                      1.00716203902,
	"bce at 0 and 1":                           2.36667182046,
	"focal":                                    0.193339803193,
	"cosine":                                   0.0979797003478,
	"cosine, gradient 0":                       0.255800200861,
	"cosine, gradient 1":                       1.09029350219,
	"cosine_embedding":                         2.40831043625,
	"cosine_embedding, gradient 0":             -0.918998935074,
	"cosine_embedding, gradient 1":             -0.329098812732,
	"triplet":                                  3.66512543584,
	"triplet, gradient 0":                      0.0167139931497,
	"triplet, gradient 1":                      -0.883998696718,
	"ranking":                                  2.51025015719,
	"embedding":                                -1.5980387591,
	"embedding, gradient 0":                    0.447133434283,
	"bag sum":                                  -1.89417203405,
	"bag sum, gradient 0":                      -0.590535545382,
	"bag sum, gradient 1":                      -0.759197349359,
	"bag mean":                                 -0.826177661403,
	"bag mean, gradient 0":                     0.233115332337,
	"bag max":                                  -0.290372212029,
	"bag max, gradient 0":                      1.52116781064,
	"conv1d":                                   3.06977342811,
	"conv1d, gradient 0":                       0.56914673179,
	"conv1d, gradient 1":                       1.61535813773,
	"conv_transpose1d":                         -1.74043632016,
	"conv3d":                                   -0.173612260707,
	"conv3d, gradient 0":                       -0.0623576365996,
	"conv3d, gradient 1":                       -0.304662190507,
	"conv_transpose3d":                         -0.401421956402,
	"conv_transpose3d, gradient 0":             -0.966284838789,
	"conv_transpose3d, gradient 1":             -2.42779480948,
	"max_pool1d":                               0.604285271724,
	"avg_pool1d":                               -0.0604580856299,
	"max_pool3d":                               0.299242897774,
	"avg_pool3d":                               -0.0111619423156,
	"avg_pool3d, no padding":                   -0.017656602375,
	"max_pool1d, ceil":                         0.892087897499,
	"max_pool1d, ceil, gradient 0":             0.183412074054,
	"avg_pool1d, ceil":                         -0.0732929779864,
	"avg_pool1d, ceil, gradient 0":             -0.254350895754,
	"max_pool2d, ceil":                         -0.334845749511,
	"max_pool2d, ceil, gradient 0":             -0.541905030553,
	"avg_pool2d, ceil":                         -0.197385852813,
	"avg_pool2d, ceil, gradient 0":             0.000434762275206,
	"avg_pool2d, ceil, no padding":             0.0128853987548,
	"avg_pool2d, ceil, no padding, gradient 0": 0.662487279922,
	"max_pool3d, ceil":                         1.99126779627,
	"max_pool3d, ceil, gradient 0":             2.39450818218,
	"avg_pool3d, ceil":                         0.299767432794,
	"avg_pool3d, ceil, gradient 0":             -0.185973435306,
	"adaptive_avg":                             0.315469836282,
	"adaptive_max":                             1.57800148004,
}

// wave makes a tensor of f(0), f(1) and so on.
func wave(ad adf, f func(float64) float64, shape ...int) Float[adf] {
	x := make([]float64, size(shape))
	for i := range x {
		x[i] = f(float64(i))
	}
	return Floats(ad, x, shape...)
}

// beside compares a result, and if leaves are given their gradients, of the sum of the result times cos(0), cos(1) and so on.
type beside struct {
	t  *testing.T
	ad adf
	// left are the names that nothing was compared with yet.
	left map[string]float64
}

func (b *beside) one(name string, x Float[*CPU]) {
	b.t.Helper()
	want, ok := b.left[name]
	require.True(b.t, ok, name)
	delete(b.left, name)
	sum := 0.0
	for i, v := range list(b.t, x) {
		sum += float64(v * math.Sin(float64(i+1)))
	}
	require.InDelta(b.t, want, sum, 1e-11*(1+math.Abs(want)), name)
}

func (b *beside) all(name string, y Float[adf], leaves ...Float[adf]) {
	b.t.Helper()
	require.NoError(b.t, y.Err(), name)
	b.one(name, b.ad.Inner(y))
	if len(leaves) == 0 {
		return
	}
	if y.Rank() > 0 {
		y = y.Mul(wave(b.ad, math.Cos, y.Shape()...))
	}
	g, err := b.ad.Backward(y, WithSum())
	require.NoError(b.t, err, name)
	for i, x := range leaves {
		dx, ok := b.ad.Grad(x, g)
		require.True(b.t, ok, name)
		b.one(name+", gradient "+string(rune('0'+i)), dx)
	}
}
