package autodiff

import (
	"math"
	"slices"
)

// temporaries are what a layer makes on the way to its results. They are released at its end, so that their memory is
// used again: a graph holds what it needs of them.
type temporaries[B Backend] []Float[B]

func (t *temporaries[B]) add(x Float[B]) Float[B] {
	*t = append(*t, x)
	return x
}

func (t *temporaries[B]) release() {
	for _, x := range *t {
		x.Release()
	}
	*t = (*t)[:0]
}

// Silu returns x * sigmoid(x), which is also called swish.
func (x Float[B]) Silu() Float[B] {
	s := x.Sigmoid()
	defer s.Release()
	return x.Mul(s)
}

// Dropout puts 0 in place of each element with probability p, and divides the others by 1 - p. The seed
// says which: the same ones on every machine. Use another one for every layer and step, and leave the
// layer out when serving.
func (x Float[B]) Dropout(p float64, seed uint64) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case !(p >= 0 && p <= 1):
		return Float[B]{failed(x.be, "dropout: p is %g; want a probability, from 0 to 1", p)}
	}
	var made temporaries[B]
	defer made.release()
	gone := made.add(Uniform(x.be, seed, 0, 1, x.Shape()...)).LessScalar(p)
	defer gone.Release()
	if p < 1 {
		x = made.add(x.DivScalar(1 - p))
	}
	return x.MaskFill(gone, 0)
}

// maxSide bounds an axis that Interpolate makes: no memory has more elements.
const maxSide = min(maxElements, math.MaxInt>>8)

// Interpolate scales the images x [n, c, h, w] to height and width h and w: bilinear, or nearest. A
// nearest pixel is floor(i * from / to), as PyTorch's nearest is; a bilinear one lies between pixels
// whose centres are half a pixel inside of the edges, or on them with AlignCorners.
func (x Float[B]) Interpolate(h, w int, m SampleMode) Float[B] {
	switch {
	case x.Err() != nil:
		return x
	case x.Rank() != 4 || x.extent(2) < 1 || x.extent(3) < 1:
		return Float[B]{failed(x.be, "interpolate: x is %v; want [n, c, h, w], with a pixel at least", x)}
	case min(h, w) < 1 || max(h, w) > maxSide:
		return Float[B]{failed(x.be, "interpolate: the size is %d by %d; want 1 by 1 at least, and at most %d along an axis", h, w, maxSide)}
	case m.Padding != "":
		return Float[B]{failed(x.be, "interpolate: the padding is %q; want none, since no pixel lies outside", m.Padding)}
	case m.Mode == "nearest" && m.AlignCorners:
		return Float[B]{failed(x.be, "interpolate: nearest with AlignCorners; want bilinear, which has corners to align")}
	case !slices.Contains([]string{"", "bilinear", "nearest"}, m.Mode):
		return Float[B]{failed(x.be, "interpolate: the mode is %q; want bilinear or nearest", m.Mode)}
	case x.Len() == 0:
		return x.Reshape(x.extent(0), x.extent(1), h, w)
	case m.Mode == "nearest":
		return x.resized(h, w, Float[B].nearest)
	}
	return x.inFloat32(Float[B]{}, Float[B]{}, func(x, _, _ Float[B]) Float[B] { // to round once
		return x.resized(h, w, func(x Float[B], axis, to int) Float[B] { return x.between(axis, to, m.AlignCorners) })
	})
}

// resized scales the rows of images, then their columns.
func (x Float[B]) resized(h, w int, along func(x Float[B], axis, to int) Float[B]) Float[B] {
	if x.extent(3) != w {
		wide := along(x, 3, w)
		if x.extent(2) == h {
			return wide
		}
		defer wide.Release()
		x = wide
	} else if x.extent(2) == h {
		return x.Reshape(x.Shape()...) // a tensor of its own, which is released by itself
	}
	return along(x, 2, h)
}

// nearest scales one axis.
func (x Float[B]) nearest(axis, to int) Float[B] {
	from := x.extent(axis)
	at := make([]int64, to)
	for i := range at {
		at[i] = int64(i) * int64(from) / int64(to)
	}
	return x.rows(axis, at)
}

// between scales one axis: x[i]*(1-t) + x[i+1]*t.
func (x Float[B]) between(axis, to int, corners bool) Float[B] {
	from := x.extent(axis)
	first, second := make([]int64, to), make([]int64, to)
	left, right := make([]float64, to), make([]float64, to)
	for i := range first {
		var at float64
		switch {
		case !corners:
			at = max((float64(i)+0.5)*float64(from)/float64(to)-0.5, 0)
		case to > 1:
			at = float64(i) * float64(from-1) / float64(to-1)
		}
		first[i] = int64(at)
		second[i] = min(first[i]+1, int64(from-1))
		right[i] = at - float64(first[i])
		left[i] = 1 - right[i]
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	weighted := func(at []int64, w []float64) Float[B] {
		weight := keep(keep(Floats(x.be, w, []int{to, 1}[:4-axis]...)).Cast(x.DType()))
		return keep(keep(x.rows(axis, at)).Mul(weight))
	}
	return weighted(first, left).Add(weighted(second, right))
}

// rows is Select by numbers.
func (x Float[B]) rows(axis int, at []int64) Float[B] {
	indices := Ints(x.be, at)
	defer indices.Release()
	return x.Select(axis, indices)
}
