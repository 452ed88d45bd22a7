package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var boundsAttr = attr{name: "bounds", kind: wordAttr, def: "error", words: []string{"error", "skip"}}

// embedding copies the rows of weight that indices name.
var embedding = op{
	name: "embedding", category: Embedding,
	args: []arg{
		{name: "weight", shaped: true, allow: floats},
		{name: "indices", shaped: true, allow: indices},
		{name: "y", out: true, allow: floats, defaultType: same("weight")},
	},
	attrs: []attr{boundsAttr},
	infer: func(p *Problem) error {
		weight, index := p.Shape("weight"), p.Shape("indices")
		if len(weight) != 2 {
			return p.errorf("weight", "has shape %s; want [V, D]", tensor.ShapeString(weight))
		}
		if len(index) == tensor.MaxRank {
			return p.errorf("indices", "has %d dimensions; want at most %d", len(index), tensor.MaxRank-1)
		}
		p.setShape("y", append(index[:len(index):len(index)], weight[1]))
		return sameTypeAs("y", "weight")(p)
	},
	build: func(pl *plan) error {
		pl.compute, pl.accumulator, pl.row, pl.needs = pl.problem.DType("weight"), tensor.None, "go", "go"
		if pl.pref.Row != "" && pl.pref.Row != pl.row {
			return errorf(InvalidProblem, "embedding", "preference", "names row %q; want go", pl.pref.Row)
		}
		skip := pl.problem.word("bounds") == "skip"
		if !skip {
			pl.check = func(c *call) error { return checkIndices(c, &c.args[1], c.args[0].Shape[0]) }
		}
		pl.run = func(c *call) error {
			n := c.args[1].NumElements()
			per := rowsPerJob(c.args[0].Shape[1])
			c.parallel((n+per-1)/per, n*c.args[0].Shape[1], copyRows)
			return nil
		}
		return nil
	},
	rows: func() []string { return []string{"go"} },
}

// rowsPerJob makes jobs of about jobSize elements out of rows of d.
func rowsPerJob(d int64) int64 { return max(1, jobSize/max(1, d)) }

// checkIndices asks every index to name a row.
func checkIndices(c *call, indices *tensor.View, rows int64) error {
	at := int64(-1)
	switch {
	case !indices.IsContiguous():
		for i := int64(0); i < indices.NumElements() && at < 0; i++ {
			if v := indexAt(indices, i); v < 0 || v >= rows {
				at = i
			}
		}
	case indices.DType == tensor.I32:
		at = firstOutside(tensor.Slice[int32](*indices), rows)
	default:
		at = firstOutside(tensor.Slice[int64](*indices), rows)
	}
	if at < 0 {
		return nil
	}
	return errorf(InvalidArgument, c.problem.op.name, "indices", "is %d at position %d; want 0 to %d", indexAt(indices, at), at, rows-1)
}

// firstOutside returns the position of the first index that names no row, or -1.
func firstOutside[T int32 | int64](indices []T, rows int64) int64 {
	for i, v := range indices {
		if uint64(v) >= uint64(rows) {
			return int64(i)
		}
	}
	return -1
}

// indexAt returns the index at a row-major position.
func indexAt(v *tensor.View, i int64) int64 {
	if !v.IsContiguous() {
		i = elementOffset(v, i)
	}
	return readInt(unsafe.Add(v.Data, i*v.DType.Size()), v.DType)
}

// rowAt returns the span of the innermost dimension's elements at a row-major
// position of the dimensions before it.
func rowAt(v *tensor.View, i int64) cpu.Span {
	last := len(v.Shape) - 1
	offset := int64(0)
	for d := last - 1; d >= 0; d-- {
		offset += i % v.Shape[d] * v.Stride(d)
		i /= v.Shape[d]
	}
	size := v.DType.Size()
	return cpu.Span{P: unsafe.Add(v.Data, offset*size), Stride: v.Stride(last) * size, DType: v.DType}
}

func copyRows(c *call, _ *worker, number int64) {
	weight, index, y := &c.args[0], &c.args[1], &c.args[2]
	d := weight.Shape[1]
	if d == 0 {
		return
	}
	per := rowsPerJob(d)
	from, to := number*per, min((number+1)*per, index.NumElements())
	if weight.IsContiguous() && y.IsContiguous() {
		size := d * weight.DType.Size()
		for i := from; i < to; i++ {
			dst := unsafe.Slice((*byte)(unsafe.Add(y.Data, i*size)), size)
			if row := indexAt(index, i); row >= 0 && row < weight.Shape[0] {
				copy(dst, unsafe.Slice((*byte)(unsafe.Add(weight.Data, row*size)), size))
			} else {
				clear(dst)
			}
		}
		return
	}
	for i := from; i < to; i++ {
		if row := indexAt(index, i); row >= 0 && row < weight.Shape[0] {
			cpu.CopyRow(rowAt(y, i), rowAt(weight, row), d)
		} else {
			cpu.ZeroRow(rowAt(y, i), d)
		}
	}
}
