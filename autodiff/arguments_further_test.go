package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// What options and shapes are wrong is said with the name of the layer, what came and what was wanted.
func TestArgumentsOfLosses(t *testing.T) {
	ad := over(None{})
	x, none, other := Ones(ad, 2, 3), Float[adf]{}, Ones(ad, 3, 2)
	labels, weight := Ints(ad, []int64{0, 2}), Ones(ad, 3)
	for want, y := range map[string]Float[adf]{
		"cross_entropy: option 0 is WithPosWeight; want one of WithWeight, WithIgnoreIndex, WithReduction":                    x.CrossEntropy(labels, 0, WithPosWeight(weight)),
		"mse: option 1 is ; want one of WithReduction":                                                                        x.MSE(x, WithReduction("sum"), LossOption{}),
		`l1: the reduction is "batchmean"; want one of mean, sum, none`:                                                       x.L1(x, WithReduction("batchmean")),
		`kl_div: the reduction is ""; want one of mean, sum, none, batchmean`:                                                 x.KLDiv(x, WithReduction("")),
		"cross_entropy: the label smoothing is NaN; want 0 to 1":                                                              x.CrossEntropy(labels, math.NaN()),
		"cross_entropy: logits are f32[3, 2] and labels i64[2]; want [n, classes, ...] and [n, ...]":                          other.CrossEntropy(labels, 0, WithReduction("sum")),
		"cross_entropy: logits are f32[] and labels i64[2]":                                                                   Ones(ad, []int{}...).CrossEntropy(labels, 0),
		"cross_entropy: the labels: autodiff: the tensor is absent":                                                           x.CrossEntropy(Int[adf]{}, 0, WithReduction("sum")),
		"cross_entropy: the labels: autodiff: gather: index 1 is 2; want 0 to 1":                                              Ones(ad, 2, 2).CrossEntropy(labels, 0, WithReduction("sum")),
		"cross_entropy: the weight is f32[2, 3]; want f32[3], a weight for each class of x of f32[2, 3]":                      x.CrossEntropy(labels, 0, WithWeight(x)),
		"nll: the weight is f64[3]; want f32[3]":                                                                              x.NLL(labels, WithWeight(weight.Cast(tensor.F64))),
		"the tensor is absent (a zero value)":                                                                                 x.NLL(labels, WithWeight(none)),
		"soft_cross_entropy: logits are f32[2, 3] and the target f32[3, 2]; want":                                             x.SoftCrossEntropy(other, 0),
		"soft_cross_entropy: the target: autodiff: the tensor is absent":                                                      x.SoftCrossEntropy(none, 0),
		"soft_cross_entropy: the label smoothing is 2; want 0 to 1":                                                           x.SoftCrossEntropy(x, 2),
		"l1: the target is f32[3, 2]; want f32[2, 3]":                                                                         x.L1(other),
		"huber: delta is 0; want more than 0":                                                                                 x.Huber(x, 0),
		"smooth_l1: beta is -1; want 0 or more":                                                                               x.SmoothL1(x, -1),
		"smooth_l1: the target: autodiff: the tensor is absent":                                                               x.SmoothL1(none, 0.5),
		"gaussian_nll: the variance is f32[3, 2]; want f32[2, 3]":                                                             x.GaussianNLL(x, other, 1e-6),
		"gaussian_nll: the variance: autodiff: the tensor is absent":                                                          x.GaussianNLL(x, none, 1e-6),
		"gaussian_nll: eps is 0; want more than 0":                                                                            x.GaussianNLL(x, x, 0),
		"bce: 6 elements of x of f32[2, 3] are below 0 or above 1":                                                            x.MulScalar(2).BCE(x),
		"bce_with_logits: a weight is f32[3, 2]; want f32[2, 3], or what broadcasts to it":                                    x.BCEWithLogits(x, WithPosWeight(other)),
		"sigmoid_focal: alpha is 2 and gamma 2; want at most 1, and 0 or more":                                                x.SigmoidFocal(x, 2, 2),
		"cosine_similarity: eps is 0; want more than 0":                                                                       x.CosineSimilarity(x, 0, 0),
		"cosine_embedding: x is f32[2, 3], y f32[3, 2] and the target i64[2]; want":                                           x.CosineEmbedding(other, labels, 0),
		"embedding: the padding is row 2 of the weight f32[2, 3]; want -2 to 1":                                               x.Embedding(labels, WithPaddingIdx(2)),
		"embedding: WithIncludeLastOffset; want it with EmbeddingBag":                                                         x.Embedding(labels, WithIncludeLastOffset()),
		"embedding: option 0 is nil; want WithPaddingIdx":                                                                     x.Embedding(labels, nil),
		`embedding_bag: the mode is "prod"; want one of [sum mean max]`:                                                       x.EmbeddingBag(labels, labels, none, "prod"),
		"embedding_bag: indices are i64[2]; want [b, l], or [n] and offsets [b]":                                              x.EmbeddingBag(labels, Int[adf]{}, none, "sum"),
		"embedding_bag: indices are i64[2, 1]; want [n], beside offsets [b]":                                                  x.EmbeddingBag(labels.Reshape(2, 1), labels, none, "sum"),
		"embedding_bag: the padding is row -3 of the weight":                                                                  x.EmbeddingBag(labels, labels, none, "sum", WithPaddingIdx(-3)),
		`embedding_bag: there are per_sample_weights with the mode "mean"; want "sum"`:                                        x.EmbeddingBag(labels, labels, Ones(ad, 2), "mean"),
		"embedding_bag: the per_sample_weights are f32[3]; want f32[2], a number for each index":                              x.EmbeddingBag(labels, labels, weight, "sum"),
		"embedding_bag: there are no offsets to include a last one":                                                           x.EmbeddingBag(labels.Reshape(2, 1), Int[adf]{}, none, "sum", WithIncludeLastOffset()),
		"embedding_bag: the offsets are i64[0]; want the last one at least":                                                   x.EmbeddingBag(labels, Ints(ad, []int64{}), none, "sum", WithIncludeLastOffset()),
		"embedding_bag: the offsets are i64[2, 1]; want i32 or i64 [b]":                                                       x.EmbeddingBag(labels, labels.Reshape(2, 1), none, "sum"),
		"embedding_bag: the weight is f32[3]; want floats [v, d]":                                                             weight.EmbeddingBag(labels, labels, none, "sum"),
		"indices is 2 at position 1; want 0 to 1":                                                                             x.EmbeddingBag(labels, Ints(ad, []int64{0}), none, "sum"),
		"multihead_cross_attention: k is f32[3] and v f32[2, 3]; want [..., s, features] both":                                x.MultiheadCrossAttention(weight, x, 1, Attention[adf]{}, Bool[adf]{}),
		"multihead_cross_attention: x is f32[2, 3] in 2 heads; want [..., l, d]":                                              x.MultiheadCrossAttention(x, x, 2, Attention[adf]{}, Bool[adf]{}),
		"multihead_cross_attention: k is f32[2, 2] and v f32[2, 3]; want features of extent 3, as x of":                       x.MultiheadCrossAttention(Ones(ad, 2, 2), x, 1, Attention[adf]{InWeight: Ones(ad, 9, 3)}, Bool[adf]{}),
		"multihead_cross_attention: KWeight is f32[9, 3]; want shape [3, 2]":                                                  x.MultiheadCrossAttention(Ones(ad, 2, 2), x, 1, Attention[adf]{InWeight: Ones(ad, 3, 3), KWeight: Ones(ad, 9, 3)}, Bool[adf]{}),
		"multihead_cross_attention: InBias is f32[3]; want shape [9]":                                                         x.MultiheadCrossAttention(x, x, 1, Attention[adf]{InWeight: Ones(ad, 9, 3), InBias: weight}, Bool[adf]{}),
		"linear: the weight is absent":                                                                                        x.MultiheadCrossAttention(x, x, 1, Attention[adf]{InWeight: Ones(ad, 3, 3), KWeight: Ones(ad, 3, 3)}, Bool[adf]{}),
		"scaled_dot_product_attention: the bias is f32[3, 2]; want what broadcasts to [2, 2], [..., l, s]":                    x.ScaledDotProductAttention(x, x, Bool[adf]{}, WithBias(other)),
		"scaled_dot_product_attention: option 0 is nil; want WithScale":                                                       x.ScaledDotProductAttention(x, x, Bool[adf]{}, nil),
		"dropout: p is 2; want a probability":                                                                                 x.ScaledDotProductAttention(x, x, Bool[adf]{}, WithDropout(2, 1)),
		"conv1d: x is f32[2, 3] and the weight f32[2, 3], in 1 groups; want [n, c, l] and [o, c/groups, k]":                   x.Conv1d(x, none, Window1d{}),
		"conv1d: the weight: autodiff: the tensor is absent":                                                                  x.Conv1d(none, none, Window1d{}),
		"conv1d: the bias is f32[2, 3]; want shape [1]":                                                                       Ones(ad, 1, 1, 2).Conv1d(Ones(ad, 1, 1, 2), x, Window1d{}),
		"conv1d: in images of one line: autodiff: conv2d: x is f32[1, 1, 1, 2], smaller":                                      Ones(ad, 1, 1, 2).Conv1d(Ones(ad, 1, 1, 3), none, Window1d{}),
		"conv_transpose1d: x is f32[2, 3] and the weight f32[2, 3], in 1 groups; want [n, c, l] and [c, o/groups, k]":         x.ConvTranspose1d(x, none, Window1d{}),
		"conv3d: x is f32[2, 3] and the weight f32[2, 3], in 1 groups; want [n, c, d, h, w]":                                  x.Conv3d(x, none, Window3d{}),
		"conv3d: x is f32[1, 1, 1, 2, 2], smaller than the window f32[1, 1, 2, 1, 1]":                                         Ones(ad, 1, 1, 1, 2, 2).Conv3d(Ones(ad, 1, 1, 2, 1, 1), none, Window3d{}),
		"conv3d: along the depth: the window is":                                                                              Ones(ad, 1, 1, 1, 2, 2).Conv3d(Ones(ad, 1, 1, 1, 1, 1), none, Window3d{Pad: [3]int{-1, 0, 0}}),
		"want at most 16777216 planes":                                                                                        Ones(ad, 1, 1, 1, 2, 2).Conv3d(Ones(ad, 1, 1, 1, 1, 1), none, Window3d{Pad: [3]int{1 << 29, 0, 0}}),
		"conv3d: by planes: autodiff: conv2d: the window is":                                                                  Ones(ad, 1, 1, 1, 2, 2).Conv3d(Ones(ad, 1, 1, 1, 1, 1), none, Window3d{Pad: [3]int{0, -1, 0}}),
		"conv_transpose3d: OutputPad is [1 0 0]; want 0 or more, and less than the strides":                                   Ones(ad, 1, 1, 1, 2, 2).ConvTranspose3d(Ones(ad, 1, 1, 1, 1, 1), none, Window3d{OutputPad: [3]int{1, 0, 0}}),
		"conv_transpose3d: x is f32[1, 1, 1, 2, 2], the weight f32[1, 1, 1, 1, 1] and the padding [1 0 0]; want less padding": Ones(ad, 1, 1, 1, 2, 2).ConvTranspose3d(Ones(ad, 1, 1, 1, 1, 1), none, Window3d{Pad: [3]int{1, 0, 0}}),
		"conv_transpose3d: x is f32[1, 1, 0, 2, 2] and the weight f32[1, 1, 1, 1, 1]; want a plane of each at least":          Ones(ad, 1, 1, 0, 2, 2).ConvTranspose3d(Ones(ad, 1, 1, 1, 1, 1), none, Window3d{}),
		"conv_transpose3d: the bias is f32[2, 3]; want shape [1]":                                                             Ones(ad, 1, 1, 1, 2, 2).ConvTranspose3d(Ones(ad, 1, 1, 1, 1, 1), x, Window3d{}),
		"max_pool1d: x is f32[]; want [..., l]":                                                                               Ones(ad, []int{}...).MaxPool1d(Window1d{Kernel: 1}),
		"avg_pool1d: in images of one line: autodiff: avg_pool2d: x is f32[2, 1, 3] and the window":                           x.AvgPool1d(Window1d{}),
		"max_pool3d: x is f32[2, 3]; want [..., d, h, w]":                                                                     x.MaxPool3d(Window3d{Kernel: [3]int{1, 1, 1}}),
		"max_pool3d: across planes: autodiff: max_pool2d: x is f32[1, 4], smaller than the window [2, 1]":                     Ones(ad, 1, 2, 2).MaxPool3d(Window3d{Kernel: [3]int{2, 1, 1}}),
		"adaptive_avg_pool: 3 sizes of x, which is f32[2, 3]; want one for each of its last":                                  x.AdaptiveAvgPool(1, 1, 1),
		"adaptive_max_pool: size 0 of axis 1 of f32[2, 3]; want 1 to":                                                         x.AdaptiveMaxPool(0),
		"causal_mask: 2 numbers of keys":                                                                                      x.ScaledDotProductAttention(x, x, CausalMask(ad, 2, 2, 2)),
		"scaled_dot_product_attention: the mask is bool[2, 3]; want what broadcasts to [2, 2]":                                x.ScaledDotProductAttention(x, x, CausalMask(ad, 2, 3)),
	} {
		require.ErrorContains(t, y.Err(), want)
	}
	// Another backend's weight is an error, too.
	require.Error(t, x.CrossEntropy(labels, 0, WithWeight(Ones(over(None{}), 3))).Err())
	require.Error(t, Ones(NewCPU(), 2, 3).L1(Float[*CPU]{}).Err())
}

// Mistakes that come in as tensors go on.
func TestLossesPassErrorsOn(t *testing.T) {
	ad := over(None{})
	x := Ones(ad, 2, 3)
	bad := x.Reshape(7)
	labels := Ints(ad, []int64{0, 1})
	for i, y := range []Float[adf]{
		bad.CrossEntropy(labels, 0), bad.CrossEntropy(labels, 2), bad.NLL(labels), bad.SoftCrossEntropy(x, 0), bad.MSE(x), bad.L1(x), x.L1(bad), bad.Huber(x, 0), bad.SmoothL1(x, 1),
		bad.KLDiv(x), bad.PoissonNLL(x), bad.GaussianNLL(x, x, 1), bad.BCEWithLogits(x), bad.BCEWithLogits(x, WithReduction("sum")), bad.BCE(x),
		bad.SigmoidFocal(x, 1, 1), bad.CosineSimilarity(x, 0, 1), x.CosineSimilarity(bad, 0, 1), bad.CosineEmbedding(x, labels, 0), x.CosineEmbedding(bad, labels, 0),
		bad.TripletMargin(x, x, 1), x.TripletMargin(x, bad, 1), bad.MarginRanking(x, x, 1), x.MarginRanking(x, bad, 1), x.BCEWithLogits(x, WithPosWeight(bad)),
		bad.Embedding(labels), bad.EmbeddingBag(labels, labels, x, "sum"), x.EmbeddingBag(labels, labels, bad, "sum"), bad.Conv1d(x, x, Window1d{}), bad.Conv3d(x, x, Window3d{}),
		bad.ConvTranspose1d(x, x, Window1d{}), bad.ConvTranspose3d(x, x, Window3d{}), bad.MaxPool1d(Window1d{}), bad.MaxPool3d(Window3d{}), bad.AdaptiveAvgPool(1),
		bad.MultiheadCrossAttention(x, x, 1, Attention[adf]{}, Bool[adf]{}), x.MultiheadCrossAttention(bad, x, 1, Attention[adf]{}, Bool[adf]{}),
		x.ScaledDotProductAttention(x, x, Bool[adf]{}, WithBias(bad)),
	} {
		require.ErrorContains(t, y.Err(), "reshape", i)
	}
}
