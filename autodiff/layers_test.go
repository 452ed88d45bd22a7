package autodiff

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// TestLayers compares what is made of several operations with what PyTorch 2.15 gave.
func TestLayers(t *testing.T) {
	be := NewCPU()
	of := func(f func(float64) float64, shape ...int) Float[*CPU] {
		x := make([]float64, size(shape))
		for i := range x {
			x[i] = f(float64(i))
		}
		return Floats(be, x, shape...)
	}
	row := func(x ...float64) Float[*CPU] { return Floats(be, x) }
	image := Floats(be, []float64{1, 2, 4, -1, 0, 3, -2, 5, 7, 1, 1, 2}, 1, 1, 3, 4)
	g, q := of(math.Sin, 1, 4, 6), of(math.Sin, 1, 4, 2)
	attention := Attention[*CPU]{
		InWeight: of(math.Cos, 6, 2), InBias: of(func(i float64) float64 { return i / 10 }, 6),
		OutWeight: Floats(be, []float64{1, 0.5, -1, 2}, 2, 2), OutBias: row(float64(float32(0.1)), float64(float32(0.2))),
	}
	norm := BatchNorm[*CPU]{row(1, 2, 3), row(0, 1, -1), row(0, 0, 0), row(1, 1, 1)}
	channels := of(math.Sin, 2, 3, 2)
	trained := channels.BatchNorm(norm, true, 0.3, 1e-3)
	channels.MulScalar(2).AddScalar(1).BatchNorm(norm, true, 0.3, 1e-3)
	recurrent := func(gates int) Recurrent[*CPU] {
		n := gates * 3
		return Recurrent[*CPU]{of(math.Cos, n, 2), of(math.Sin, n, 3), of(func(i float64) float64 { return i / 10 }, n), of(math.Cos, n)}
	}
	none, logits := Float[*CPU]{}, row(-30, -1.5, 0, 0.5, 40)
	lstm, _, lstmC := of(math.Sin, 3, 2, 2).LSTM(recurrent(4), of(math.Cos, 2, 3), of(math.Sin, 2, 3))
	plainLSTM, _, _ := of(math.Sin, 3, 2).LSTM(recurrent(4), none, none)
	gru, gruH := of(math.Sin, 3, 2, 2).GRU(recurrent(3), of(math.Cos, 2, 3))
	for name, c := range map[string]struct {
		got  Float[*CPU]
		want []float64
	}{
		"bilinear":          {image.Interpolate(5, 3, SampleMode{}), []float64{1.16666666667, 3, -0.166666666667, 0.9, 2, 1.43333333333, 0.5, 0.5, 3.83333333333, 3.8, 0.8, 2.63333333333, 6, 1, 1.83333333333}},
		"with corners":      {image.Interpolate(5, 2, SampleMode{AlignCorners: true}), []float64{1, -1, 0.5, 2, 0, 5, 3.5, 3.5, 7, 2}},
		"nearest":           {image.Interpolate(5, 3, SampleMode{Mode: "nearest"}), []float64{1, 2, 4, 1, 2, 4, 0, 3, -2, 0, 3, -2, 7, 1, 1}},
		"group_norm":        {g.GroupNorm(2, row(1, 2, 3, 4), row(0, 1, 0, -1), 1e-3).Slice(1, 2, 3), []float64{-2.54256533295, 1.62310834965, 4.10682214442, 2.62506104267, -1.45985063214, -4.39226392472}},
		"rms_norm":          {g.RMSNorm(Float[*CPU]{}, 1e-3).Slice(1, 3, 4), []float64{-1.091165168, 0.21776773356, 1.32648598517, 1.21563913942, -0.0128607249063, -1.22953649807}},
		"batch_norm":        {trained, []float64{-0.661016555563, 1.1641091187, 2.6822236365, -1.67870126927, -0.0533411644246, -3.34482057193, -1.26706050569, 0.763967942554, 3.13672700317, -0.140249370401, 3.41172602105, -4.0135642847}},
		"running mean":      {norm.RunningMean, []float64{0.546856022279, 0.796508568767, -0.360096962701}},
		"running variance":  {norm.RunningVar, []float64{0.887743106326, 0.721457046898, 0.551923470129}},
		"batch_norm served": {channels.BatchNorm(norm, false, 0.3, 1e-3), []float64{-0.580075972271, 0.31251198464, 1.2653934374, -0.542136572276, -2.60050486866, -3.41596335192, -0.876465168297, 0.116820696129, 1.45377743678, 0.0955258584542, -1.74204030558, -3.58164348119}},
		"lstm":              {lstm.Slice(0, 1, 3), []float64{0.0157954194025, 0.424511754325, 0.66873711291, 0.521870701248, 0.147351958667, 0.141694727867, 0.510939679588, 0.408668359111, 0.131783382358, 0.0299457689106, 0.399202062616, 0.45711689035}},
		"lstm, c":           {lstmC, []float64{0.986133901694, 0.777884790427, 0.293071831097, 0.105027994705, 1.10578970024, 0.532406221385}},
		"lstm from zeros":   {plainLSTM, []float64{0.459293188258, 0.125444520847, 0.131187340605, 0.655364446219, 0.261151464409, -0.0436088479678, -0.0110420270171, 0.334975222928, 0.288072226127}},
		"gru":               {gru.Slice(0, 1, 3), []float64{-0.474998361705, 0.849762298664, -0.236009414197, 0.638505628967, 0.232407042194, 0.401799639755, 0.205324296283, 0.706449838896, -0.249155862354, -0.135473974376, 0.447988435719, 0.51112623776}},
		"gru, h":            {gruH, []float64{0.205324296283, 0.706449838896, -0.249155862354, -0.135473974376, 0.447988435719, 0.51112623776}},
		"conv_transpose2d":  {of(math.Sin, 1, 4, 2, 2).ConvTranspose2d(of(math.Cos, 4, 1, 3, 2), row(0, 0.1), Window{Stride: [2]int{2, 1}, Pad: [2]int{1, 0}, OutputPad: [2]int{1, 0}, Groups: 2}), []float64{0.110114788654, 0.478893681754, 0.0406549644346, 1.27602239477, 1.30381707809, 0.806000732928, -0.337746283219, -0.79993193094, -0.738308120845, -0.359906873191, -0.386804256293, 0.042938034167, 0.0163163117634, -0.129892248076, -0.443219212156, -0.115876185594, -0.62985300812, -0.501774073051, 0.42986115881, 0.0993365516799, 0.503498795272, -0.369581575694, 0.0292540910394, 0.0286658092964}},
		"softplus":          {logits.Softplus(), []float64{9.35762296884e-14, 0.201413277983, 0.69314718056, 0.97407698418, 40}},
		"bce_with_logits":   {logits.BCEWithLogits(row(0, 1, 0.25, 0.5, 0.9)), []float64{1.42372748854}},
		"silu":              {g.Silu().Slice(1, 0, 1), []float64{0, 0.587998830131, 0.6481984657, 0.0755304720887, -0.241677975813, -0.265711803075}},
		"attention":         {q.MultiheadAttention(2, attention, Bool[*CPU]{}), []float64{0.770250722653, 1.63268480601, 0.699837084064, 1.37062996706, 0.418996669577, 0.323672811248, 0.707470651268, 1.38071351144}},
		"attention, causal": {q.MultiheadAttention(2, attention, CausalMask(be, 4)), []float64{-0.014827629044, 1.57413787463, -0.0337356272614, 0.704426140247, 0.427548609674, 0.0129946970167, 0.707470651268, 1.38071351144}},
	} {
		require.NoError(t, c.got.Err(), name)
		require.InDeltaSlice(t, c.want, list(t, c.got), 1e-10, name)
	}
	half := image.Cast(tensor.BF16).Interpolate(5, 3, SampleMode{})
	require.Equal(t, list(t, image.Cast(tensor.BF16).Cast(tensor.F32).Interpolate(5, 3, SampleMode{}).Cast(tensor.BF16)), list(t, half))
}

func TestDropout(t *testing.T) {
	ad := over(None{})
	x := ad.Track(Ones(ad, 100, 100))
	y := x.Dropout(0.25, 3)
	kept := 0
	for _, v := range list(t, y) {
		if v != 0 {
			require.Equal(t, float64(float32(1)/0.75), v)
			kept++
		}
	}
	require.InDelta(t, 7500, kept, 200)
	require.Equal(t, list(t, y), list(t, x.Dropout(0.25, 3)))
	require.NotEqual(t, list(t, y), list(t, x.Dropout(0.25, 4)))
	require.Equal(t, list(t, x), list(t, x.Dropout(0, 3)))
	all := x.Dropout(1, 3)
	g, err := ad.Backward(all.Sum())
	require.NoError(t, err)
	dx, _ := ad.Grad(x, g)
	require.Equal(t, make([]float64, 10000), list(t, dx))
}

func TestArgumentsOfLayers(t *testing.T) {
	ad := over(None{})
	x, image, none := Ones(ad, 2, 3), Ones(ad, 1, 1, 2, 2), Float[adf]{}
	first := func(y, _, _ Float[adf]) Float[adf] { return y }
	weights := Recurrent[adf]{InWeight: Ones(ad, 8, 3), HiddenWeight: Ones(ad, 8, 2)}
	gru, gruH := x.GRU(weights, none)
	_, _, failedC := Ones(ad, 4, 2).LSTM(weights, none, none)
	for want, y := range map[string]Float[adf]{
		"batch_norm: x is f32[3]; want [n, c, ...]":                                                       Ones(ad, 3).BatchNorm(BatchNorm[adf]{}, true, 0.1, 1),
		"batch_norm: the running variance is f32[2]; want f32[3]":                                         x.BatchNorm(BatchNorm[adf]{RunningVar: Ones(ad, 2)}, true, 0.1, 1),
		"batch_norm: the momentum is NaN; want a share":                                                   x.BatchNorm(BatchNorm[adf]{}, true, math.NaN(), 1),
		"batch_norm: x is f32[1, 3]; want two elements of each channel at least":                          x.Slice(0, 0, 1).BatchNorm(BatchNorm[adf]{}, true, 0.1, 1),
		"batch_norm: the running mean or variance is absent; want both":                                   x.BatchNorm(BatchNorm[adf]{RunningMean: Ones(ad, 3)}, false, 0.1, 1),
		"lstm: x is f32[3]; want [l, ..., in]":                                                            first(Ones(ad, 3).LSTM(weights, none, none)),
		"lstm: x is f32[0, 3]; want [l, ..., in], with 1 to 16777216 steps":                               first(Ones(ad, 0, 3).LSTM(weights, none, none)),
		"lstm: HiddenWeight: autodiff: the tensor is absent":                                              first(x.LSTM(Recurrent[adf]{}, none, none)),
		"linear: the bias is f32[3]; want shape [8]":                                                      first(x.LSTM(Recurrent[adf]{Ones(ad, 8, 3), Ones(ad, 8, 2), Ones(ad, 3), none}, none, none)),
		"lstm: the state c is f32[3]; want f32[2], to go with x of f32[2, 3]":                             first(x.LSTM(weights, none, Ones(ad, 3))),
		"lstm: InWeight is f32[8, 3]; want shape [8, 2], to go with HiddenWeight of":                      failedC,
		"conv_transpose2d: x is f32[2, 3] and the weight f32[1, 1, 2, 2], in 1 groups; want [n, c, h, w]": x.ConvTranspose2d(image, none, Window{}),
		"conv_transpose2d: x is f32[1, 1, 2, 2] and the weight f32[1, 1, 2, 2], in 2 groups":              image.ConvTranspose2d(image, none, Window{Groups: 2}),
		"conv_transpose2d: x is f32[1, 1, 2, 2] and the weight f32[1, 1, 0, 2]; want a pixel":             image.ConvTranspose2d(Ones(ad, 1, 1, 0, 2), none, Window{}),
		"conv_transpose2d: x is f32[1, 1, 0, 2] and the weight f32[1, 1, 2, 2]; want a pixel and a tap":   Ones(ad, 1, 1, 0, 2).ConvTranspose2d(image, none, Window{}),
		"conv_transpose2d: the weight: autodiff: the tensor is absent":                                    image.ConvTranspose2d(none, none, Window{}),
		"conv_transpose2d: the bias is f32[2]; want shape [1]":                                            image.ConvTranspose2d(image, Ones(ad, 2), Window{}),
		"conv_transpose2d: the bias is f32[2, 3]; want shape [1]":                                         image.ConvTranspose2d(image, x, Window{}),
		"conv_transpose2d: OutputPad is [0 1]; want 0 or more, and less than the strides [2 1]":           image.ConvTranspose2d(image, none, Window{Stride: [2]int{2, 1}, OutputPad: [2]int{0, 1}}),
		"conv_transpose2d: the window is":                                                                 image.ConvTranspose2d(image, none, Window{Pad: [2]int{-1, 0}}),
		"would be -1 by -1":                                                                               image.ConvTranspose2d(image, none, Window{Pad: [2]int{2, 2}}),
		"bce_with_logits: shapes [2, 3] and [1, 1, 2, 2] do not broadcast":                                x.BCEWithLogits(image),
		"gru: HiddenWeight is f32[8, 2]; want [3*hidden, hidden]":                                         gru,
		"gru: HiddenWeight is f32[8, 2]; want [3*hidden":                                                  gruH,
		"group_norm: x is f32[3]; want [n, c, ...]":                                                       Ones(ad, 3).GroupNorm(1, none, none, 1),
		"group_norm: 2 groups of x, which is f32[2, 3]; want a number that its 3 channels are":            x.GroupNorm(2, none, none, 1),
		"group_norm: 0 groups":                          x.GroupNorm(0, none, none, 1),
		"group_norm: the weight is f32[2]; want f32[3]": x.GroupNorm(1, Ones(ad, 2), none, 1),
		"chunk: 2 parts of axis 1 of f32[2, 3]; want a number that its extent is a multiple of": x.Chunk(1, 2)[1],
		"chunk: 0 parts of axis 1":                                                     x.Chunk(1, 0)[0],
		"slice: axis 2 is out of range":                                                x.Chunk(2, 1)[0],
		"rms_norm: eps is NaN":                                                         x.RMSNorm(none, math.NaN()),
		"rms_norm: the weight is f32[2]; want f32[3]":                                  x.RMSNorm(Ones(ad, 2), 0),
		"dropout: p is 1.5; want a probability":                                        x.Dropout(1.5, 0),
		"dropout: p is NaN":                                                            x.Dropout(math.NaN(), 0),
		"interpolate: x is f32[2, 3]; want [n, c, h, w]":                               x.Interpolate(2, 2, SampleMode{}),
		"interpolate: the size is 0 by 2":                                              image.Interpolate(0, 2, SampleMode{}),
		"interpolate: the mode is \"cubic\"; want bilinear or nearest":                 image.Interpolate(2, 2, SampleMode{Mode: "cubic"}),
		"interpolate: the padding is \"border\"":                                       image.Interpolate(2, 2, SampleMode{Padding: "border"}),
		"interpolate: nearest with AlignCorners":                                       image.Interpolate(2, 2, SampleMode{Mode: "nearest", AlignCorners: true}),
		"scaled_dot_product_attention: q is f32[3]; want":                              Ones(ad, 3).ScaledDotProductAttention(x, x, Bool[adf]{}),
		"scaled_dot_product_attention: q is f32[2, 3], k f32[2, 2] and v f32[2, 3]":    x.ScaledDotProductAttention(Ones(ad, 2, 2), x, Bool[adf]{}),
		"multihead_attention: x is f32[2, 3] in 2 heads; want":                         x.MultiheadAttention(2, Attention[adf]{}, Bool[adf]{}),
		"linear: the weight is absent":                                                 x.MultiheadAttention(1, Attention[adf]{}, Bool[adf]{}),
		"multihead_attention: OutWeight is f32[2, 3]; want shape [3, 3], to go with x": x.MultiheadAttention(1, Attention[adf]{InWeight: Ones(ad, 9, 3), OutWeight: x}, Bool[adf]{}),
		"scaled_dot_product_attention: the mask is bool[3, 3]; want what broadcasts to [1, 2, 2], [..., l, s]": x.MultiheadAttention(1, Attention[adf]{InWeight: Ones(ad, 9, 3), OutWeight: Ones(ad, 3, 3)}, CausalMask(ad, 3)),
	} {
		require.ErrorContains(t, y.Err(), want)
	}
	// Numbers that no list has room for.
	for _, y := range []Float[adf]{Ones(ad, 0, 3).Chunk(0, math.MaxInt)[0], image.Interpolate(math.MaxInt, 3, SampleMode{Mode: "nearest"}), image.Interpolate(2, math.MaxInt, SampleMode{})} {
		require.ErrorContains(t, y.Err(), "at most")
	}
}

// Parameters of layers begin as PyTorch's do: with numbers up to the bound that is said of each, or all alike.
func TestParametersBegin(t *testing.T) {
	p := NewParams(NewCPU(), 1)
	p.Linear("linear", 9, 400)
	p.Conv2d("conv", 4, 100, 3)
	p.ConvTranspose2d("transposed", 100, 4, 3)
	p.Norm("norm", 4)
	p.BatchNorm("bn", 4)
	p.LSTM("lstm", 0, 20, 16)
	p.GRU("gru", 1, 20, 16)
	p.Attention("attention", 24)
	bounds := map[string]float64{
		"linear.weight": 1. / 3, "linear.bias": 1. / 3, "conv.weight": 1. / 6, "conv.bias": 1. / 6, "transposed.weight": 1. / 6,
		"lstm.weight_ih_l0": 0.25, "lstm.weight_hh_l0": 0.25, "lstm.bias_ih_l0": 0.25, "lstm.bias_hh_l0": 0.25,
		"gru.weight_ih_l1": 0.25, "gru.weight_hh_l1": 0.25, "gru.bias_ih_l1": 0.25, "gru.bias_hh_l1": 0.25,
		"attention.in_proj_weight": 0.25, "attention.out_proj.weight": 1 / math.Sqrt(24), // sqrt(6/96) the former
	}
	alike := map[string]float64{
		"norm.weight": 1, "norm.bias": 0, "bn.weight": 1, "bn.bias": 0, "bn.running_mean": 0, "bn.running_var": 1,
		"attention.in_proj_bias": 0, "attention.out_proj.bias": 0,
	}
	for _, name := range p.Names() {
		x, _ := p.Get(name)
		all := list(t, x)
		low, high := slices.Min(all), slices.Max(all)
		if bound, drawn := bounds[name]; drawn {
			require.InDelta(t, -bound, low, 0.1*bound, name)
			require.InDelta(t, bound, high, 0.1*bound, name)
			require.Less(t, max(-low, high), bound*(1+1e-6), name)
		} else if v, ok := alike[name]; ok {
			require.Equal(t, [2]float64{v, v}, [2]float64{low, high}, name)
		} else {
			require.Equal(t, "transposed.bias", name) // too few to tell
			require.Less(t, max(-low, high), 1./6, name)
		}
	}
	require.Equal(t, len(bounds)+len(alike)+1, len(p.Names()))
}
