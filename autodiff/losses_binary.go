package autodiff

import "math"

// BCEWithLogits is the mean of the binary cross entropies of the sigmoid of x and a target, from 0 to 1, of its shape:
// the loss of a network that says yes or no of each element, such as a pixel.
func (x Float[B]) BCEWithLogits(target Float[B], options ...LossOption) Float[B] {
	if len(options) == 0 {
		each := x.op2(OpBCEWithLogits, target)
		defer each.Release()
		return each.Mean()
	}
	return x.pairLoss("bce_with_logits", target, options, []string{"WithWeight", "WithPosWeight"}, func(x, y Float[B], o *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		positive := givenLike(o.posWeight, x)
		if !positive.Present() {
			return x.op2(OpBCEWithLogits, y)
		}
		yes := keep(keep(y.Mul(keep(positive))).Mul(keep(keep(x.Neg()).Softplus())))
		return yes.Add(keep(y.opposite(keep).Mul(keep(x.Softplus()))))
	})
}

// opposite is 1 - x.
func (x Float[B]) opposite(keep func(Float[B]) Float[B]) Float[B] {
	return keep(keep(x.Neg()).AddScalar(1))
}

// BCE is BCEWithLogits of probabilities x, whose logarithms are taken for -100 at least. As in PyTorch, its gradient divides by
// x * (1-x), or 1e-12 where that is less: at 0 and 1 it is finite, but may be as large as 1e12. BCEWithLogits, which knows the
// logits, is better.
func (x Float[B]) BCE(target Float[B], options ...LossOption) Float[B] {
	if x.Err() == nil {
		low, high := x.LessScalar(0), x.GreaterScalar(1)
		defer low.Release()
		defer high.Release()
		outside := low.Or(high)
		defer outside.Release()
		n, err := outside.Count()
		if err != nil {
			return Float[B]{failed(x.be, "bce: %w", err)}
		}
		if n > 0 {
			return Float[B]{failed(x.be, "bce: %d elements of x of %v are below 0 or above 1; want probabilities", n, x)}
		}
	}
	return x.pairLoss("bce", target, options, []string{"WithWeight"}, func(x, y Float[B], _ *lossOptions, _ func(Float[B]) Float[B]) Float[B] {
		return x.op2(OpBCE, y)
	})
}

// bceProbability is the gradient of the probabilities of a BCE, which is finite where they are 0 or 1.
func bceProbability(c *ctx) dyn {
	x, y := c.in(0), c.in(1)
	return c.g.Mul(x.Sub(y)).Div(x.Neg().AddScalar(1).Mul(x).Clamp(1e-12, math.Inf(1)))
}

// bceTarget is that of its target. What stands for the logarithm of 0 is a constant, so that second derivatives are finite, too.
func bceTarget(c *ctx) dyn {
	log := func(p dyn, f func(dyn) dyn, at float64) dyn {
		none := c.in(0).EqualScalar(at)
		return f(p.MaskFill(none, 0.5)).MaskFill(none, -100).Clamp(-100, math.Inf(1))
	}
	x := c.in(0)
	return c.g.Mul(log(x.Neg(), dyn.Log1p, 1).Sub(log(x, dyn.Log, 0)))
}

// SigmoidFocal is the binary cross entropy of the sigmoid p of x, multiplied by (1-q)^gamma, where q is p for targets of 1 and
// 1-p for those of 0: what the network knows already counts less. Targets of 1 are weighed by alpha, others by 1-alpha, unless
// alpha is negative. It is torchvision's sigmoid_focal_loss, but for its reduction, which is the mean.
func (x Float[B]) SigmoidFocal(target Float[B], alpha, gamma float64, options ...LossOption) Float[B] {
	if x.Err() == nil && !(alpha <= 1 && gamma >= 0) {
		return Float[B]{failed(x.be, "sigmoid_focal: alpha is %g and gamma %g; want at most 1, and 0 or more", alpha, gamma)}
	}
	return x.pairLoss("sigmoid_focal", target, options, nil, func(x, y Float[B], _ *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		p, not := keep(x.Sigmoid()), y.opposite(keep)
		wrong := keep(keep(p.Mul(not)).Add(keep(p.opposite(keep).Mul(y))))
		loss := keep(x.op2(OpBCEWithLogits, y)).Mul(keep(wrong.PowScalar(gamma)))
		if alpha < 0 {
			return loss
		}
		return keep(loss).Mul(keep(keep(y.MulScalar(alpha)).Add(keep(not.MulScalar(1 - alpha)))))
	})
}
