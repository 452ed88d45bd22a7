package autodiff

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// LayerNorm normalises the last dimension to mean 0 and variance 1, then
// multiplies by the weight [n] and adds the bias [n], where they are present.
func (x Float[B]) LayerNorm(weight, bias Float[B], eps float64) Float[B] {
	if err := x.checkNormalized("layer_norm", "[..., n]", 1, -1, eps, weight, bias); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.inFloat32(weight, bias, func(x, weight, bias Float[B]) Float[B] {
		return x.normalize(eps, aroundMean).intoScaled(weight, bias)
	})
}

// RMSNorm divides the last dimension by the root of its mean square, with eps added to that, and
// multiplies by the weight [n], if it is present.
func (x Float[B]) RMSNorm(weight Float[B], eps float64) Float[B] {
	if err := x.checkNormalized("rms_norm", "[..., n]", 1, -1, eps, weight); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.inFloat32(weight, Float[B]{}, func(x, weight, _ Float[B]) Float[B] {
		return x.normalize(eps, aroundZero).intoScaled(weight, Float[B]{})
	})
}

// GroupNorm cuts the channels of x [n, c, ...] into groups of neighbours, normalises each group of each
// image to mean 0 and variance 1, then multiplies by the weight [c] and adds the bias [c] of each
// channel, where they are present. One group for each channel is an instance normalisation.
func (x Float[B]) GroupNorm(groups int, weight, bias Float[B], eps float64) Float[B] {
	err := x.checkNormalized("group_norm", "[n, c, ...]", 2, 1, eps, weight, bias)
	if err == nil && (groups < 1 || x.Shape()[1]%groups != 0) {
		err = fmt.Errorf("autodiff: group_norm: %d groups of x, which is %v; want a number that its %d channels are a multiple of", groups, x, x.Shape()[1])
	}
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.inFloat32(weight, bias, func(x, weight, bias Float[B]) Float[B] {
		shape, each := x.Shape(), 0
		if x.Len() > 0 {
			each = x.Len() / shape[0] / groups
		}
		var made temporaries[B]
		defer made.release()
		grouped := made.add(x.Reshape(shape[0], groups, each))
		y := made.add(grouped.normalize(eps, aroundMean)).Reshape(shape...)
		return y.intoScaled(weight.perChannel(len(shape)), bias.perChannel(len(shape)))
	})
}

// perChannel makes x [c], if it is present, one that broadcasts with [n, c, ...].
func (x Float[B]) perChannel(rank int) Float[B] {
	if !x.Present() {
		return x
	}
	return x.Reshape(append([]int{x.Len()}, slices.Repeat([]int{1}, rank-2)...)...)
}

// What normalize takes squares around: the mean, which it subtracts, or 0.
const aroundMean, aroundZero = false, true

func (x Float[B]) normalize(eps float64, around bool) Float[B] {
	return Float[B]{x.run(OpNormalize, &Attr{Floats: [10]float64{eps}, AroundZero: around})}
}

func (x Float[B]) scaled(weight, bias Float[B]) Float[B] {
	switch {
	case !weight.Present():
		return x.Add(bias)
	case !bias.Present():
		return x.Mul(weight)
	}
	y := x.Mul(weight)
	defer y.Release()
	return y.Add(bias)
}

// intoScaled is scaled, if there is anything to do, of an x that nobody else has.
func (x Float[B]) intoScaled(weight, bias Float[B]) Float[B] {
	if !weight.Present() && !bias.Present() {
		return x
	}
	defer x.Release()
	return x.scaled(weight, bias)
}

// checkNormalized checks what a normalisation is given: parameters, in the order of their names below, have the
// extent of an axis.
func (x Float[B]) checkNormalized(name, layout string, rank, axis int, eps float64, parameters ...Float[B]) error {
	if err := x.Err(); err != nil {
		return err
	}
	if x.Rank() < rank {
		return fmt.Errorf("autodiff: %s: x is %v; want %s", name, x, layout)
	}
	if !(eps >= 0) {
		return fmt.Errorf("autodiff: %s: eps is %g; want 0 or more", name, eps)
	}
	want := Info{x.DType(), []int64{int64(x.extent(axis))}}
	for i, p := range parameters {
		switch {
		case !p.Present():
		case p.Err() != nil:
			return p.Err()
		case p.DType() != want.DType || !slices.Equal(p.v.Shape(), want.Shape):
			return fmt.Errorf("autodiff: %s: the %s is %v; want %v, to go with x of %v", name, [...]string{"weight", "bias", "running mean", "running variance"}[i], p, want, x)
		}
	}
	return nil
}

// inFloat32 computes in f32 where the type has 16 bits: squares and sums may be out of its range.
func (x Float[B]) inFloat32(weight, bias Float[B], of func(x, weight, bias Float[B]) Float[B]) Float[B] {
	d := x.DType()
	if d.Size() != 2 {
		return of(x, weight, bias)
	}
	var made temporaries[B]
	defer made.release()
	wide := func(t Float[B]) Float[B] {
		if !t.Present() {
			return t
		}
		return made.add(t.Cast(tensor.F32))
	}
	return made.add(of(wide(x), wide(weight), wide(bias))).Cast(d)
}
