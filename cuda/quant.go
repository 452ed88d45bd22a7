package cuda

import "github.com/isobit-ml/isobit/tensor"

// quantArgs is struct Quant.
type quantArgs struct {
	n, params                  int64
	inner, rows, groups, group int64
	extent, block, count       [tensor.MaxRank]int64
	dims, reciprocal           int32
	float8, _                  int32
	lo, hi                     float64
	scale, zero                tensorArg
}

type mapArgs struct {
	q          quantArgs
	in, x, out tensorArg
	packs      int64
}

type packedArgs struct {
	q                    quantArgs
	codes, x             tensorArg
	rows, columns, packs int64
}

type quantSumArgs struct {
	q                 quantArgs
	stripe            stripeArgs
	dy, x, dx, ds, dz tensorArg
	factor            float64
	columns           int64
	symmetric, _      int32
}

// quantOf describes the groups of a shape; see struct Quant.
func quantOf(shape, block []int64) (q quantArgs) {
	type dim struct{ extent, block int64 }
	var dims []dim
	q.n, q.params = 1, 1
	for i, extent := range shape {
		d := dim{extent, min(max(block[i], 1), max(extent, 1))}
		q.n *= extent
		if block[i] > 0 { // else one group of nothing
			q.params *= (extent + d.block - 1) / d.block
		}
		last := len(dims) - 1
		switch {
		case extent == 1:
		case last >= 0 && (d.block == d.extent || (d.block == 1 && dims[last].block == 1)):
			// Neighbours whose groups are, together, again runs of one length.
			dims[last] = dim{dims[last].extent * extent, dims[last].block * d.block}
		default:
			dims = append(dims, d)
		}
	}
	for _, d := range dims {
		if d.extent == 0 {
			dims = nil
			break
		}
	}
	if len(dims) > 0 && dims[0].block == dims[0].extent && len(dims) > 1 {
		dims = dims[1:] // repeats: rows go round
	}
	q.inner, q.rows, q.group = 1, 1, 1
	switch n := len(dims); {
	case n == 1:
		q.inner, q.group = dims[0].extent, dims[0].block
	case n == 2 && dims[0].block == 1:
		q.rows, q.inner, q.group = dims[0].extent, dims[1].extent, dims[1].block
	case n > 0:
		return generalQuant(q, shape, block)
	}
	q.groups = (q.inner + q.group - 1) / q.group
	return q
}

func generalQuant(q quantArgs, shape, block []int64) quantArgs {
	q.inner, q.rows, q.groups, q.group = 0, 0, 0, 0
	q.dims = int32(len(shape))
	copy(q.extent[:], shape)
	for i, extent := range shape {
		q.block[i] = min(block[i], extent)
		q.count[i] = (extent + q.block[i] - 1) / q.block[i]
	}
	return q
}

// longest returns the number of elements of the largest group.
func (q *quantArgs) longest(shape, block []int64) int64 {
	if q.n == 0 {
		return 0
	}
	n := int64(1)
	for i, extent := range shape {
		n *= min(block[i], extent)
	}
	return n
}

// packSize is PackSize: how many elements of some types move at once.
func packSize(types ...tensor.DType) int64 {
	wide := int64(1)
	for _, d := range types {
		wide = max(wide, d.Size())
	}
	return packBytes / wide
}

// packs is how many packs of size elements, from the first on, have one
// parameter each and can move at once between some tensors.
func (q *quantArgs) packs(size int64, tensors ...*tensorArg) int64 {
	whole := q.params == 1 || (q.dims == 0 && q.group%size == 0 && q.inner%size == 0)
	for _, t := range tensors {
		whole = whole && t.rank == 0
	}
	if !whole {
		return 0
	}
	return q.n / size
}

// packThreads covers packs and what is left of some items: of many, several packs
// have one thread, which loads the next ones while it computes.
func packThreads(packs, left int64) geometry {
	each := int64(8)
	for each > 1 && packs < each*enough {
		each /= 2
	}
	return threads(max((packs+each-1)/each, left))
}
