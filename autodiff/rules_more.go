package autodiff

import (
	"cmp"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// The gradient rules that take more than a line.

// kept returns g with the dimensions that a reduction of input i removed as
// extents of 1.
func (c *ctx) kept(g dyn, i int, axes ...int) dyn {
	shape := slices.Clone(c.shape(i))
	for _, a := range axes {
		shape[a] = 1
	}
	return dyn{g.run(OpReshape, &Attr{Shape: shape})}
}

// repeat gives g the shape that a reduction started from.
func (c *ctx) repeat(g dyn) dyn {
	return c.shaped(OpExpand, 0, c.kept(g, 0, c.at.Axes...))
}

// putBack gives the gradient to the elements that were picked.
func putBack(c *ctx) dyn {
	g, at := c.g, c.positions()
	if c.n.op != OpSort {
		shape := slices.Clone(c.shape(0))
		shape[c.at.Axis] = 1
		g = c.kept(g, 0, c.at.Axis)
		at = Int[Backend]{at.run(OpReshape, &Attr{Shape: shape})}
	}
	return c.zeros(0).ScatterAdd(c.at.Axis, at, g)
}

// prodGradAgain differentiates g times the product of all others, weighted by
// u: row i of a square holds x with u in the place of element i, and all but
// that place take part. It needs no division by a zero. There is a square for each
// row of x along the axis.
func prodGradAgain(c *ctx) dyn {
	shape, last := slices.Clone(c.shape(1)), len(c.shape(1))-1
	shape[c.at.Axis], shape[last] = shape[last], shape[c.at.Axis]
	rows, n := tensor.NumElements(shape[:last]), shape[last]
	flat := func(t dyn, shape ...int64) dyn {
		return dyn{t.Transpose(c.at.Axis, last).run(OpReshape, &Attr{Shape: shape})}
	}
	place := Arange[Backend](c.sc, 0, 1, int(n))
	diagonal := place.Unsqueeze(1).Equal(place)
	square := Where(diagonal, flat(c.g, rows, n, 1), flat(c.in(1), rows, 1, n))
	g := flat(c.kept(c.in(0), 1, c.at.Axis), rows, 1).Expand(int(rows), int(n))
	d := dyn{g.run(OpProdGrad, &Attr{Axis: 2}, square.Tensor)}.MaskFill(diagonal, 0).Sum(1)
	return dyn{d.run(OpReshape, &Attr{Shape: shape})}.Transpose(c.at.Axis, last)
}

// normalizeCurve differentiates u times the gradient J g of a normalisation by x. J is symmetric,
// (1 - mean - y mean(y ...)) / s, s has the derivative y/n, and y J.
func normalizeCurve(c *ctx) dyn {
	u, g, x := c.g, c.in(0), c.in(1)
	mean := func(t dyn) dyn { return t.MeanKeep(-1) }
	if !c.at.AroundZero {
		x = x.Sub(mean(x))
	}
	s := mean(x.PowScalar(2)).AddScalar(c.at.Floats[0]).Sqrt()
	y := x.Div(s)
	a, b, both := mean(u.Mul(y)), mean(g.Mul(y)), mean(u.Mul(g))
	if !c.at.AroundZero {
		both = both.Sub(mean(u).Mul(mean(g)))
	}
	ju, jg := c.with(OpNormalizeGrad, u, c.in(1)), c.with(OpNormalizeGrad, g, c.in(1))
	return y.Mul(both.Sub(a.Mul(b))).Div(s).Add(b.Mul(ju)).Add(a.Mul(jg)).Div(s).Neg()
}

// reversed sums from the other end.
func reversed(c *ctx) dyn {
	at := *c.at
	at.FromEnd = !at.FromEnd
	return dyn{c.g.run(OpCumSum, &at)}
}

// powBase is y * x^(y-1), and 0 where y is 0, at x = 0 too. There the factor is finite,
// so that second derivatives are not 0 times an infinity.
func powBase(c *ctx) dyn {
	x, y := c.in(0), c.in(1)
	constant := y.Equal(dyn{y.scalar(0)})
	return c.g.Mul(y).Mul(x.Pow(y.SubScalar(1).MaskFill(constant, 0))).MaskFill(constant, 0)
}

// powExponent is x^y * log(x), and 0 where 0 has a power that is not negative: there,
// as in powBase, with a finite factor.
func powExponent(c *ctx) dyn {
	x, y := c.in(0), c.in(1)
	stays := x.Equal(dyn{x.scalar(0)}).And(y.GreaterEqual(dyn{y.scalar(0)}))
	return c.g.Mul(c.out()).Mul(x.MaskFill(stays, 1).Log()).MaskFill(stays, 0)
}

func permuteBack(c *ctx) dyn {
	axes := make([]int, len(c.at.Axes))
	for i, a := range c.at.Axes {
		axes[a] = i
	}
	return c.g.Permute(axes...)
}

func uncat(c *ctx) []dyn {
	grads := make([]dyn, len(c.n.in))
	at := 0
	for i := range grads {
		n := int(c.shape(i)[c.at.Axis])
		if c.wants(i) {
			grads[i] = c.g.Slice(c.at.Axis, at, at+n)
		}
		at += n
	}
	return grads
}

func matmulLeft(c *ctx) dyn {
	if c.at.TransA {
		return c.product(0, c.in(1), c.at.TransB, c.g, true)
	}
	return c.product(0, c.g, false, c.in(1), !c.at.TransB)
}

func matmulRight(c *ctx) dyn {
	if c.at.TransB {
		return c.product(1, c.g, true, c.in(0), c.at.TransA)
	}
	return c.product(1, c.in(0), !c.at.TransA, c.g, false)
}

// product is the gradient of input i of a product: that of x and y, either of them
// transposed. Dimensions along which the input was repeated are part of the inner one,
// the outer part: one chain goes over all the matrices that a matrix met.
func (c *ctx) product(i int, x dyn, transX bool, y dyn, transY bool) dyn {
	if err := cmp.Or(x.Err(), y.Err()); err != nil {
		return dyn{Tensor[Backend]{be: c.sc, err: err}}
	}
	rank := max(x.Rank(), y.Rank())
	full := func(shape []int64) []int64 {
		return append(slices.Repeat([]int64{1}, rank-len(shape)), shape...)
	}
	own, left, right := full(c.shape(i)), full(x.v.Shape()), full(y.v.Shape())
	var kept, met []int
	for d := range rank - 2 {
		if own[d] == 1 && (left[d] != 1 || right[d] != 1) {
			met = append(met, d)
		} else {
			kept = append(kept, d)
		}
	}
	if len(met) > 0 {
		x, y = joined(x, left, kept, met, !transX), joined(y, right, kept, met, transY)
	}
	return c.shaped(OpReshape, i, x.matmul(y, transX, transY))
}

// joined puts the kept dimensions first and joins those that were met with the rows,
// or with the columns, which they come before.
func joined(x dyn, shape []int64, kept, met []int, withColumns bool) dyn {
	rows, columns := len(shape)-2, len(shape)-1
	axes, at := slices.Concat(kept, met, []int{rows, columns}), len(kept)
	if withColumns {
		axes, at = slices.Concat(kept, []int{rows}, met, []int{columns}), at+1
	}
	to := make([]int64, 0, len(shape))
	for _, d := range append(slices.Clone(kept), rows, columns) {
		to = append(to, shape[d])
	}
	for _, d := range met {
		to[at] *= shape[d]
	}
	x = dyn{x.run(OpReshape, &Attr{Shape: shape})}
	if !slices.IsSorted(axes) {
		x = x.Permute(axes...)
	}
	return dyn{x.run(OpReshape, &Attr{Shape: to})}
}

// rowsOf joins all dimensions but the last.
func rowsOf(x dyn) dyn {
	if x.Rank() == 2 || x.v == nil {
		return x
	}
	n := x.v.Shape()[x.Rank()-1]
	rows := int64(1)
	for _, d := range x.v.Shape()[:x.Rank()-1] {
		rows *= d
	}
	return dyn{x.run(OpReshape, &Attr{Shape: []int64{rows, n}})}
}

// rowSum adds up the rows of a matrix, from the first to the last: ones times g.
func rowSum(g dyn) dyn {
	ones := dyn{fill[Backend](g.be, g.DType(), 1, []int64{1, g.v.Shape()[0]})}
	return ones.MatMul(g).Squeeze(0)
}

// crossEntropyCurve is softmax's gradient, scaled as the error is.
func crossEntropyCurve(c *ctx) dyn {
	scaled := c.g.Mul(c.in(2).DivScalar(float64(c.shape(0)[0])))
	return dyn{scaled.run(OpSoftmaxGrad, &Attr{Axis: 1}, c.in(0).Softmax(1).Tensor)}
}

// crossEntropyError is the gradient of the gradient's scale.
func crossEntropyError(c *ctx) dyn {
	one := fill[Backend](c.sc, c.g.DType(), 1, []int64{})
	return c.g.Mul(dyn{c.in(0).run(OpCrossEntropyGrad, c.at, c.tensor(1), one)}).Sum()
}

// skipping returns the attributes for a backward that computes several
// gradients, of which some are not wanted.
func (c *ctx) skipping() *Attr {
	at := *c.at
	for i := range at.Skip {
		at.Skip[i] = !c.wants(i)
	}
	return &at
}

func floatsOf(all [3]Tensor[Backend]) []dyn { return []dyn{{all[0]}, {all[1]}, {all[2]}} }

// gridSampleGrad takes both gradients from one operation, or, where they may
// be differentiated, from one each.
func gridSampleGrad(c *ctx) []dyn {
	x, grid := c.tensor(0), c.tensor(1)
	if c.once(x, grid) {
		return floatsOf(c.g.runAll(OpGridSampleBackward, c.skipping(), x, grid))
	}
	grads := make([]dyn, 2)
	for i, op := range []Op{OpGridSampleDX, OpGridSampleDGrid} {
		if c.wants(i) {
			grads[i] = dyn{c.g.run(op, c.at, x, grid)}
		}
	}
	return grads
}

// gridSampleTwice differentiates the gradient of the grid. That of x, which
// does not depend on x, is sampled as x is.
func gridSampleTwice(c *ctx) []dyn {
	return floatsOf(dyn{c.tensor(0)}.runAll(OpGridSampleTwice, c.skipping(), c.tensor(1), c.tensor(2), c.g.Tensor))
}

// affineShape is the grid of a tensor of maps, for the grid's own shape.
func (c *ctx) affineShape() dyn {
	g := c.shape(0)
	at := *c.at
	at.Shape = append([]int64{g[0], 1}, g[1:len(g)-1]...)
	return dyn{c.g.run(OpAffineGrid, &at)}
}

// throughCodes passes a gradient to x, the first of the operation's inputs from
// one on. Plans hold the codes' range against the gradient's type; that of
// integer codes, whose gradient is of none of theirs, is the type computed in.
func throughCodes(first int) func(c *ctx) dyn {
	return func(c *ctx) dyn {
		g, x := c.g, c.tensor(first)
		if computed := x.DType().Compute(); c.at.Scheme.storage().IsInt() && g.DType() != computed {
			g = g.Cast(computed)
		}
		return dyn{g.run(OpQuantizeBackward, c.at, x, c.tensor(first+1), c.tensor(first+2))}
	}
}

// dequantizeGrad computes in the type of the values; codes of another float
// type have their gradient in theirs, rounded once: 16 bits are widened first.
func dequantizeGrad(c *ctx) []dyn {
	d, g := c.n.in[0].info.DType, c.g
	other := d.IsFloat() && d != g.DType() && c.wants(0)
	if other && g.DType().Size() == 2 {
		g = g.Cast(tensor.F32)
	}
	grads := floatsOf(g.runAll(OpDequantizeBackward, c.skipping(), c.tensor(0), c.tensor(1), c.tensor(2)))
	if other {
		grads[0] = grads[0].Cast(d)
	}
	return grads
}

func fakeQuantizeGrad(c *ctx) []dyn {
	return floatsOf(c.g.runAll(OpFakeQuantizeBackward, c.skipping(), c.tensor(0), c.tensor(1), c.tensor(2)))
}

// quantizedLinearGrad is Linear's gradient at the values that the codes stand for,
// which are not rounded to 16 bits. No code is clamped, so the estimate passes everything.
func quantizedLinearGrad(c *ctx) []dyn {
	d := c.g.DType()
	g := rowsOf(c.g)
	if d.Size() == 2 {
		g = g.Cast(tensor.F32)
	}
	asServed := func(x dyn) dyn {
		return x.QuantizeDynamic(PerToken(-127, 127)).Dequantize(g.DType())
	}
	grads := make([]dyn, 3)
	if c.wants(0) {
		grads[0] = c.shaped(OpReshape, 0, g.MatMul(asServed(c.in(1))).Cast(d))
	}
	if c.wants(1) {
		grads[1] = g.matmul(asServed(rowsOf(c.in(0))), true, false).Cast(d)
	}
	if c.wants(2) {
		grads[2] = rowSum(g).Cast(d)
	}
	return grads
}
