package main

import (
	"maps"
	"math"
	"slices"

	ad "github.com/isobit-ml/isobit/autodiff"
)

// Values beyond these are no part of a graph: PyTorch's sums and ours differ in their last bits.
const (
	largest      = 16
	mostElements = 72
)

var leafShapes = [][]int{{2, 3}, {3, 2}, {3}, {2, 3, 4}, {1, 2, 4, 4}, {2, 2, 2, 2}, {}, {1, 2, 3}, {4, 2}, {1, 3, 2, 2}, {1, 2, 2, 2}, {1, 2, 3, 2}}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// add notes the result of an operation, unless it failed.
func (g *graph) add(y value, op string, in []int, args ...any) bool {
	x, err := y.Float64s()
	if err != nil || len(x) == 0 || len(x) > mostElements {
		return false
	}
	for _, v := range x {
		if !(math.Abs(v) <= largest) {
			return false
		}
	}
	g.values = append(g.values, y)
	g.Steps = append(g.Steps, step{op, in, args})
	return true
}

// one draws a value, more often a late one.
func (g *graph) one() int { return max(0, len(g.values)-1-int(g.r.ExpFloat64()*5)) }

// axis draws one of a tensor's, from the front or from the back.
func (g *graph) axis(x value) int {
	n := max(1, x.Rank())
	return g.r.IntN(2*n) - n
}

// extent returns that of an axis, at least 1.
func extent(x value, axis int) int {
	shape := x.Shape()
	if len(shape) == 0 {
		return 1
	}
	return max(1, shape[(axis+len(shape))%len(shape)])
}

// indices draws whole numbers below n.
func (g *graph) indices(n int, shape ...int) ([]int64, ad.Int[*twice]) {
	list := make([]int64, size(shape))
	for i := range list {
		list[i] = int64(g.r.IntN(n))
	}
	return list, ad.Ints(g.be, list, shape...)
}

// squared adds the step x * x + 0.5: what has a root and a logarithm.
func (g *graph) squared(i int) (int, bool) {
	x := g.values[i]
	if !g.add(x.Mul(x), "mul", []int{i, i}) {
		return 0, false
	}
	i = len(g.values) - 1
	return i + 1, g.add(g.values[i].AddScalar(0.5), "add_scalar", []int{i}, 0.5)
}

// unary are operations on one tensor without arguments. positive ones take what squared makes.
var (
	unary = map[string]func(value) value{
		"neg": value.Neg, "abs": value.Abs, "exp": value.Exp, "tanh": value.Tanh, "sigmoid": value.Sigmoid, "relu": value.Relu,
		"gelu": value.Gelu, "erf": value.Erf, "floor": value.Floor, "sign": value.Sign, "max_all": value.MaxAll, "min_all": value.MinAll,
		"flatten": func(x value) value { return x.Flatten(0) }, "silu": value.Silu,
	}
	positive = map[string]func(value) value{"log": value.Log, "log1p": value.Log1p, "sqrt": value.Sqrt, "recip": value.Recip}
	binary   = map[string]func(x, y value) value{
		"add": value.Add, "sub": value.Sub, "mul": value.Mul, "maximum": value.Maximum, "minimum": value.Minimum,
		"matmul": value.MatMul, "mse": value.MSE, "linear": func(x, y value) value { return x.Linear(y, value{}) },
		"where_greater": func(x, y value) value { return ad.Where(x.Greater(y), x, y.Neg()) },
	}
	along = map[string]func(x value, axis int) value{
		"softmax": value.Softmax, "log_softmax": value.LogSoftmax, "prod": value.Prod, "cumsum": value.CumSum, "flip": value.Flip,
		"unsqueeze": value.Unsqueeze, "squeeze": value.Squeeze,
		"max":       func(x value, axis int) value { y, _ := x.Max(axis); return y },
		"min":       func(x value, axis int) value { y, _ := x.Min(axis); return y },
		"sort":      func(x value, axis int) value { y, _ := x.Sort(axis); return y },
		"sort_down": func(x value, axis int) value { y, _ := x.SortDescending(axis); return y },
	}
	overAxes = map[string]func(x value, axes ...int) value{"sum": value.Sum, "sum_keep": value.SumKeep, "mean": value.Mean, "mean_keep": value.MeanKeep}
)

// oneOf draws a key.
func oneOf[V any](g *graph, table map[string]V) string {
	keys := slices.Sorted(maps.Keys(table))
	return keys[g.r.IntN(len(keys))]
}

// partners draws two values until an operation takes them, or gives up.
func (g *graph) partners(taken func(j, k int) bool) {
	for range 20 {
		if taken(g.r.IntN(len(g.values)), g.r.IntN(len(g.values))) {
			return
		}
	}
}

// draw tries an operation on drawn values: most fit no operation, which add sees.
func (g *graph) draw() {
	i, j, k := g.one(), g.one(), g.one()
	x, y, z := g.values[i], g.values[j], g.values[k]
	axis, other := g.axis(x), g.axis(x)
	n := extent(x, axis)
	switch g.r.IntN(27) {
	case 0, 1, 2:
		op := oneOf(g, unary)
		g.add(unary[op](x), op, []int{i})
	case 3:
		if p, ok := g.squared(i); ok {
			op := oneOf(g, positive)
			g.add(positive[op](g.values[p]), op, []int{p})
		}
	case 4:
		if p, ok := g.squared(j); ok {
			g.add(x.Div(g.values[p]), "div", []int{i, p})
			g.add(g.values[p].Pow(x), "pow", []int{p, i})
			g.add(x.FakeQuantize(g.values[p], ad.PerTensor(-8, 7)), "fake_quantize", []int{i, p}, []int{})
			g.add(x.FakeQuantize(g.values[p], ad.PerChannel(axis, -8, 7)), "fake_quantize", []int{i, p}, []int{axis})
		}
	case 5, 6, 7, 8:
		op := oneOf(g, binary)
		g.partners(func(j, _ int) bool { return g.add(binary[op](x, g.values[j]), op, []int{i, j}) })
	case 9, 10, 11:
		op := oneOf(g, along)
		g.add(along[op](x, axis), op, []int{i}, axis)
	case 12:
		op := oneOf(g, overAxes)
		axes := g.r.Perm(max(1, x.Rank()))[:1+g.r.IntN(max(1, x.Rank()))]
		g.add(overAxes[op](x, axes...), op, []int{i}, axes)
	case 13:
		p := float64(g.r.IntN(4))
		g.add(x.PowScalar(p), "pow_scalar", []int{i}, p)
		g.add(x.MulScalar(p-0.25).SubScalar(0.5), "scale", []int{i}, p-0.25, 0.5)
		g.add(x.Clamp(-p/4, 0.7), "clamp", []int{i}, -p/4, 0.7)
	case 14:
		g.add(x.Transpose(axis, other), "transpose", []int{i}, axis, other)
		axes := g.r.Perm(x.Rank())
		g.add(x.Permute(axes...), "permute", []int{i}, axes)
		g.add(x.Unsqueeze(0).Expand(append([]int{2}, x.Shape()...)...), "repeat", []int{i})
	case 15:
		lo := g.r.IntN(n)
		hi, by := lo+1+g.r.IntN(n-lo), 1+g.r.IntN(2)
		g.add(x.SliceStep(axis, lo, hi, by), "slice", []int{i}, axis, lo, hi, by)
		g.add(x.SliceAssign(axis, lo, y), "slice_assign", []int{i, j}, axis, lo)
	case 16:
		g.add(ad.Cat(axis, x, y, x), "cat", []int{i, j, i}, axis)
		g.add(ad.Stack(0, x, z), "stack", []int{i, k})
	case 17, 18: // by indices
		list, at := g.indices(n, 1+g.r.IntN(4))
		g.add(x.Select(axis, at), "select", []int{i}, axis, list)
		g.add(x.SelectAdd(axis, at, y), "select_add", []int{i, j}, axis, list)
		g.add(x.Embedding(at), "embedding", []int{i}, list)
		shape := y.Shape()
		list, at = g.indices(n, shape...)
		g.add(x.Gather(axis, at), "gather", []int{i}, axis, list, shape)
		g.add(x.ScatterAdd(axis, at, y), "scatter_add", []int{i, j}, axis, list, shape)
	case 19:
		list, at := g.indices(extent(x, -1), extent(x, 0))
		g.add(x.CrossEntropy(at, 0.1), "cross_entropy", []int{i}, list, 0.1)
		g.partners(func(j, k int) bool {
			return g.add(x.LayerNorm(g.values[j], g.values[k], 1e-3), "layer_norm", []int{i, j, k}, 1e-3)
		})
		g.partners(func(j, k int) bool { return g.add(x.Linear(g.values[j], g.values[k]), "linear", []int{i, j, k}) })
	case 20, 21:
		w := ad.Window{Stride: [2]int{1 + g.r.IntN(2), 1}, Pad: [2]int{g.r.IntN(2), g.r.IntN(2)}, Dilation: [2]int{1, 1 + g.r.IntN(2)}, Groups: 1 + g.r.IntN(2)}
		g.partners(func(j, k int) bool { return g.add(x.Conv2d(g.values[j], g.values[k], w), "conv2d", []int{i, j, k}, w) })
		g.partners(func(j, _ int) bool { return g.add(x.Conv2d(g.values[j], value{}, w), "conv2d", []int{i, j}, w) })
	case 22:
		w := ad.Window{Kernel: [2]int{2, 1 + g.r.IntN(3)}, Stride: [2]int{1 + g.r.IntN(2), 1}, Pad: [2]int{1, 0}, NoPad: g.r.IntN(2) == 0}
		g.add(x.MaxPool2d(w), "max_pool2d", []int{i}, w)
		g.add(x.AvgPool2d(w), "avg_pool2d", []int{i}, w)
	case 23:
		corners := g.r.IntN(2) == 0
		g.add(x.AffineGrid(corners, 1, 1, 3, 2), "affine_grid", []int{i}, corners, []int{1, 1, 3, 2})
		m := ad.SampleMode{Mode: []string{"bilinear", "bicubic"}[g.r.IntN(2)], Padding: []string{"zeros", "border", "reflection"}[g.r.IntN(3)], AlignCorners: corners}
		g.partners(func(j, _ int) bool {
			return g.add(x.GridSample(g.values[j], m), "grid_sample", []int{i, j}, m.Mode, m.Padding, corners)
		})
	case 24:
		groups := 1 + g.r.IntN(2)
		g.add(x.GroupNorm(groups, value{}, value{}, 1e-3), "group_norm", []int{i}, groups, 1e-3)
		g.add(x.RMSNorm(value{}, 1e-3), "rms_norm", []int{i}, 1e-3)
		g.add(x.BatchNorm(ad.BatchNorm[*twice]{}, true, 0, 1e-3), "batch_norm", []int{i}, 1e-3)
	case 25:
		causal := ad.Bool[*twice]{}
		if n := extent(x, -2); g.r.IntN(2) == 0 {
			causal = ad.CausalMask(g.be, n)
		}
		g.add(x.ScaledDotProductAttention(x, x, causal), "attention", []int{i, i, i}, causal.Present())
		h, w, mode := 1+g.r.IntN(5), 1+g.r.IntN(5), []string{"nearest", "bilinear"}[g.r.IntN(2)]
		g.add(x.Interpolate(h, w, ad.SampleMode{Mode: mode}), "interpolate", []int{i}, []int{h, w}, mode)
	case 26: // a weight of four gates, or three, of one number
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
}
