package autodiff

import "github.com/isobit-ml/isobit/tensor"

// Gradients of the project's families, which plans compute.

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
		if x.Len() == 0 { // of any number of rows, which would have a scale each
			return x.Cast(g.DType())
		}
		return x.QuantizeDynamic(PerToken(-127, 127)).Dequantize(g.DType())
	}
	grads := make([]dyn, 3)
	if c.wants(0) {
		grads[0] = c.shaped(OpReshape, 0, g.MatMul(asServed(c.in(1))).Cast(d))
	}
	if c.wants(1) {
		grads[1] = g.matmul(asServed(rowsOf(c.in(0))), transposed, asIs).Cast(d)
	}
	if c.wants(2) {
		grads[2] = rowSum(g).Cast(d)
	}
	return grads
}
