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
	tiles      tilesArgs
}

type packedArgs struct {
	q             quantArgs
	codes, x      tensorArg
	rows, columns int64
	tiles         tilesArgs
}

// tilesArgs is struct Tiles.
type tilesArgs struct {
	size, packs, run, row  int64
	tiles, runs, side      uint32
	logLanes               int32
	scaleStep, zeroStep    int32
	pieces, params, groups ratio
	packsOf                ratio
}

// ratio is struct Ratio.
type ratio struct{ by, multiplier, shift uint32 }

// ratioOf divides by a positive number below 2^31.
func ratioOf(by int64) ratio {
	shift := 31 + logOf(by)
	return ratio{uint32(by), uint32(uint64(1)<<shift/uint64(by) + 1), uint32(shift)}
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
	q.n, q.params = 1, 1
	for i, extent := range shape {
		q.n *= extent
		if block[i] > 0 { // else one group of nothing
			q.params *= ceilDiv(extent, min(block[i], max(extent, 1)))
		}
	}
	dims := joined(shape, block)
	q.inner, q.rows, q.group = 1, 1, 1
	switch n := len(dims); {
	case n == 1:
		q.inner, q.group = dims[0].extent, dims[0].block
	case n == 2 && dims[0].block == 1:
		q.rows, q.inner, q.group = dims[0].extent, dims[1].extent, dims[1].block
	case n > 0:
		return generalQuant(q, shape, block)
	}
	q.groups = ceilDiv(q.inner, q.group)
	if q.inner > 0 && q.inner%q.group == 0 { // groups of one size follow one another as rows do
		q.rows, q.inner, q.groups = q.rows*q.groups, q.group, 1
	}
	return q
}

// quantDim is a dimension that is cut into blocks.
type quantDim struct{ extent, block int64 }

// joined returns the dimensions of a shape, neighbours as one where their groups are, together, again runs of one
// length; none where there are no elements.
func joined(shape, block []int64) (dims []quantDim) {
	for i, extent := range shape {
		if extent == 0 {
			return nil
		}
		d := quantDim{extent, min(block[i], extent)}
		last := len(dims) - 1
		switch {
		case extent == 1:
		case last >= 0 && (d.block == d.extent || (d.block == 1 && dims[last].block == 1)):
			dims[last] = quantDim{dims[last].extent * extent, dims[last].block * d.block}
		default:
			dims = append(dims, d)
		}
	}
	if len(dims) > 1 && dims[0].block == dims[0].extent {
		dims = dims[1:] // repeats: rows go round
	}
	return dims
}

func generalQuant(q quantArgs, shape, block []int64) quantArgs {
	q.inner, q.rows, q.groups, q.group = 0, 0, 0, 0
	q.dims = int32(len(shape))
	copy(q.extent[:], shape)
	for i, extent := range shape {
		q.block[i] = min(block[i], extent)
		q.count[i] = ceilDiv(extent, q.block[i])
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

const (
	logWarp   = 5
	tileEach  = 4
	tilePacks = tileEach << logWarp
)

// tiles deals out packs of size elements: as many from the first on as have one
// parameter each. They can move at once if that is so and tensors are compact, else they
// are of single elements, of tensors with one stride. quick says that the kernel lends
// parameters.
func (q *quantArgs) tiles(size int64, quick bool, tensors ...*tensorArg) (t tilesArgs) {
	rank := int32(0)
	for _, t := range tensors {
		rank = max(rank, t.rank)
	}
	if rank > 0 || q.params != 1 && !q.moves(size) {
		size, quick = 1, false
	}
	lines := rank <= 1 && (q.dims == 0 || q.params == 1)
	if q.n < size || !lines || !q.scale.step(&t.scaleStep) || !q.zero.step(&t.zeroStep) {
		return tilesArgs{}
	}
	t.size, t.packs = size, q.n/size
	t.run, t.row = t.packs, t.packs
	if q.params > 1 {
		t.run, t.row = q.group/size, q.inner/size
	}
	groups := ceilDiv(t.row, t.run)
	runs, pieces := t.packs/t.row*groups, ceilDiv(t.run, tilePacks)
	tiles := ceilDiv(runs, t.runsOfTile(quick && groups == 1)) * pieces
	if max(runs, tiles, q.params) >= 1<<31 {
		return tilesArgs{} // numbers that a ratio does not divide
	}
	t.tiles, t.runs = uint32(tiles), uint32(runs)
	t.pieces, t.params, t.groups, t.packsOf = ratioOf(pieces), ratioOf(q.params), ratioOf(groups), ratioOf(min(t.run, tilePacks))
	return t
}

// runsOfTile chooses how many lanes of a warp have a run, and returns how many runs the warp then has.
func (t *tilesArgs) runsOfTile(lends bool) int64 {
	for t.logLanes < logWarp && t.run > tileEach<<t.logLanes {
		t.logLanes++
	}
	if !lends || t.run == 1 || t.run >= 32 {
		return 1 << (logWarp - t.logLanes)
	}
	side := min(tilePacks/t.run, 1<<logWarp)
	t.side = uint32(side)
	return side
}

// threads covers tiles, with a warp for each, and what is left of some items.
func (t *tilesArgs) threads(left int64) geometry {
	return blocks(ceilDiv(max(int64(t.tiles)<<logWarp, min(left, 1<<28)), blockThreads), gridX)
}
