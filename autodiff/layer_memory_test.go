package autodiff

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Layers and losses release what they make on the way: of results that are released, the memory is used again.
func TestFurtherLayersReleaseWhatTheyMake(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would take what was left
	ad := over(None{})
	leaf := func(shape ...int) Float[adf] { return ad.Track(Uniform(ad, uint64(len(shape)), 0.1, 0.9, shape...)) }
	x, y, c, table := leaf(4, 6, 8), leaf(4, 6, 8), leaf(6), leaf(9, 8)
	labels := Ints(ad, make([]int64, 32), 4, 8)
	at, offsets := Ints(ad, []int64{1, 2, 8, 0}), Ints(ad, []int64{0, 3})
	blind := Bools(ad, []bool{true, false, true, false, false, true}, 6, 1)
	packed := Attention[adf]{InWeight: leaf(24, 8), InBias: leaf(24), OutWeight: leaf(8, 8)}
	line, sixes, volume, box := leaf(2, 6, 3), leaf(6, 2, 3), leaf(1, 2, 3, 4, 4), leaf(2, 2, 2, 3, 3)
	four, others, none := leaf(4, 8), leaf(4, 8), Float[adf]{}
	each := WithReduction("none")
	rows := Ints(ad, []int64{1, -1, 1, -1})
	layers := map[string]func(x Float[adf]) Float[adf]{
		"cross_entropy":      func(x Float[adf]) Float[adf] { return x.CrossEntropy(labels, 0.1, WithWeight(c), WithIgnoreIndex(3)) },
		"nll":                func(x Float[adf]) Float[adf] { return x.NLL(labels, each) },
		"soft_cross_entropy": func(x Float[adf]) Float[adf] { return x.SoftCrossEntropy(y, 0.1, WithWeight(c)) },
		"mse":                func(x Float[adf]) Float[adf] { return x.MSE(y, WithReduction("sum")) },
		"smooth_l1":          func(x Float[adf]) Float[adf] { return x.SmoothL1(y, 0.5) },
		"kl_div":             func(x Float[adf]) Float[adf] { return x.KLDiv(y, WithReduction("batchmean")) },
		"gaussian_nll":       func(x Float[adf]) Float[adf] { return x.GaussianNLL(y, y, 1e-3) },
		"bce_with_logits":    func(x Float[adf]) Float[adf] { return x.BCEWithLogits(y, WithPosWeight(y), WithWeight(y)) },
		"bce":                func(x Float[adf]) Float[adf] { return x.BCE(y) },
		"sigmoid_focal":      func(x Float[adf]) Float[adf] { return x.SigmoidFocal(y, 0.25, 2) },
		"cosine_similarity":  func(x Float[adf]) Float[adf] { return x.CosineSimilarity(y, -1, 1e-6) },
		"triplet_margin":     func(x Float[adf]) Float[adf] { return x.TripletMargin(y, y, 1) },
		"margin_ranking":     func(x Float[adf]) Float[adf] { return x.MarginRanking(y, y, 1) },
		"attention, blind": func(x Float[adf]) Float[adf] {
			return x.ScaledDotProductAttention(y, y, blind, WithBias(c), WithDropout(0.1, 2))
		},
		"attention weights": func(x Float[adf]) Float[adf] {
			var w Float[adf]
			y := x.ScaledDotProductAttention(y, y, blind, WithMeanWeights(&w))
			w.Release()
			return y
		},
		"embedding by frequency": func(Float[adf]) Float[adf] { return table.Embedding(at, WithScaleGradByFreq()) },
		"cross attention":        func(x Float[adf]) Float[adf] { return x.MultiheadCrossAttention(y, y, 2, packed, blind) },
		"conv1d":                 func(x Float[adf]) Float[adf] { return x.Conv1d(line, none, Window1d{Pad: 1}) },
		"conv_transpose1d":       func(x Float[adf]) Float[adf] { return x.ConvTranspose1d(sixes, none, Window1d{Pad: 1}) },
		"max_pool1d":             func(x Float[adf]) Float[adf] { return x.MaxPool1d(Window1d{Kernel: 2}) },
		"avg_pool3d":             func(x Float[adf]) Float[adf] { return x.AvgPool3d(Window3d{Kernel: [3]int{2, 2, 2}}) },
		"adaptive_avg_pool":      func(x Float[adf]) Float[adf] { return x.AdaptiveAvgPool(4, 3) },
		"adaptive_max_pool":      func(x Float[adf]) Float[adf] { return x.AdaptiveMaxPool(4, 3) },
		"half adaptive_max": func(x Float[adf]) Float[adf] {
			h := x.Cast(tensor.BF16)
			defer h.Release()
			return h.AdaptiveMaxPool(4, 3)
		},
		"embedding_bag":          func(Float[adf]) Float[adf] { return table.EmbeddingBag(at, offsets, none, "max", WithPaddingIdx(1)) },
		"embedding with padding": func(Float[adf]) Float[adf] { return table.Embedding(at, WithPaddingIdx(1)) },
		"conv3d":                 func(Float[adf]) Float[adf] { return volume.Conv3d(box, none, Window3d{Pad: [3]int{1, 1, 1}}) },
		"conv_transpose3d":       func(Float[adf]) Float[adf] { return volume.ConvTranspose3d(box, none, Window3d{Pad: [3]int{1, 1, 1}}) },
		"cosine_embedding":       func(Float[adf]) Float[adf] { return four.CosineEmbedding(others, rows, 0.1) },
	}
	for name, layer := range layers {
		var made [4]int64
		for i := range made {
			y := layer(x)
			require.NoError(t, y.Err(), name)
			g, err := ad.Backward(y, WithSum())
			require.NoError(t, err, name)
			g.Release()
			y.Release()
			made[i], _ = ad.InnerBackend().MemoryStats()
		}
		require.Equal(t, made[2], made[3], name)
	}
}
