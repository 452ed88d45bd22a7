package autodiff

import (
	"cmp"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Gradients of matrix products.

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
	shape, last := x.v.Shape(), x.Rank()-1
	return dyn{x.run(OpReshape, &Attr{Shape: []int64{tensor.NumElements(shape[:last]), shape[last]}})}
}

// rowSum adds up the rows of a matrix, from the first to the last: ones times g.
func rowSum(g dyn) dyn {
	if g.Len() == 0 { // of any number of rows
		return g.Sum(0)
	}
	ones := dyn{fill[Backend](g.be, g.DType(), 1, []int64{1, g.v.Shape()[0]})}
	return ones.MatMul(g).Squeeze(0)
}
