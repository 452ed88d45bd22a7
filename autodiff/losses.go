package autodiff

import (
	"math"
	"slices"
	"strings"
)

// LossOption changes what a loss does: see WithReduction and its like, under PyTorch's names. A loss refuses those that it
// does not have.
type LossOption struct {
	name string
	set  func(o *lossOptions)
	err  error // of the tensor that it brings
}

type lossOptions struct {
	reduction         string
	weight, posWeight Value // of whatever backend
	ignore            int64
	logTarget         bool
}

// WithReduction says what becomes of a loss of each element or row: "mean" (the default), "sum" or "none"; of KLDiv "batchmean"
// too, the sum divided by the first extent, if there is one.
func WithReduction(reduction string) LossOption {
	return LossOption{name: "WithReduction", set: func(o *lossOptions) { o.reduction = reduction }}
}

// WithWeight multiplies losses: of CrossEntropy, SoftCrossEntropy and NLL it is a weight for each class, [classes], and means
// are divided by the sum of the weights of the labels; of BCE and BCEWithLogits a weight for each element, or what broadcasts to
// that.
func WithWeight[B Backend](weight Float[B]) LossOption {
	return LossOption{"WithWeight", func(o *lossOptions) { o.weight = weight.v }, weight.Err()}
}

// WithPosWeight multiplies what BCEWithLogits takes of targets of 1, for each element, or what broadcasts to that.
func WithPosWeight[B Backend](weight Float[B]) LossOption {
	return LossOption{"WithPosWeight", func(o *lossOptions) { o.posWeight = weight.v }, weight.Err()}
}

// WithIgnoreIndex says which label of CrossEntropy and NLL does not count, in place of -100: that of padding, for example.
func WithIgnoreIndex(label int) LossOption {
	return LossOption{name: "WithIgnoreIndex", set: func(o *lossOptions) { o.ignore = int64(label) }}
}

// WithLogTarget says that KLDiv's target holds logarithms, too.
func WithLogTarget() LossOption {
	return LossOption{name: "WithLogTarget", set: func(o *lossOptions) { o.logTarget = true }}
}

// lossOptions reads options, of which the loss has those that it names.
func (x Float[B]) lossOptions(name string, options []LossOption, has ...string) (o lossOptions, err error) {
	o.reduction, o.ignore = "mean", -100
	has = append(has, "WithReduction")
	for i, option := range options {
		if !slices.Contains(has, option.name) {
			return o, failed(x.be, "%s: option %d is %s; want one of %s", name, i, option.name, strings.Join(has, ", ")).err
		}
		if option.err != nil {
			return o, failed(x.be, "%s: option %d, %s: %w", name, i, option.name, option.err).err
		}
		option.set(&o)
	}
	reductions := []string{"mean", "sum", "none"}
	if name == "kl_div" {
		reductions = append(reductions, "batchmean")
	}
	if !slices.Contains(reductions, o.reduction) {
		return o, failed(x.be, "%s: the reduction is %q; want one of %s", name, o.reduction, strings.Join(reductions, ", ")).err
	}
	return o, nil
}

// givenLike returns what an option brought as a tensor of x's backend, in x's type, which may be a wider one by then; nothing
// where none did.
func givenLike[B Backend](v Value, x Float[B]) Float[B] {
	if v == nil {
		return Float[B]{}
	}
	return Float[B]{Tensor[B]{be: x.be, v: v}}.Cast(x.DType())
}

// reduced is the loss that is made of those of each element, which nobody else has.
func (x Float[B]) reduced(o *lossOptions) Float[B] {
	if o.reduction == "none" {
		return x
	}
	defer x.Release()
	switch {
	case o.reduction == "mean":
		return x.Mean()
	case o.reduction == "sum" || x.Rank() == 0: // of one number, batchmean has no rows to divide by
		return x.Sum()
	}
	sum := x.Sum()
	defer sum.Release()
	return sum.DivScalar(float64(x.extent(0)))
}

// pairLoss is what losses of two tensors have in common: shapes, options, types of 16 bits, which compute in f32, and the
// reduction. What each keeps is released after it.
func (x Float[B]) pairLoss(name string, y Float[B], options []LossOption, has []string, each func(x, y Float[B], o *lossOptions, keep func(Float[B]) Float[B]) Float[B]) Float[B] {
	o, err := x.lossOptions(name, options, has...)
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return Float[B]{failed(x.be, "%s: the target: %w", name, y.Err())}
	case err != nil:
	case !slices.Equal(x.Shape(), y.Shape()) || x.DType() != y.DType():
		err = failed(x.be, "%s: the target is %v; want %v", name, y, x).err
	default:
		for _, w := range []Value{o.weight, o.posWeight} {
			if w == nil {
				continue
			}
			if to, bad := broadcast(x.v.Shape(), w.Shape()); bad != nil || !slices.Equal(to, x.v.Shape()) || w.DType() != x.DType() {
				err = failed(x.be, "%s: a weight is %v; want %v, or what broadcasts to it", name, infoOf(w), x).err
			}
		}
	}
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.inFloat32(y, Float[B]{}, func(x, y, _ Float[B]) Float[B] {
		var made temporaries[B]
		defer made.release()
		keep := made.add
		loss := each(x, y, &o, keep)
		if w := givenLike(o.weight, x); w.Present() {
			loss = keep(loss).Mul(keep(w))
		}
		return loss.reduced(&o)
	})
}

// MSE is the mean of the squared differences.
func (x Float[B]) MSE(target Float[B], options ...LossOption) Float[B] {
	o, err := x.lossOptions("mse", options)
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	d := x.Sub(target)
	defer d.Release()
	return d.PowScalar(2).reduced(&o)
}

// L1 is the mean of the absolute differences from a target of x's shape.
func (x Float[B]) L1(target Float[B], options ...LossOption) Float[B] {
	return x.pairLoss("l1", target, options, nil, func(x, y Float[B], _ *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		return keep(x.Sub(y)).Abs()
	})
}

// Huber is the mean of half the squares of differences from a target of x's shape, and of delta times what is beyond delta.
func (x Float[B]) Huber(target Float[B], delta float64, options ...LossOption) Float[B] {
	if !(delta > 0) && x.Err() == nil {
		return Float[B]{failed(x.be, "huber: delta is %g; want more than 0", delta)}
	}
	return x.pairLoss("huber", target, options, nil, func(x, y Float[B], _ *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		return keep(x.Sub(y)).huber(delta, keep)
	})
}

func (x Float[B]) huber(delta float64, keep func(Float[B]) Float[B]) Float[B] {
	near := keep(x.Clamp(-delta, delta))
	return near.Mul(keep(x.Sub(keep(near.MulScalar(0.5)))))
}

// SmoothL1 is Huber divided by beta, which is where L1 goes over into squares; of a beta of 0 it is L1.
func (x Float[B]) SmoothL1(target Float[B], beta float64, options ...LossOption) Float[B] {
	if !(beta >= 0) && x.Err() == nil {
		return Float[B]{failed(x.be, "smooth_l1: beta is %g; want 0 or more", beta)}
	}
	return x.pairLoss("smooth_l1", target, options, nil, func(x, y Float[B], _ *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		d := keep(x.Sub(y))
		if beta == 0 {
			return d.Abs()
		}
		return keep(d.huber(beta, keep)).DivScalar(beta)
	})
}

// KLDiv is the mean of target * (log(target) - x), of logarithms x of probabilities and a target of probabilities. Their
// divergence is that with WithReduction("batchmean").
func (x Float[B]) KLDiv(target Float[B], options ...LossOption) Float[B] {
	return x.pairLoss("kl_div", target, options, []string{"WithLogTarget"}, func(x, y Float[B], o *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		if o.logTarget {
			return keep(y.Exp()).Mul(keep(y.Sub(x)))
		}
		none := y.EqualScalar(0) // where the logarithm counts for nothing
		defer none.Release()
		return y.Mul(keep(keep(keep(y.MaskFill(none, 1)).Log()).Sub(x)))
	})
}

// PoissonNLL is the mean of exp(x) - target*x: of counts, whose expected numbers have logarithms x.
func (x Float[B]) PoissonNLL(target Float[B], options ...LossOption) Float[B] {
	return x.pairLoss("poisson_nll", target, options, nil, func(x, y Float[B], _ *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		return keep(x.Exp()).Sub(keep(y.Mul(x)))
	})
}

// GaussianNLL is the mean of (log(v) + (x-target)^2/v) / 2, v being the variance, of x's shape, or eps where that is less.
// (There the variance has the gradient 0; PyTorch's is as if it were v.)
func (x Float[B]) GaussianNLL(target, variance Float[B], eps float64, options ...LossOption) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case !(eps > 0):
		return Float[B]{failed(x.be, "gaussian_nll: eps is %g; want more than 0", eps)}
	case variance.Err() != nil:
		return Float[B]{failed(x.be, "gaussian_nll: the variance: %w", variance.Err())}
	case variance.DType() != x.DType() || !slices.Equal(variance.Shape(), x.Shape()):
		return Float[B]{failed(x.be, "gaussian_nll: the variance is %v; want %v", variance, x)}
	}
	return x.pairLoss("gaussian_nll", target, options, nil, func(x, y Float[B], _ *lossOptions, keep func(Float[B]) Float[B]) Float[B] {
		v := keep(keep(variance.Cast(x.DType())).Clamp(eps, math.Inf(1)))
		return keep(keep(v.Log()).Add(keep(keep(keep(x.Sub(y)).PowScalar(2)).Div(v)))).MulScalar(0.5)
	})
}
