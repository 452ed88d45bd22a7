package main

import ad "github.com/isobit-ml/isobit/autodiff"

// steps are the kinds of operations, each drawn as often as its weight says, of 27.
var steps = []struct {
	weight int
	try    func(g *graph, d drawn)
}{
	{3, unaryStep},
	{1, positiveStep},
	{1, divisions},
	{4, binaryStep},
	{3, alongStep},
	{1, overAxesStep},
	{1, scalars},
	{1, orders},
	{1, parts},
	{1, joins},
	{2, byIndices},
	{1, losses},
	{2, convolutions},
	{1, pools},
	{1, samples},
	{1, norms},
	{1, attention},
	{1, recurrent},
}

func unaryStep(g *graph, d drawn) {
	i, x := d.i, d.x
	op := oneOf(g, unary)
	g.add(unary[op](x), op, []int{i})
}

func positiveStep(g *graph, d drawn) {
	i := d.i
	if p, ok := g.squared(i); ok {
		op := oneOf(g, positive)
		g.add(positive[op](g.values[p]), op, []int{p})
	}
}

func divisions(g *graph, d drawn) {
	i, j, x, axis := d.i, d.j, d.x, d.axis
	if p, ok := g.squared(j); ok {
		g.add(x.Div(g.values[p]), "div", []int{i, p})
		g.add(g.values[p].Pow(x), "pow", []int{p, i})
		g.add(x.FakeQuantize(g.values[p], ad.PerTensor(-8, 7)), "fake_quantize", []int{i, p}, []int{})
		g.add(x.FakeQuantize(g.values[p], ad.PerChannel(axis, -8, 7)), "fake_quantize", []int{i, p}, []int{axis})
	}
}

func binaryStep(g *graph, d drawn) {
	i, x := d.i, d.x
	op := oneOf(g, binary)
	g.partners(func(j, _ int) bool { return g.add(binary[op](x, g.values[j]), op, []int{i, j}) })
}

func alongStep(g *graph, d drawn) {
	i, x, axis := d.i, d.x, d.axis
	op := oneOf(g, along)
	g.add(along[op](x, axis), op, []int{i}, axis)
}

func overAxesStep(g *graph, d drawn) {
	i, x := d.i, d.x
	op := oneOf(g, overAxes)
	axes := g.r.Perm(max(1, x.Rank()))[:1+g.r.IntN(max(1, x.Rank()))]
	g.add(overAxes[op](x, axes...), op, []int{i}, axes)
}

func scalars(g *graph, d drawn) {
	i, x := d.i, d.x
	p := float64(g.r.IntN(4))
	g.add(x.PowScalar(p), "pow_scalar", []int{i}, p)
	g.add(x.MulScalar(p-0.25).SubScalar(0.5), "scale", []int{i}, p-0.25, 0.5)
	g.add(x.Clamp(-p/4, 0.7), "clamp", []int{i}, -p/4, 0.7)
}

func orders(g *graph, d drawn) {
	i, x, axis, other := d.i, d.x, d.axis, d.other
	g.add(x.Transpose(axis, other), "transpose", []int{i}, axis, other)
	axes := g.r.Perm(x.Rank())
	g.add(x.Permute(axes...), "permute", []int{i}, axes)
	g.add(x.Unsqueeze(0).Expand(append([]int{2}, x.Shape()...)...), "repeat", []int{i})
}

func parts(g *graph, d drawn) {
	i, j, x, y, axis, n := d.i, d.j, d.x, d.y, d.axis, d.n
	lo := g.r.IntN(n)
	hi, by := lo+1+g.r.IntN(n-lo), 1+g.r.IntN(2)
	g.add(x.SliceStep(axis, lo, hi, by), "slice", []int{i}, axis, lo, hi, by)
	g.add(x.SliceAssign(axis, lo, y), "slice_assign", []int{i, j}, axis, lo)
}

func joins(g *graph, d drawn) {
	i, j, k, x, y, z, axis := d.i, d.j, d.k, d.x, d.y, d.z, d.axis
	g.add(ad.Cat(axis, x, y, x), "cat", []int{i, j, i}, axis)
	g.add(ad.Stack(0, x, z), "stack", []int{i, k})
}

func byIndices(g *graph, d drawn) {
	i, j, x, y, axis, n := d.i, d.j, d.x, d.y, d.axis, d.n
	list, at := g.indices(n, 1+g.r.IntN(4))
	g.add(x.Select(axis, at), "select", []int{i}, axis, list)
	g.add(x.SelectAdd(axis, at, y), "select_add", []int{i, j}, axis, list)
	g.add(x.Embedding(at), "embedding", []int{i}, list)
	shape := y.Shape()
	list, at = g.indices(n, shape...)
	g.add(x.Gather(axis, at), "gather", []int{i}, axis, list, shape)
	g.add(x.ScatterAdd(axis, at, y), "scatter_add", []int{i, j}, axis, list, shape)
}

func losses(g *graph, d drawn) {
	i, x := d.i, d.x
	list, at := g.indices(extent(x, -1), extent(x, 0))
	g.add(x.CrossEntropy(at, 0.1), "cross_entropy", []int{i}, list, 0.1)
	g.partners(func(j, k int) bool {
		return g.add(x.LayerNorm(g.values[j], g.values[k], 1e-3), "layer_norm", []int{i, j, k}, 1e-3)
	})
	g.partners(func(j, k int) bool { return g.add(x.Linear(g.values[j], g.values[k]), "linear", []int{i, j, k}) })
}

func convolutions(g *graph, d drawn) {
	i, x := d.i, d.x
	w := ad.Window{Stride: [2]int{1 + g.r.IntN(2), 1}, Pad: [2]int{g.r.IntN(2), g.r.IntN(2)}, Dilation: [2]int{1, 1 + g.r.IntN(2)}, Groups: 1 + g.r.IntN(2)}
	g.partners(func(j, k int) bool { return g.add(x.Conv2d(g.values[j], g.values[k], w), "conv2d", []int{i, j, k}, w) })
	g.partners(func(j, _ int) bool { return g.add(x.Conv2d(g.values[j], value{}, w), "conv2d", []int{i, j}, w) })
}

func pools(g *graph, d drawn) {
	i, x := d.i, d.x
	w := ad.Window{Kernel: [2]int{2, 1 + g.r.IntN(3)}, Stride: [2]int{1 + g.r.IntN(2), 1}, Pad: [2]int{1, 0}, NoPad: g.r.IntN(2) == 0}
	g.add(x.MaxPool2d(w), "max_pool2d", []int{i}, w)
	g.add(x.AvgPool2d(w), "avg_pool2d", []int{i}, w)
}

func samples(g *graph, d drawn) {
	i, x := d.i, d.x
	corners := g.r.IntN(2) == 0
	g.add(x.AffineGrid(corners, 1, 1, 3, 2), "affine_grid", []int{i}, corners, []int{1, 1, 3, 2})
	m := ad.SampleMode{Mode: []string{"bilinear", "bicubic"}[g.r.IntN(2)], Padding: []string{"zeros", "border", "reflection"}[g.r.IntN(3)], AlignCorners: corners}
	g.partners(func(j, _ int) bool {
		return g.add(x.GridSample(g.values[j], m), "grid_sample", []int{i, j}, m.Mode, m.Padding, corners)
	})
}

func norms(g *graph, d drawn) {
	i, x := d.i, d.x
	groups := 1 + g.r.IntN(2)
	g.add(x.GroupNorm(groups, value{}, value{}, 1e-3), "group_norm", []int{i}, groups, 1e-3)
	g.add(x.RMSNorm(value{}, 1e-3), "rms_norm", []int{i}, 1e-3)
	g.add(x.BatchNorm(ad.BatchNorm[*twice]{}, true, 0, 1e-3), "batch_norm", []int{i}, 1e-3)
}

func attention(g *graph, d drawn) {
	i, x := d.i, d.x
	causal := ad.Bool[*twice]{}
	if n := extent(x, -2); g.r.IntN(2) == 0 {
		causal = ad.CausalMask(g.be, n)
	}
	g.add(x.ScaledDotProductAttention(x, x, causal), "attention", []int{i, i, i}, causal.Present())
	h, w, mode := 1+g.r.IntN(5), 1+g.r.IntN(5), []string{"nearest", "bilinear"}[g.r.IntN(2)]
	g.add(x.Interpolate(h, w, ad.SampleMode{Mode: mode}), "interpolate", []int{i}, []int{h, w}, mode)
}

func recurrent(g *graph, d drawn) {
	i, x := d.i, d.x
	g.partners(func(j, _ int) bool {
		w := g.values[j]
		y, _, _ := x.LSTM(ad.Recurrent[*twice]{InWeight: w, HiddenWeight: w.Slice(-1, 0, 1)}, value{}, value{})
		return g.add(y, "lstm", []int{i, j})
	})
	g.partners(func(j, _ int) bool {
		w := g.values[j]
		y, _ := x.GRU(ad.Recurrent[*twice]{InWeight: w, HiddenWeight: w.Slice(-1, 0, 1)}, value{})
		return g.add(y, "gru", []int{i, j})
	})
}
