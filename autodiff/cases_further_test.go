package autodiff

// Losses, with what options make of them.

var lossCases = []testCase{
	unaryCase("cross_entropy, ignoring", OpGather, noise(3, 4), func(x dyn) dyn { return x.CrossEntropy(ints(x.be, []int64{2, -100, 3}), 0.1) }),
	binaryCase("cross_entropy, weighed", OpGather, noise(3, 4), positive(4), func(x, w dyn) dyn {
		return x.CrossEntropy(ints(x.be, []int64{2, 0, 3}), 0, WithWeight(w), WithIgnoreIndex(0))
	}),
	binaryCase("cross_entropy, weighed and smoothed, of images", OpGather, noise(2, 3, 2, 2), positive(3), func(x, w dyn) dyn {
		return x.CrossEntropy(ints(x.be, []int64{2, 0, 1, -100, 0, 0, 2, 1}, 2, 2, 2), 0.2, WithWeight(w))
	}),
	unaryCase("cross_entropy of each row", OpGather, noise(3, 4), func(x dyn) dyn {
		return x.CrossEntropy(ints(x.be, []int64{2, 0, 3}), 0.2, WithReduction("none"))
	}),
	unaryCase("cross_entropy of one row", OpGather, noise(4), func(x dyn) dyn { return x.CrossEntropy(ints(x.be, []int64{2}, []int{}...), 0.2) }),
	binaryCase("nll", OpGather, noise(3, 4), positive(4), func(x, w dyn) dyn { return x.NLL(ints(x.be, []int64{2, 0, 3}), WithWeight(w)) }),
	{name: "soft_cross_entropy", op: OpLogSoftmax, inputs: []data{noise(3, 4), noise(3, 4), noise(4)}, f: func(x []dyn) dyn {
		return x[0].SoftCrossEntropy(x[1], 0.1, WithWeight(x[2]))
	}},
	binaryCase("mse, sum", OpSum, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.MSE(y, WithReduction("sum")) }),
	binaryCase("l1", OpAbs, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.L1(y) }),
	binaryCase("huber", OpClamp, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.Huber(y, 0.7) }),
	binaryCase("smooth_l1", OpClamp, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.SmoothL1(y, 0.7, WithReduction("none")) }),
	binaryCase("kl_div", OpLog, noise(2, 3), positive(2, 3), func(x, y dyn) dyn { return x.KLDiv(y, WithReduction("batchmean")) }),
	binaryCase("kl_div of logarithms", OpExp, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.KLDiv(y, WithLogTarget()) }),
	binaryCase("poisson_nll", OpExp, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.PoissonNLL(y) }),
	{name: "gaussian_nll", op: OpLog, inputs: []data{noise(2, 3), noise(2, 3), positive(2, 3)}, f: func(x []dyn) dyn { return x[0].GaussianNLL(x[1], x[2], 1e-6) }},
	{name: "bce_with_logits, weighed", op: OpBCEWithLogits, inputs: []data{noise(2, 3), noise(2, 3), positive(3)}, f: func(x []dyn) dyn {
		return x[0].BCEWithLogits(x[1], WithWeight(x[2]))
	}},
	{name: "bce_with_logits, positives weighed", op: OpSoftplus, inputs: []data{noise(2, 3), noise(2, 3), positive(3), positive(2, 3)}, f: func(x []dyn) dyn {
		return x[0].BCEWithLogits(x[1], WithPosWeight(x[2]), WithWeight(x[3]), WithReduction("sum"))
	}},
	binaryCase("bce", OpBCE, values([]int{2, 2}, 0.3, 0.7, 0.4, 0.6), noise(2, 2), func(x, y dyn) dyn { return x.BCE(y) }),
	binaryCase("sigmoid_focal", OpSigmoid, noise(2, 3), values([]int{2, 3}, 0, 1, 0.3, 1, 1, 0), func(x, y dyn) dyn { return x.SigmoidFocal(y, 0.25, 2) }),
	binaryCase("cosine_similarity", OpDiv, noise(2, 3), noise(2, 3), func(x, y dyn) dyn { return x.CosineSimilarity(y, 0, 1e-8) }),
	binaryCase("cosine_embedding", OpWhere, noise(3, 4), noise(3, 4), func(x, y dyn) dyn { return x.CosineEmbedding(y, ints(x.be, []int64{1, -1, -1}), -0.5) }),
	{name: "triplet_margin", op: OpSqrt, inputs: []data{noise(3, 4), noise(3, 4), noise(3, 4)}, f: func(x []dyn) dyn { return x[0].TripletMargin(x[1], x[2], 1) }},
	{name: "margin_ranking", op: OpRelu, inputs: []data{noise(4), noise(4), noise(4)}, f: func(x []dyn) dyn { return x[0].MarginRanking(x[1], x[2], 0.5) }},
}

// Layers with options.

var furtherCases = []testCase{
	{name: "attention, of queries that look at nothing", op: OpWhere, inputs: []data{noise(2, 3, 4), noise(2, 2, 4), noise(2, 2, 3)}, f: func(x []dyn) dyn {
		mask := Bools(x[0].be, []bool{false, false, true, false, true, true}, 3, 2)
		return x[0].ScaledDotProductAttention(x[1], x[2], mask)
	}},
	{name: "attention with a bias", op: OpAdd, inputs: []data{noise(3, 4), noise(2, 4), noise(2, 3), noise(3, 1)}, f: func(x []dyn) dyn {
		return x[0].ScaledDotProductAttention(x[1], x[2], CausalMask(x[0].be, 3, 2), WithScale(0.7), WithBias(x[3]), WithDropout(0.3, 5))
	}},
	{name: "cross attention", op: OpLinear, inputs: []data{noise(2, 3, 2), noise(2, 2, 2), noise(6, 2), noise(6), noise(2, 2), noise(2)}, f: func(x []dyn) dyn {
		return x[0].MultiheadCrossAttention(x[1], x[1], 2, Attention[Backend]{InWeight: x[2], InBias: x[3], OutWeight: x[4], OutBias: x[5]}, Bools(x[0].be, []bool{true, true, true, false}, 2, 1, 1, 2))
	}},
	{name: "cross attention of other features", op: OpLinear, inputs: []data{noise(3, 4), noise(2, 2, 3), noise(2, 2, 5), noise(4, 4), noise(4, 3), noise(4, 5), noise(4, 4)}, f: func(x []dyn) dyn {
		return x[0].MultiheadCrossAttention(x[1], x[2], 2, Attention[Backend]{InWeight: x[3], KWeight: x[4], VWeight: x[5], OutWeight: x[6]}, Bool[Backend]{})
	}},
	unaryCase("embedding with padding", OpEmbedding, noise(4, 3), func(x dyn) dyn {
		return x.Embedding(ints(x.be, []int64{2, 0, 2, 3}, 2, 2)).Add(x.Neg().Embedding(ints(x.be, []int64{2, 0, 2, 0}, 2, 2), WithPaddingIdx(-3)))
	}),
	{name: "embedding's padding", op: OpEmbedding, inputs: []data{noise(3, 1)}, want: [][]float64{{1, 0, 1}}, f: func(x []dyn) dyn {
		return x[0].Embedding(ints(x[0].be, []int64{0, 1, 2}), WithPaddingIdx(1))
	}},
	binaryCase("embedding_bag, sum", OpEmbeddingBag, noise(5, 3), noise(6), func(x, w dyn) dyn {
		return x.EmbeddingBag(ints(x.be, []int64{2, 0, 2, 3, 1, 4}), ints(x.be, []int64{0, 2, 2}), w, "sum", WithPaddingIdx(1))
	}),
	unaryCase("embedding_bag, mean", OpEmbeddingBag, noise(5, 3), func(x dyn) dyn {
		return x.EmbeddingBag(ints(x.be, []int64{2, 0, 2, 3, 1, 4}, 2, 3), Int[Backend]{}, dyn{}, "mean", WithPaddingIdx(-2))
	}),
	unaryCase("embedding_bag, max", OpEmbeddingBag, noise(5, 3), func(x dyn) dyn {
		return x.EmbeddingBag(ints(x.be, []int64{2, 0, 2, 3, 1, 4}), ints(x.be, []int64{0, 2, 2, 6}), dyn{}, "max", WithPaddingIdx(4), WithIncludeLastOffset())
	}),
	{name: "conv1d", op: OpConv2d, inputs: []data{noise(2, 4, 5), noise(2, 2, 3), noise(2)}, f: func(x []dyn) dyn {
		return x[0].Conv1d(x[1], x[2], Window1d{Stride: 2, Pad: 1, Dilation: 2, Groups: 2})
	}},
	{name: "conv_transpose1d", op: OpConv2dDX, inputs: []data{noise(2, 4, 3), noise(4, 1, 2), noise(2)}, f: func(x []dyn) dyn {
		return x[0].ConvTranspose1d(x[1], x[2], Window1d{Stride: 2, Pad: 1, OutputPad: 1, Groups: 2})
	}},
	{name: "conv3d", op: OpConv2d, inputs: []data{noise(2, 2, 3, 2, 3), noise(2, 1, 2, 2, 2), noise(2)}, f: func(x []dyn) dyn {
		return x[0].Conv3d(x[1], x[2], Window3d{Stride: [3]int{2, 1, 1}, Pad: [3]int{1, 0, 1}, Dilation: [3]int{1, 1, 2}, Groups: 2})
	}},
	binaryCase("conv3d without padding", OpConv2d, noise(1, 2, 3, 2, 2), noise(1, 2, 2, 1, 2), func(x, y dyn) dyn { return x.Conv3d(y, dyn{}, Window3d{}) }),
	{name: "conv_transpose3d", op: OpConv2dDX, inputs: []data{noise(2, 2, 2, 2, 2), noise(2, 1, 3, 2, 1), noise(2)}, f: func(x []dyn) dyn {
		return x[0].ConvTranspose3d(x[1], x[2], Window3d{Stride: [3]int{2, 1, 2}, Pad: [3]int{1, 0, 0}, OutputPad: [3]int{1, 0, 1}, Dilation: [3]int{1, 2, 1}, Groups: 2})
	}},
	unaryCase("max_pool1d", OpMaxPool2d, noise(2, 7), func(x dyn) dyn { return x.MaxPool1d(Window1d{Kernel: 3, Stride: 2, Pad: 1}) }),
	unaryCase("avg_pool1d", OpAvgPool2d, noise(2, 7), func(x dyn) dyn { return x.AvgPool1d(Window1d{Kernel: 3, Stride: 2, Pad: 1, NoPad: true}) }),
	unaryCase("max_pool3d", OpMaxPool2d, noise(1, 3, 4, 3), func(x dyn) dyn {
		return x.MaxPool3d(Window3d{Kernel: [3]int{2, 2, 3}, Stride: [3]int{1, 2, 1}, Pad: [3]int{1, 0, 1}})
	}),
	unaryCase("avg_pool3d", OpAvgPool2d, noise(1, 3, 4, 3), func(x dyn) dyn {
		return x.AvgPool3d(Window3d{Kernel: [3]int{2, 2, 3}, Stride: [3]int{1, 2, 1}, Pad: [3]int{1, 0, 1}})
	}),
	unaryCase("adaptive_avg_pool", OpSum, noise(1, 5, 3), func(x dyn) dyn { return x.AdaptiveAvgPool(3, 1) }),
	unaryCase("adaptive_max_pool", OpMax, noise(1, 5, 2), func(x dyn) dyn { return x.AdaptiveMaxPool(3, 3) }),
	unaryCase("interpolate to the same size", OpReshape, noise(1, 1, 2, 2), func(x dyn) dyn { return x.Interpolate(2, 2, SampleMode{}) }),
}
