package autodiff

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// CrossEntropy is the mean of the negative logarithm of the label's softmax, over the rows of logits [n, classes], or
// [n, classes, ...] with labels [n, ...], or [classes] with one label. With smoothing s the label has
// weight 1 - s, and s is spread over all classes. Labels of -100, or WithIgnoreIndex, do not count; where none counts the mean
// is NaN, as in PyTorch. Other options are WithWeight and WithReduction.
func (x Float[B]) CrossEntropy(labels Int[B], smoothing float64, options ...LossOption) Float[B] {
	const name = "cross_entropy"
	if x.Err() == nil && !(smoothing >= 0 && smoothing <= 1) {
		return Float[B]{failed(x.be, "%s: the label smoothing is %v; want 0 to 1", name, smoothing)}
	}
	if len(options) == 0 && x.Rank() == 2 && labels.Len() > 0 && !labels.has(-100) {
		return Float[B]{x.run(OpCrossEntropy, &Attr{Floats: [10]float64{smoothing}}, labels.Tensor)}
	}
	return x.classLoss(name, labels, options, smoothing, func(x Float[B], axis int) Float[B] { return x.LogSoftmax(axis) })
}

// NLL is CrossEntropy of logarithms of probabilities, such as LogSoftmax gives.
func (x Float[B]) NLL(labels Int[B], options ...LossOption) Float[B] {
	return x.classLoss("nll", labels, options, 0, func(x Float[B], _ int) Float[B] { return x.Reshape(x.Shape()...) })
}

// has reports whether an element is v.
func (x Int[B]) has(v int32) bool {
	view, err := x.View()
	switch {
	case err != nil:
	case view.DType == tensor.I32:
		return slices.Contains(tensor.Slice[int32](view), v)
	case view.DType == tensor.I64:
		return slices.Contains(tensor.Slice[int64](view), int64(v))
	}
	return false
}

// classLoss is that of labels, given how logarithms of probabilities come from x.
func (x Float[B]) classLoss(name string, labels Int[B], options []LossOption, smoothing float64, logs func(x Float[B], axis int) Float[B]) Float[B] {
	o, err := x.lossOptions(name, options, "WithWeight", "WithIgnoreIndex")
	axis := min(x.Rank()-1, 1)
	switch {
	case x.Err() != nil:
		return x
	case labels.Err() != nil:
		return Float[B]{failed(x.be, "%s: the labels: %w", name, labels.Err())}
	case err != nil:
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	case axis < 0 || !slices.Equal(slices.Delete(x.Shape(), axis, axis+1), labels.Shape()):
		return Float[B]{failed(x.be, "%s: logits are %v and labels %v; want [n, classes, ...] and [n, ...], or [classes] and []", name, x, labels)}
	}
	if err := x.checkClasses(name, o.weight, axis); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.inFloat32(Float[B]{}, Float[B]{}, func(x, _, _ Float[B]) Float[B] {
		var made temporaries[B]
		defer made.release()
		keep := made.add
		ignored := labels.EqualScalar(o.ignore)
		defer ignored.Release()
		zero := labels.scalar(0)
		defer zero.Release()
		named := Int[B]{ignored.run(OpWhere, nil, zero.Tensor, labels.Tensor)} // what is ignored names some class
		defer named.Release()
		at := named.Unsqueeze(axis)
		defer at.Release()

		p := keep(logs(x, axis))
		picked := keep(p.Gather(axis, at))
		if picked.Err() != nil {
			return Float[B]{failed(x.be, "%s: the labels: %w", name, picked.Err())}
		}
		loss := keep(keep(picked.Squeeze(axis)).Neg())
		weight := keep(givenLike(o.weight, x))
		count := ignored.counted(x)
		defer count.Release()
		each := count // what a mean divides by
		if weight.Present() {
			flat := named.Reshape(-1)
			defer flat.Release()
			of := keep(keep(weight.Select(0, flat)).Reshape(labels.Shape()...))
			each = keep(of.Mul(count))
			loss = keep(loss.Mul(of))
		}
		if smoothing > 0 {
			all := p
			if weight.Present() {
				all = keep(p.Mul(keep(weight.perClass(x.Rank(), axis))))
			}
			spread := keep(keep(all.Sum(axis)).MulScalar(-smoothing / float64(x.extent(axis))))
			loss = keep(keep(loss.MulScalar(1 - smoothing)).Add(spread))
		}
		loss = loss.MaskFill(ignored, 0)
		if o.reduction != "mean" {
			return loss.reduced(&o)
		}
		return keep(keep(loss).Sum()).Div(keep(each.Sum()))
	})
}

// counted is 1 where x does not hold, in y's type.
func (x Bool[B]) counted(y Float[B]) Float[B] {
	not := x.Not()
	defer not.Release()
	one := not.ToFloat()
	defer one.Release()
	return one.Cast(y.DType())
}

// perClass makes a weight [classes] one that broadcasts with x, which has the classes along an axis.
func (x Float[B]) perClass(rank, axis int) Float[B] {
	shape := slices.Repeat([]int{1}, rank)
	shape[axis] = x.Len()
	return x.Reshape(shape...)
}

// checkClasses checks a weight for each class.
func (x Float[B]) checkClasses(name string, weight Value, axis int) error {
	want := Info{x.DType(), []int64{int64(x.extent(axis))}}
	if got := infoOf(weight); weight != nil && (got.DType != want.DType || !slices.Equal(got.Shape, want.Shape)) {
		return failed(x.be, "%s: the weight is %v; want %v, a weight for each class of x of %v", name, got, want, x).err
	}
	return nil
}

// SoftCrossEntropy is CrossEntropy of a target of probabilities of all classes, of x's shape, in place of labels: of mixed
// images, or of another network's answers. Its mean is over the rows, whatever they weigh.
func (x Float[B]) SoftCrossEntropy(target Float[B], smoothing float64, options ...LossOption) Float[B] {
	const name = "soft_cross_entropy"
	o, err := x.lossOptions(name, options, "WithWeight")
	axis := min(x.Rank()-1, 1)
	switch {
	case x.Err() != nil:
		return x
	case target.Err() != nil:
		return Float[B]{failed(x.be, "%s: the target: %w", name, target.Err())}
	case err != nil:
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	case axis < 0 || target.DType() != x.DType() || !slices.Equal(x.Shape(), target.Shape()):
		return Float[B]{failed(x.be, "%s: logits are %v and the target %v; want [n, classes, ...] both, or [classes], of one type", name, x, target)}
	case !(smoothing >= 0 && smoothing <= 1):
		return Float[B]{failed(x.be, "%s: the label smoothing is %v; want 0 to 1", name, smoothing)}
	}
	if err := x.checkClasses(name, o.weight, axis); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.inFloat32(target, Float[B]{}, func(x, y, _ Float[B]) Float[B] {
		var made temporaries[B]
		defer made.release()
		keep := made.add
		if smoothing > 0 {
			y = keep(keep(y.MulScalar(1 - smoothing)).AddScalar(smoothing / float64(x.extent(axis))))
		}
		p := keep(x.LogSoftmax(axis))
		if w := keep(givenLike(o.weight, x)); w.Present() {
			p = keep(p.Mul(keep(w.perClass(x.Rank(), axis))))
		}
		return keep(keep(p.Mul(y)).Sum(axis)).Neg().reduced(&o)
	})
}
