package autodiff

import (
	"math"
	"slices"
)

// Losses of how near two tensors are.

// CosineSimilarity is the cosine of the angle between x and y, or what they broadcast to, along an axis of that, which it
// removes. Lengths below eps count as eps.
func (x Float[B]) CosineSimilarity(y Float[B], axis int, eps float64) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case y.Err() != nil:
		return Float[B]{failed(x.be, "cosine_similarity: y: %w", y.Err())}
	case !(eps > 0):
		return Float[B]{failed(x.be, "cosine_similarity: eps is %g; want more than 0", eps)}
	}
	to, err := broadcast(x.v.Shape(), y.v.Shape())
	if err != nil {
		return Float[B]{failed(x.be, "cosine_similarity: x is %v and y %v: %w", x, y, err)}
	}
	return x.inFloat32(y, Float[B]{}, func(x, y, _ Float[B]) Float[B] {
		var made temporaries[B]
		defer made.release()
		keep := made.add
		if !slices.Equal(x.v.Shape(), y.v.Shape()) {
			x, y = keep(Float[B]{x.run(OpExpand, &Attr{Shape: to})}), keep(Float[B]{y.run(OpExpand, &Attr{Shape: to})})
		}
		unit := func(t Float[B]) Float[B] {
			return keep(t.Div(keep(keep(keep(keep(t.PowScalar(2)).SumKeep(axis)).Clamp(eps*eps, math.Inf(1))).Sqrt())))
		}
		return keep(unit(x).Mul(unit(y))).Sum(axis)
	})
}

// CosineEmbedding is the mean of 1 minus the cosine between rows of x and y, [n, d] or [d], where the target [n] or [] is 1,
// and of what the cosine has above the margin where it is -1.
func (x Float[B]) CosineEmbedding(y Float[B], target Int[B], margin float64, options ...LossOption) Float[B] {
	const name = "cosine_embedding"
	o, err := x.lossOptions(name, options)
	switch {
	case x.Err() != nil:
		return x
	case err != nil:
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	case y.Err() != nil:
		return y
	case target.Err() != nil:
		return Float[B]{failed(x.be, "%s: the target: %w", name, target.Err())}
	case x.Rank() < 1 || x.Rank() > 2 || !slices.Equal(x.Shape(), y.Shape()) || !slices.Equal(target.Shape(), x.Shape()[:x.Rank()-1]):
		return Float[B]{failed(x.be, "%s: x is %v, y %v and the target %v; want [n, d], [n, d] and [n], or [d], [d] and []", name, x, y, target)}
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	cos := keep(x.CosineSimilarity(y, -1, 1e-6))
	same, other := target.EqualScalar(1), target.EqualScalar(-1)
	defer same.Release()
	defer other.Release()
	none := Float[B]{cos.scalar(0)}
	defer none.Release()
	apart := keep(Where(other, keep(keep(cos.SubScalar(margin)).Relu()), none))
	return Where(same, keep(keep(cos.Neg()).AddScalar(1)), apart).reduced(&o)
}

// PairwiseDistance is the Euclidean distance between x and y along the last dimension, which it removes, with eps added to
// every difference. Where the distance is 0, so is its gradient.
func (x Float[B]) PairwiseDistance(y Float[B], eps float64) Float[B] {
	return x.inFloat32(y, Float[B]{}, func(x, y, _ Float[B]) Float[B] {
		var made temporaries[B]
		defer made.release()
		keep := made.add
		sum := keep(keep(keep(keep(x.Sub(y)).AddScalar(eps)).PowScalar(2)).Sum(-1))
		zero := sum.EqualScalar(0) // whose root has no gradient
		defer zero.Release()
		return keep(keep(sum.MaskFill(zero, 1)).Sqrt()).MaskFill(zero, 0)
	})
}

// TripletMargin is the mean of what the distance from x to a positive [..., d] has above that to a negative, plus the margin.
func (x Float[B]) TripletMargin(positive, negative Float[B], margin float64, options ...LossOption) Float[B] {
	o, err := x.lossOptions("triplet_margin", options)
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	near, far := keep(x.PairwiseDistance(positive, 1e-6)), keep(x.PairwiseDistance(negative, 1e-6))
	return keep(keep(near.Sub(far)).AddScalar(margin)).Relu().reduced(&o)
}

// MarginRanking is the mean of what x has too little above y, or below it where the target is -1, of a margin: max(0, margin - target*(x-y)).
func (x Float[B]) MarginRanking(y, target Float[B], margin float64, options ...LossOption) Float[B] {
	o, err := x.lossOptions("margin_ranking", options)
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	return keep(keep(keep(target.Mul(keep(y.Sub(x)))).AddScalar(margin))).Relu().reduced(&o)
}
