package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// granularity says which elements of a tensor share a scale and a zero point.
// Each kind is a block extent per dimension: the elements of a block share them.
type granularity struct {
	suffix string // of the ops' names
	doc    string // which elements are a group
	form   string // the shapes of x that it takes
	params string // the shape of what has an element for each group
	attrs  []attr
	blocks func(p *Problem, shape []int64) (grouping, error)
}

// grouping is a granularity for one shape of x.
type grouping struct {
	block       []int64   // the extent of a block along each dimension
	paramDim    []int     // the dimension of paramShapes[0] that follows each dimension of x, or -1
	paramShapes [][]int64 // the shapes that scale and zero point may have
}

var granularities = []granularity{
	{"per_tensor", "all elements", "any", "[] or [1]", nil, perTensor},
	{
		"per_channel", "those with the same index along axis", "[d0, ..., dn], n >= 0", "[d_axis]",
		[]attr{{name: "axis", doc: "the dimension of the channels; -1 is the last"}}, perChannel,
	},
	{"per_token", "those of one last dimension", "[d0, ..., dn], n >= 0", "[d0, ..., d(n-1)] or [d0, ..., d(n-1), 1]", nil, perToken},
	{
		"per_group", "runs of group_size along the last dimension, the last one maybe shorter",
		"[d0, ..., dn], n >= 0", "[d0, ..., d(n-1), ceil(dn / group_size)]",
		[]attr{{name: "group_size", doc: "elements of a group, at least 1"}}, perGroup,
	},
	{
		"per_block", "blocks of block_size, the last ones along a dimension maybe shorter",
		"[d0, ..., dn]", "[ceil(d0 / b0), ..., ceil(dn / bn)]",
		[]attr{{name: "block_size", kind: listAttr, doc: "[b0, ..., bn], the extents of a block, each at least 1"}}, perBlock,
	},
}

var perTensorShapes = [][]int64{{}, {1}}

func perTensor(_ *Problem, shape []int64) (grouping, error) {
	return grouping{slices.Clone(shape), absentDims(shape), perTensorShapes}, nil
}

func absentDims(shape []int64) []int {
	dims := make([]int, len(shape))
	for i := range dims {
		dims[i] = -1
	}
	return dims
}

func perChannel(p *Problem, shape []int64) (grouping, error) {
	rank := int64(len(shape))
	axis := p.int("axis")
	if axis < -rank || axis >= rank {
		if rank == 0 {
			return grouping{}, p.errorf("axis", "is %d; want a shape of at least one dimension, not []", axis)
		}
		return grouping{}, p.errorf("axis", "is %d; want -%d to %d for shape %s", axis, rank, rank-1, tensor.ShapeText(shape))
	}
	axis = (axis + rank) % rank
	g, _ := perTensor(p, shape)
	g.block[axis], g.paramDim[axis] = 1, 0
	g.paramShapes = [][]int64{{shape[axis]}}
	return g, nil
}

func perToken(p *Problem, shape []int64) (grouping, error) {
	if len(shape) == 0 {
		return grouping{}, p.errorf(p.op.args[0].name, "has shape []; want at least one dimension")
	}
	last := len(shape) - 1
	g := inBlocks(shape, append(ones(last), shape[last]))
	g.paramDim[last] = -1
	g.paramShapes = [][]int64{shape[:last:last], append(shape[:last:last], 1)}
	return g, nil
}

func perGroup(p *Problem, shape []int64) (grouping, error) {
	size := p.int("group_size")
	switch {
	case len(shape) == 0:
		return grouping{}, p.errorf(p.op.args[0].name, "has shape []; want at least one dimension")
	case size < 1:
		return grouping{}, p.errorf("group_size", "is %d; want at least 1", size)
	}
	return inBlocks(shape, append(ones(len(shape)-1), size)), nil
}

func perBlock(p *Problem, shape []int64) (grouping, error) {
	block := p.attr("block_size").([]int64)
	if len(block) != len(shape) || (len(block) > 0 && slices.Min(block) < 1) {
		return grouping{}, p.errorf("block_size", "is %s; want one extent of at least 1 for each dimension of shape %s", tensor.ShapeText(block), tensor.ShapeText(shape))
	}
	return inBlocks(shape, slices.Clone(block)), nil
}

func ones(n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = 1
	}
	return s
}

// inBlocks groups by blocks of the given extents; the last along a dimension
// may be shorter.
func inBlocks(shape, block []int64) grouping {
	g := grouping{block: block, paramDim: absentDims(shape)}
	params := make([]int64, len(shape))
	for i, d := range shape {
		params[i] = ceilDiv(d, max(block[i], 1))
		g.paramDim[i] = i
	}
	g.paramShapes = [][]int64{params}
	return g
}

func ceilDiv(n, d int64) int64 { return tensor.CeilDiv(n, d) }

// roundUp returns the first multiple of a number from n on.
func roundUp(n, to int64) int64 { return ceilDiv(n, to) * to }

// region is a box of x all of whose groups have the same extents. There is
// more than one where the last group along a dimension is shorter.
type region struct {
	dims []regionDim // in the order of x's dimensions
	// Of the region's first element: its index in x, and in the parameters.
	origin, paramOrigin []int64
}

// regionDim is one dimension of a region: it steps through x along an axis
// and, if it enumerates groups, through the parameters.
type regionDim struct {
	size     int64
	axis     int
	step     int64 // along the axis
	paramDim int   // dimension of the parameters, or -1
	group    bool  // whether it enumerates groups, not the elements of one
}

func (g *grouping) regions(shape []int64) []region {
	rank := len(shape)
	all := []region{{make([]regionDim, 0, 2*rank), make([]int64, 0, rank), make([]int64, 0, rank)}}
	for axis, size := range shape {
		parts, count := g.parts(axis, size)
		if count == 1 {
			for i := range all {
				all[i].add(&parts[0])
			}
			continue
		}
		var next []region
		for _, r := range all {
			for i := range parts {
				part := region{slices.Clone(r.dims), slices.Clone(r.origin), slices.Clone(r.paramOrigin)}
				part.add(&parts[i])
				next = append(next, part)
			}
		}
		all = next
	}
	return all
}

// regionPart is what a region has of one axis.
type regionPart struct {
	dims                [2]regionDim
	count               int // of dims
	origin, paramOrigin int64
}

func (r *region) add(p *regionPart) {
	r.dims = append(r.dims, p.dims[:p.count]...)
	r.origin, r.paramOrigin = append(r.origin, p.origin), append(r.paramOrigin, p.paramOrigin)
}

// parts cuts one axis into full blocks and a shorter last one, or one of these.
func (g *grouping) parts(axis int, size int64) (parts [2]regionPart, count int) {
	block, dim := g.block[axis], g.paramDim[axis]
	if dim < 0 || size == 0 {
		parts[0] = regionPart{[2]regionDim{{size, axis, 1, dim, dim >= 0}}, 1, 0, 0}
		return parts, 1
	}
	full, rest := size/block, size%block
	if full > 0 {
		parts[0] = regionPart{[2]regionDim{{full, axis, block, dim, true}, {block, axis, 1, -1, false}}, 2, 0, 0}
		count++
	}
	if rest > 0 {
		parts[count] = regionPart{[2]regionDim{{1, axis, block, dim, true}, {rest, axis, 1, -1, false}}, 2, full * block, full}
		count++
	}
	return parts, count
}
