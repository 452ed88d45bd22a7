package autodiff

// Layers with options that came later.

var optionCases = []testCase{
	unaryCase("max_pool2d beyond the padding", OpMaxPool2d, noise(1, 5, 4), func(x dyn) dyn {
		return x.MaxPool2d(Window{Kernel: [2]int{2, 3}, Stride: [2]int{2, 2}, CeilMode: true})
	}),
	unaryCase("avg_pool2d beyond the padding", OpAvgPool2d, noise(1, 5, 4), func(x dyn) dyn {
		return x.AvgPool2d(Window{Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, Pad: [2]int{0, 1}, CeilMode: true})
	}),
	unaryCase("attention weights", OpSoftmax, noise(2, 3, 2), func(x dyn) dyn {
		var weights dyn
		blind := Bools(x.be, []bool{true, true, false, false, false, false, true, false, true}, 3, 3)
		y := x.ScaledDotProductAttention(x, x, blind, WithDropout(0.3, 4), WithMeanWeights(&weights))
		return y.Add(weights.Sum())
	}),
}
