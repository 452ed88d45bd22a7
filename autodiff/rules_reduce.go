package autodiff

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Gradients of what works along dimensions.

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

// reversed sums from the other end.
func reversed(c *ctx) dyn {
	at := *c.at
	at.FromEnd = !at.FromEnd
	return dyn{c.g.run(OpCumSum, &at)}
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
