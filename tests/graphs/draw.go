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
		"sin": value.Sin, "cos": value.Cos,
		"gelu": value.Gelu, "erf": value.Erf, "floor": value.Floor, "sign": value.Sign, "max_all": value.MaxAll, "min_all": value.MinAll,
		"flatten": func(x value) value { return x.Flatten(0) }, "silu": value.Silu,
	}
	positive = map[string]func(value) value{"log": value.Log, "log1p": value.Log1p, "sqrt": value.Sqrt, "recip": value.Recip}
	binary   = map[string]func(x, y value) value{
		"add": value.Add, "sub": value.Sub, "mul": value.Mul, "maximum": value.Maximum, "minimum": value.Minimum,
		"matmul": value.MatMul, "mse": func(x, y value) value { return x.MSE(y) }, "linear": func(x, y value) value { return x.Linear(y, value{}) },
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

// drawn is what a step takes: three values, with their numbers, two axes of the first and its extent along one.
type drawn struct {
	i, j, k        int
	x, y, z        value
	axis, other, n int
}

// draw tries an operation on drawn values: most fit no operation, which add sees.
func (g *graph) draw() {
	d := drawn{i: g.one(), j: g.one(), k: g.one()}
	d.x, d.y, d.z = g.values[d.i], g.values[d.j], g.values[d.k]
	d.axis, d.other = g.axis(d.x), g.axis(d.x)
	d.n = extent(d.x, d.axis)
	number := g.r.IntN(27)
	for _, s := range steps {
		if number -= s.weight; number < 0 {
			s.try(g, d)
			return
		}
	}
}
