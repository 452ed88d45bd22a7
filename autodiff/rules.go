package autodiff

import "math"

// grad is a row of a rule: the gradient of one input, and what it reads.
func grad(use uses, f func(c *ctx) dyn) vjp { return vjp{use, f} }

// perInput makes a rule of a row per input.
func perInput(rows ...vjp) rule { return rule{each: rows} }

// spread is perInput for operations that broadcast.
func spread(rows ...vjp) rule { return rule{each: rows, broadcasts: true} }

var (
	none = vjp{}
	pass = grad(0, func(c *ctx) dyn { return c.g })
	zero = func(i int) vjp { return grad(0, func(c *ctx) dyn { return c.zeros(i) }) }
)

// fused is the row of an operation's own gradient operation, over the
// upstream gradient and one more tensor.
func fused(op Op, use uses) vjp {
	return grad(use, func(c *ctx) dyn {
		if use == output {
			return c.with(op, c.g, c.out())
		}
		return c.with(op, c.g, c.in(0))
	})
}

// linearIn is the row of a gradient operation's own first input, in which it is
// linear: the same operation.
func linearIn(op Op) vjp {
	return grad(in1, func(c *ctx) dyn { return c.with(op, c.g, c.in(1)) })
}

// rules is the table of gradients. An operation without a row cannot be
// differentiated; a backward pass that meets it says so.
var rules = [opCount]rule{
	OpAdd: spread(pass, pass),
	OpSub: spread(pass, grad(0, func(c *ctx) dyn { return c.g.Neg() })),
	OpMul: spread(
		grad(in1, func(c *ctx) dyn { return c.g.Mul(c.in(1)) }),
		grad(in0, func(c *ctx) dyn { return c.g.Mul(c.in(0)) })),
	OpDiv: spread(
		grad(in1, func(c *ctx) dyn { return c.g.Div(c.in(1)) }),
		grad(in1|output, func(c *ctx) dyn { return c.g.Mul(c.out()).Div(c.in(1)).Neg() })),
	OpMaximum: spread(
		grad(in0|in1, func(c *ctx) dyn { return c.g.MaskFill(c.in(1).Greater(c.in(0)), 0) }),
		grad(in0|in1, func(c *ctx) dyn { return c.g.MaskFill(c.in(0).GreaterEqual(c.in(1)), 0) })),
	OpMinimum: spread(
		grad(in0|in1, func(c *ctx) dyn { return c.g.MaskFill(c.in(1).Less(c.in(0)), 0) }),
		grad(in0|in1, func(c *ctx) dyn { return c.g.MaskFill(c.in(0).LessEqual(c.in(1)), 0) })),
	OpPow: spread(grad(in0|in1, powBase), grad(in0|in1|output, powExponent)),
	OpWhere: spread(none,
		grad(in0, func(c *ctx) dyn { return c.g.MaskFill(c.condition(0).Not(), 0) }),
		grad(in0, func(c *ctx) dyn { return c.g.MaskFill(c.condition(0), 0) })),

	OpNeg:      perInput(grad(0, func(c *ctx) dyn { return c.g.Neg() })),
	OpAbs:      perInput(grad(in0, func(c *ctx) dyn { return c.g.Mul(c.in(0).Sign()) })),
	OpSign:     perInput(zero(0)),
	OpExp:      perInput(grad(output, func(c *ctx) dyn { return c.g.Mul(c.out()) })),
	OpLog:      perInput(grad(in0, func(c *ctx) dyn { return c.g.Div(c.in(0)) })),
	OpLog1p:    perInput(grad(in0, func(c *ctx) dyn { return c.g.Div(c.in(0).AddScalar(1)) })),
	OpSqrt:     perInput(grad(output, func(c *ctx) dyn { return c.g.Div(c.out().MulScalar(2)) })),
	OpSin:      perInput(grad(in0, func(c *ctx) dyn { return c.g.Mul(c.in(0).Cos()) })),
	OpCos:      perInput(grad(in0, func(c *ctx) dyn { return c.g.Mul(c.in(0).Sin()).Neg() })),
	OpTanh:     perInput(fused(OpTanhGrad, output)),
	OpSigmoid:  perInput(fused(OpSigmoidGrad, output)),
	OpRelu:     perInput(fused(OpReluGrad, output)),
	OpGelu:     perInput(fused(OpGeluGrad, in0)),
	OpSoftplus: perInput(grad(in0, func(c *ctx) dyn { return c.g.Mul(c.in(0).Sigmoid()) })),
	OpErf: perInput(grad(in0, func(c *ctx) dyn {
		return c.g.Mul(c.in(0).PowScalar(2).Neg().Exp().MulScalar(2 / math.SqrtPi))
	})),
	OpFloor: perInput(zero(0)),
	OpCeil:  perInput(zero(0)),
	OpRound: perInput(zero(0)),
	OpPowScalar: perInput(grad(in0, func(c *ctx) dyn {
		p := c.at.Floats[0]
		if p == 0 {
			return c.zeros(0)
		}
		return c.g.Mul(c.in(0).PowScalar(p - 1).MulScalar(p))
	})),
	OpClamp: perInput(fused(OpClampGrad, in0)),

	// Second derivatives of the fused gradients.
	OpReluGrad: perInput(linearIn(OpReluGrad), zero(1)),
	OpTanhGrad: perInput(linearIn(OpTanhGrad),
		grad(in0|in1, func(c *ctx) dyn { return c.g.Mul(c.in(0)).Mul(c.in(1)).MulScalar(-2) })),
	OpSigmoidGrad: perInput(linearIn(OpSigmoidGrad),
		grad(in0|in1, func(c *ctx) dyn { return c.g.Mul(c.in(0)).Mul(c.in(1).MulScalar(-2).AddScalar(1)) })),
	OpGeluGrad: perInput(linearIn(OpGeluGrad),
		grad(in0|in1, func(c *ctx) dyn {
			sq := c.in(1).PowScalar(2)
			curve := sq.MulScalar(-0.5).Exp().MulScalar(1 / math.Sqrt(2*math.Pi)).Mul(sq.Neg().AddScalar(2))
			return c.g.Mul(c.in(0)).Mul(curve)
		})),
	OpClampGrad: perInput(linearIn(OpClampGrad), zero(1)),

	OpSoftmax:    perInput(fused(OpSoftmaxGrad, output)),
	OpLogSoftmax: perInput(fused(OpLogSoftmaxGrad, output)),
	OpSoftmaxGrad: perInput(linearIn(OpSoftmaxGrad),
		grad(in0|in1, func(c *ctx) dyn {
			dot := func(a dyn) dyn { return a.Mul(c.in(1)).SumKeep(c.at.Axis) }
			return c.g.Mul(c.in(0).Sub(dot(c.in(0)))).Sub(c.in(0).Mul(dot(c.g)))
		})),
	OpLogSoftmaxGrad: perInput(
		grad(in1, func(c *ctx) dyn { return c.g.Sub(c.g.Mul(c.in(1).Exp()).SumKeep(c.at.Axis)) }),
		grad(in0|in1, func(c *ctx) dyn { return c.g.Mul(c.in(1).Exp()).Mul(c.in(0).SumKeep(c.at.Axis)).Neg() })),

	OpNormalize:     perInput(fused(OpNormalizeGrad, in0)),
	OpNormalizeGrad: perInput(linearIn(OpNormalizeGrad), grad(in0|in1, normalizeCurve)),

	OpProd: perInput(fused(OpProdGrad, in0)),
	OpProdGrad: perInput(
		grad(in1, func(c *ctx) dyn {
			others := c.with(OpProdGrad, dyn{fill[Backend](c.sc, c.g.DType(), 1, c.shape(0))}, c.in(1))
			return dyn{c.g.Mul(others).run(OpSum, &Attr{Axes: []int{c.at.Axis}, KeepDim: c.at.KeepDim})}
		}),
		grad(in0|in1, prodGradAgain)),
	OpMax:    perInput(grad(further, putBack)),
	OpMin:    perInput(grad(further, putBack)),
	OpSort:   perInput(grad(further, putBack)),
	OpCumSum: perInput(grad(0, reversed)),
	OpSum:    perInput(grad(0, func(c *ctx) dyn { return c.repeat(c.g) })),
	OpMean: perInput(grad(0, func(c *ctx) dyn {
		count := 1.0
		for _, a := range c.at.Axes {
			count *= float64(c.shape(0)[a])
		}
		return c.repeat(c.g.DivScalar(count))
	})),

	OpReshape:     perInput(grad(0, func(c *ctx) dyn { return c.shaped(OpReshape, 0, c.g) })),
	OpPermute:     perInput(grad(0, permuteBack)),
	OpExpand:      spread(pass),
	OpSlice:       {each: []vjp{pass}, part: true},
	OpSliceAssign: perInput(grad(0, func(c *ctx) dyn { return c.with(OpSliceAssign, c.g, c.zeros(1)) }), grad(0, func(c *ctx) dyn { return c.shaped(OpSlice, 1, c.g) })),
	OpCat:         {all: uncat},
	OpGather: perInput(grad(in1, func(c *ctx) dyn {
		return c.zeros(0).ScatterAdd(c.at.Axis, c.index(1), c.g)
	}), none),
	OpScatterAdd: perInput(pass, none, grad(in1, func(c *ctx) dyn { return c.g.Gather(c.at.Axis, c.index(1)) })),
	OpSelect: perInput(grad(in1, func(c *ctx) dyn {
		return c.zeros(0).SelectAdd(c.at.Axis, c.index(1), c.g)
	}), none),
	OpSelectAdd: perInput(pass, none, grad(in1, func(c *ctx) dyn { return c.g.Select(c.at.Axis, c.index(1)) })),
	OpCast:      perInput(grad(0, func(c *ctx) dyn { return c.g.Cast(c.n.in[0].info.DType) })),

	OpMatMul: perInput(grad(in1, matmulLeft), grad(in0, matmulRight)),
	OpLinear: perInput(
		grad(in1, func(c *ctx) dyn { return c.shaped(OpReshape, 0, rowsOf(c.g).MatMul(c.in(1))) }),
		grad(in0, func(c *ctx) dyn { return rowsOf(c.g).matmul(rowsOf(c.in(0)), transposed, asIs) }),
		grad(0, func(c *ctx) dyn { return rowSum(rowsOf(c.g)) })),
	OpConv2d: perInput(
		grad(in1, func(c *ctx) dyn { return c.shaped(OpConv2dDX, 0, c.g, c.tensor(1)) }),
		grad(in0, func(c *ctx) dyn { return c.shaped(OpConv2dDW, 1, c.g, c.tensor(0)) }),
		grad(0, func(c *ctx) dyn { return c.g.Sum(0, 2, 3) })),
	OpConv2dDX: perInput(
		grad(in1, func(c *ctx) dyn { return c.with(OpConv2d, c.g, c.in(1), dyn{}) }),
		grad(in0, func(c *ctx) dyn { return c.shaped(OpConv2dDW, 1, c.in(0), c.g.Tensor) })),
	OpConv2dDW: perInput(
		grad(in1, func(c *ctx) dyn { return c.with(OpConv2d, c.in(1), c.g, dyn{}) }),
		grad(in0, func(c *ctx) dyn { return c.shaped(OpConv2dDX, 1, c.in(0), c.g.Tensor) })),
	OpMaxPool2d:  perInput(grad(further, func(c *ctx) dyn { return c.shaped(OpPoolPut, 0, c.g, c.positions().Tensor) })),
	OpPoolPut:    perInput(grad(in1, func(c *ctx) dyn { return dyn{c.g.run(OpPoolTake, nil, c.tensor(1))} }), none),
	OpPoolTake:   perInput(grad(in1, func(c *ctx) dyn { return c.shaped(OpPoolPut, 0, c.g, c.tensor(1)) }), none),
	OpAvgPool2d:  perInput(grad(0, func(c *ctx) dyn { return c.shaped(OpAvgPoolPut, 0, c.g) })),
	OpAvgPoolPut: perInput(grad(0, func(c *ctx) dyn { return c.with(OpAvgPool2d, c.g) })),

	OpCrossEntropy: perInput(grad(in0|in1, func(c *ctx) dyn {
		return dyn{c.in(0).run(OpCrossEntropyGrad, c.at, c.tensor(1), c.g.Tensor)}
	}), none),
	OpCrossEntropyGrad: perInput(grad(in0|in2, crossEntropyCurve), none, grad(in0|in1, crossEntropyError)),
	OpBCEWithLogits: perInput(
		grad(in0|in1, func(c *ctx) dyn { return c.g.Mul(c.in(0).Sigmoid().Sub(c.in(1))) }),
		grad(in0, func(c *ctx) dyn { return c.g.Mul(c.in(0)).Neg() })),
	OpBCE:        perInput(grad(in0|in1, bceProbability), grad(in0, bceTarget)),
	OpLSTMGates:  perInput(grad(output, lstmGatesGrad)),
	OpLSTMCell:   {all: lstmStateGrad(OpLSTMCellGrad, lstmCellSteps), use: in0 | in1},
	OpLSTMHidden: {all: lstmStateGrad(OpLSTMHiddenGrad, lstmHiddenSteps), use: in0 | in1},

	OpEmbedding: perInput(grad(in1, func(c *ctx) dyn {
		return c.shaped(OpEmbeddingBackward, 0, c.g, c.tensor(1))
	}), none),
	OpEmbeddingBackward:    perInput(grad(in1, embeddingAgain), none),
	OpEmbeddingBag:         perInput(grad(in1|in2|in3|further, bagRows), none, none, grad(in0|in1|in2, bagFactorsOf)),
	OpEmbeddingBagBackward: perInput(grad(in1|in2|in3|in4, bagAgain), none, none, grad(in0|in1|in2, bagFactorsAgain), none),
	OpEmbeddingBagDFactors: perInput(grad(in1|in2|in3, bagOfFactors), grad(in0|in2|in3, bagRowsOfFactors), none, none),
	OpGridSample:           {all: gridSampleGrad, use: in0 | in1},
	OpGridSampleDX: perInput(
		grad(in2, func(c *ctx) dyn { return c.with(OpGridSample, c.g, c.in(2)) }),
		zero(1),
		grad(in0|in2, func(c *ctx) dyn { return c.with(OpGridSampleDGrid, c.in(0), c.g, c.in(2)) })),
	OpGridSampleDGrid:    {all: gridSampleTwice, use: in0 | in1 | in2},
	OpAffineGrid:         perInput(grad(0, func(c *ctx) dyn { return c.with(OpAffineGridBackward, c.g) })),
	OpAffineGridBackward: perInput(grad(0, func(c *ctx) dyn { return c.affineShape() })),
	OpQuantize:           perInput(grad(in0|in1|in2, throughCodes(0)), zero(1), zero(2)),
	OpQuantizeBackward:   perInput(grad(in1|in2|in3, throughCodes(1)), zero(1), zero(2), zero(3)),
	OpDequantize:         {all: dequantizeGrad, use: in0 | in1 | in2},
	OpFakeQuantize:       {all: fakeQuantizeGrad, use: in0 | in1 | in2},
	OpQuantizedLinear:    {all: quantizedLinearGrad, use: in0 | in1},

	// Results that no gradient passes.
	OpEqual:         {constant: true},
	OpNotEqual:      {constant: true},
	OpLess:          {constant: true},
	OpLessEqual:     {constant: true},
	OpGreater:       {constant: true},
	OpGreaterEqual:  {constant: true},
	OpArgMax:        {constant: true},
	OpArgMin:        {constant: true},
	OpChooseQParams: {constant: true},
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
