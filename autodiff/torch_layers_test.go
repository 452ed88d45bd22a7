package autodiff

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLayersBesidePyTorch compares layers and losses, with their gradients, with what PyTorch gave.
func TestLayersBesidePyTorch(t *testing.T) {
	ad := over(None{})
	b := &beside{t, ad, maps.Clone(torchGave)}
	b.attentions()
	b.losses()
	b.embeddings()
	b.convolutions()
	b.poolings()
	require.Empty(t, b.left)
}

func (b *beside) of(f func(float64) float64, shape ...int) Float[adf] { return wave(b.ad, f, shape...) }

func (b *beside) leaf(f func(float64) float64, shape ...int) Float[adf] {
	return b.ad.Track(b.of(f, shape...))
}

func halves(i float64) float64 { return i + 0.5 }

func (b *beside) attentions() {
	ad, none := b.ad, Bool[adf]{}
	q, k, v := b.leaf(math.Sin, 3, 2), b.leaf(math.Cos, 2, 2), b.leaf(math.Sin, 2, 2)
	b.all("attention, blind", q.ScaledDotProductAttention(k, v, Bools(ad, []bool{false, false, true, false, true, true}, 3, 2)), q, k, v)
	b.all("attention, scale and bias", q.ScaledDotProductAttention(k, v, none, WithScale(0.7), WithBias(b.of(math.Sin, 3, 2))))
	b.all("attention, causal", q.ScaledDotProductAttention(k, v, CausalMask(ad, 3, 2)))
	packed := Attention[adf]{InWeight: b.of(math.Sin, 12, 4), InBias: b.of(math.Cos, 12), OutWeight: b.of(math.Sin, 4, 4), OutBias: b.of(math.Cos, 4)}
	x, memory := b.leaf(math.Sin, 2, 2, 4), b.leaf(math.Cos, 2, 3, 4)
	padded := Bools(ad, []bool{true, true, false, true, true, true}, 2, 1, 1, 3)
	b.all("cross attention", x.MultiheadCrossAttention(memory, memory, 2, packed, padded), x, memory)
	var weights, mean Float[adf]
	x.MultiheadCrossAttention(memory, memory, 2, packed, padded, WithWeights(&weights))
	x.MultiheadCrossAttention(memory, memory, 2, packed, padded, WithMeanWeights(&mean))
	b.all("attention weights", weights, x, memory)
	b.all("attention weights, mean", mean, x, memory)
	apart := Attention[adf]{InWeight: b.of(math.Sin, 4, 4), KWeight: b.of(math.Sin, 4, 3), VWeight: b.of(math.Sin, 4, 2), InBias: packed.InBias, OutWeight: packed.OutWeight, OutBias: packed.OutBias}
	b.all("cross attention, other features", b.of(math.Sin, 1, 2, 4).MultiheadCrossAttention(b.of(math.Cos, 1, 2, 3), b.of(math.Sin, 1, 2, 2), 2, apart, none))
}

func (b *beside) losses() {
	ad, sum, each := b.ad, WithReduction("sum"), WithReduction("none")
	l, labels, w := b.leaf(math.Sin, 3, 4), Ints(ad, []int64{2, -100, 3}), WithWeight(b.of(halves, 4))
	b.all("cross_entropy", l.CrossEntropy(labels, 0.1), l)
	b.all("cross_entropy, weight", l.CrossEntropy(labels, 0.1, w), l)
	b.all("cross_entropy, sum", l.CrossEntropy(Ints(ad, []int32{2, 0, 3}), 0, w, WithIgnoreIndex(0), sum))
	b.all("cross_entropy, none", l.CrossEntropy(labels, 0.3, w, each))
	images := b.leaf(math.Sin, 2, 3, 2)
	b.all("cross_entropy, images", images.CrossEntropy(Ints(ad, []int64{0, 2, 1, -100}, 2, 2), 0.2, WithWeight(b.of(halves, 3))), images)
	b.all("cross_entropy, one", b.of(math.Sin, 4).CrossEntropy(Ints(ad, []int64{2}, []int{}...), 0.2))
	b.all("nll", l.NLL(labels, w))
	b.all("soft", l.SoftCrossEntropy(b.of(math.Sin, 3, 4).Abs(), 0.2, w))
	x, y := b.leaf(math.Sin, 2, 3), b.leaf(func(i float64) float64 { return math.Cos(2 * i) }, 2, 3)
	b.all("l1", x.L1(y, sum), x, y)
	b.all("huber", x.Huber(y, 0.7), x, y)
	b.all("smooth_l1", x.SmoothL1(y, 0.7), x, y)
	b.all("mse none", x.MSE(y, each))
	p := ad.Detach(y).Abs().Mul(Floats(ad, []float64{1, 0, 1, 1, 1, 1}, 2, 3))
	b.all("kl", x.KLDiv(p, WithReduction("batchmean")))
	b.all("kl mean", x.KLDiv(p))
	g, err := ad.Backward(x.KLDiv(p))
	require.NoError(b.t, err)
	dx, _ := ad.Grad(x, g)
	b.one("kl gradient 0", dx)
	b.all("kl log", x.KLDiv(y, WithLogTarget()))
	b.all("poisson", x.PoissonNLL(p))
	variance := b.leaf(func(i float64) float64 { return i/10 + 0.1 }, 2, 3)
	b.all("gaussian", x.GaussianNLL(y, variance, 1e-6), x, y, variance)
	share, w3 := b.of(func(i float64) float64 { return (i + 1) / 7 }, 2, 3), b.of(halves, 3)
	b.all("bce_with_logits", x.BCEWithLogits(share, WithWeight(w3), WithPosWeight(w3.AddScalar(1))), x)
	b.all("bce", share.BCE(p.MulScalar(0.5).AddScalar(0.2), WithWeight(w3)))
	b.all("bce at 0 and 1", Floats(ad, []float64{0, 1, 1, 0, 1e-50}).BCE(Floats(ad, []float64{1, 1, 0, 0, 1}), each))
	b.all("focal", x.SigmoidFocal(share.Round(), 0.25, 2))
	b.all("cosine", x.CosineSimilarity(y, 1, 1e-8), x, y)
	b.all("cosine_embedding", x.CosineEmbedding(y, Ints(ad, []int64{1, -1}), -0.5, each), x, y)
	b.all("triplet", x.TripletMargin(y, b.of(func(i float64) float64 { return math.Sin(3 * i) }, 2, 3), 2, each), x, y)
	row := func(x Float[adf]) Float[adf] { return x.Slice(0, 0, 1).Squeeze(0) }
	b.all("ranking", row(x).MarginRanking(row(y), Floats(ad, []float64{1, -1, 1}), 0.3, each))
}

func (b *beside) embeddings() {
	ad := b.ad
	table, at, factors := b.leaf(math.Sin, 5, 2), Ints(ad, []int64{2, 0, 2, 3, 1, 4}), b.leaf(math.Cos, 6)
	b.all("embedding", table.Embedding(at, WithPaddingIdx(2)), table)
	often := Ints(ad, []int64{2, 0, 2, 3, 1, 2})
	b.all("embedding, by frequency", table.Embedding(often, WithPaddingIdx(3), WithScaleGradByFreq()), table)
	b.all("bag, by frequency", table.EmbeddingBag(often, Ints(ad, []int32{0, 2, 2}), Float[adf]{}, "mean", WithScaleGradByFreq()), table)
	for _, norm := range []float64{2, 1, 3} {
		scaled := b.leaf(math.Sin, 5, 2)
		b.all(fmt.Sprintf("embedding, norm %g", norm), scaled.Embedding(often, WithMaxNorm(0.7, norm)))
		b.all(fmt.Sprintf("table, norm %g", norm), scaled)
	}
	b.all("bag sum", table.EmbeddingBag(at, Ints(ad, []int32{0, 2, 2}), factors, "sum", WithPaddingIdx(1)), table, factors)
	b.all("bag mean", table.EmbeddingBag(at.Reshape(2, 3), Int[adf]{}, Float[adf]{}, "mean", WithPaddingIdx(-2)), table)
	b.all("bag max", table.EmbeddingBag(at, Ints(ad, []int64{0, 2, 2, 6}), Float[adf]{}, "max", WithPaddingIdx(4), WithIncludeLastOffset()), table)
}

func (b *beside) convolutions() {
	bias := b.of(math.Cos, 2)
	x, w := b.leaf(math.Sin, 2, 4, 5), b.leaf(math.Cos, 2, 2, 3)
	b.all("conv1d", x.Conv1d(w, bias, Window1d{Stride: 2, Pad: 1, Dilation: 2, Groups: 2}), x, w)
	b.all("conv_transpose1d", b.of(math.Sin, 1, 4, 3).ConvTranspose1d(b.of(math.Cos, 4, 1, 2), bias, Window1d{Stride: 2, Pad: 1, OutputPad: 1, Groups: 2}))
	x, w = b.leaf(math.Sin, 1, 2, 3, 2, 3), b.leaf(math.Cos, 2, 1, 2, 2, 2)
	b.all("conv3d", x.Conv3d(w, bias, Window3d{Stride: [3]int{2, 1, 1}, Pad: [3]int{1, 0, 1}, Dilation: [3]int{1, 1, 2}, Groups: 2}), x, w)
	x, w = b.leaf(math.Sin, 1, 2, 2, 2, 2), b.leaf(math.Cos, 2, 1, 3, 2, 1)
	b.all("conv_transpose3d", x.ConvTranspose3d(w, bias, Window3d{Stride: [3]int{2, 1, 2}, Pad: [3]int{1, 0, 0}, OutputPad: [3]int{1, 0, 1}, Dilation: [3]int{1, 2, 1}, Groups: 2}), x, w)
	x = b.of(math.Sin, 2, 7)
	line := Window1d{Kernel: 3, Stride: 2, Pad: 1, NoPad: true}
	b.all("max_pool1d", x.MaxPool1d(line))
	b.all("avg_pool1d", x.AvgPool1d(line))
	x = b.of(math.Sin, 1, 1, 3, 4, 3)
	volume := Window3d{Kernel: [3]int{2, 2, 3}, Stride: [3]int{1, 2, 1}, Pad: [3]int{1, 0, 1}}
	b.all("max_pool3d", x.MaxPool3d(volume))
	b.all("avg_pool3d", x.AvgPool3d(volume))
	volume.NoPad = true
	b.all("avg_pool3d, no padding", x.AvgPool3d(volume))
	x = b.of(math.Sin, 1, 1, 5, 7)
	b.all("adaptive_avg", x.AdaptiveAvgPool(3, 2))
	b.all("adaptive_max", x.AdaptiveMaxPool(2, 4))
}

// poolings are those whose last windows reach beyond the padding.
func (b *beside) poolings() {
	x, line := b.leaf(math.Sin, 2, 8), Window1d{Kernel: 3, Stride: 2, Pad: 1, CeilMode: true}
	b.all("max_pool1d, ceil", x.MaxPool1d(line), x)
	b.all("avg_pool1d, ceil", x.AvgPool1d(line), x)
	x = b.leaf(math.Sin, 1, 2, 6, 5)
	w := Window{Kernel: [2]int{2, 4}, Stride: [2]int{4, 3}, Pad: [2]int{0, 2}, CeilMode: true}
	b.all("max_pool2d, ceil", x.MaxPool2d(w), x)
	b.all("avg_pool2d, ceil", x.AvgPool2d(w), x)
	b.all("avg_pool2d, ceil, no padding", x.AvgPool2d(Window{Kernel: [2]int{3, 2}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, NoPad: true, CeilMode: true}), x)
	x = b.leaf(math.Sin, 1, 1, 3, 4, 3)
	volume := Window3d{Kernel: [3]int{2, 2, 3}, Stride: [3]int{2, 3, 2}, Pad: [3]int{1, 0, 1}, CeilMode: true}
	b.all("max_pool3d, ceil", x.MaxPool3d(volume), x)
	b.all("avg_pool3d, ceil", x.AvgPool3d(volume), x)
}
