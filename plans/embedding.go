package plans

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var boundsAttr = attr{
	name: "bounds", kind: wordAttr, def: "error", words: []string{"error", "skip"},
	doc: "an index that names no row: is an error before anything is written (on a GPU it stops the context), or counts for nothing (a row of zeros in embedding)",
}

// The places of embedding's arguments; embeddingRenorm and bags begin with the same two.
const (
	embeddingWeight = iota
	embeddingIndices
	embeddingOutput
)

// embedding copies the rows of weight that indices name.
var embedding = op{
	name: "embedding", category: Embedding,
	doc: "Copies the rows of a table that indices name.",
	formulas: []string{
		"y[i] = weight[indices[i]]",
	},
	sections: []int{5},
	args: []arg{
		{name: "weight", shaped: true, compact: copiesRows, allow: floats, form: "[V, D]", doc: "the table"},
		{name: "indices", shaped: true, allow: indices, form: "any of at most 7 dimensions", doc: "rows of weight"},
		{name: "y", out: true, allow: floats, defaultType: same("weight"), form: "indices', then D", doc: "the rows, in weight's type"},
	},
	attrs: []attr{boundsAttr},
	infer: func(p *Problem) error {
		weight, index := p.Shape("weight"), p.Shape("indices")
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		if len(index) == tensor.MaxRank {
			return p.errorf("indices", "has %d dimensions; want at most %d", len(index), tensor.MaxRank-1)
		}
		p.setShape("y", append(index[:len(index):len(index)], weight[1]))
		return sameTypeAs("y", "weight")(p)
	},
	build: buildEmbedding,
	rows:  namesOf(cpu.Embedding),
}

func buildEmbedding(pl *plan) error {
	p := &pl.problem
	kernel, err := selectRow(pl, cpu.Embedding, cpu.Types{Compute: p.DType("weight").Compute()})
	if err != nil {
		return err
	}
	pl.compute, pl.accumulator = p.DType("weight"), tensor.None
	e := &rowLookup{kernel: kernel, strict: p.word("bounds") == "error"}
	// y, and the rows that it is of.
	elements := tensor.NumElements(p.Shape("y"))
	e.stream = (elements+min(elements, tensor.NumElements(p.Shape("weight"))))*p.DType("y").Size() > streamFrom
	e.job = e.copyRows
	if e.strict {
		pl.check = rowCheck()
	}
	pl.keepAlikeCalls()
	pl.run = e.run
	return nil
}

// rowLookup is how one problem runs.
type rowLookup struct {
	kernel func(*cpu.RowCopies)
	strict bool // all indices were checked
	stream bool // y is stored around the caches
	job    job  // copyRows: a method value made once, so that running does not allocate
}

func (e *rowLookup) run(c *call) error {
	weight, indices := &c.args[embeddingWeight], &c.args[embeddingIndices]
	n, columns := indices.NumElements(), weight.Shape[1]
	c.parallel(ceilDiv(n, rowsPerJob(columns)), n*columns, e.job)
	return nil
}

// leastRead is of how few elements a copy takes longer than it saves.
const leastRead = 512

// copiesRows reports whether rows of a table that is copied first are copied as a whole.
func copiesRows(c *call) bool {
	y := &c.args[embeddingOutput]
	return y.Stride(len(y.Shape)-1) == 1 && namesAsMany(embeddingWeight, embeddingIndices)(c)
}

// namesAsMany reports whether indices name as many rows as a table has: these are read faster after the table was copied.
func namesAsMany(table, indices int) func(c *call) bool {
	return func(c *call) bool {
		t, n := &c.args[table], c.args[indices].NumElements()
		return n >= t.Shape[0] && n*t.Shape[1] >= leastRead
	}
}

// checkTable asks an argument to be a table of rows, as a weight and its gradient
// are.
func checkTable(p *Problem, name string) error {
	if shape := p.Shape(name); len(shape) != 2 {
		return p.errorf(name, "has shape %s; want [V, D]", tensor.ShapeText(shape))
	}
	return nil
}

// checkPadding asks padding_idx to name a row, or none.
func checkPadding(p *Problem) error {
	if pad := p.int("padding_idx"); pad < -1 {
		return p.errorf("padding_idx", "is %d; want a row, or -1 for none", pad)
	}
	return nil
}

// rowsPerJob makes jobs of about jobSize elements out of rows of some columns.
func rowsPerJob(columns int64) int64 { return max(1, jobSize/max(1, columns)) }

// rowCheck makes the check that every index names a row of weight, which comes first.
func rowCheck() func(c *call) error {
	search := pickSupport(cpu.FirstOutside, cpu.Types{})
	return func(c *call) error { return checkRows(c, search) }
}

func checkRows(c *call, search cpu.IndexSearch) error {
	weight, indices := &c.args[embeddingWeight], &c.args[embeddingIndices]
	rows, at := weight.Shape[0], int64(-1)
	switch {
	case !indices.IsContiguous():
		at = firstOutside(indices, rows)
	case indices.DType == tensor.I32:
		at = search.I32(tensor.Slice[int32](*indices), int32(min(rows-1, math.MaxInt32)))
	default:
		at = search.I64(tensor.Slice[int64](*indices), rows-1)
	}
	if at < 0 {
		return nil
	}
	want := fmt.Sprintf("want 0 to %d", rows-1)
	if rows == 0 {
		want = "the table has no rows"
	}
	return errorf(InvalidArgument, c.problem.op.name, "indices", "is %d at position %d; %s", indexAt(indices, at), at, want)
}

// rowAt returns the span of the innermost dimension's elements at a row-major
// position of the dimensions before it.
func rowAt(v *tensor.View, i int64) cpu.Span {
	last := len(v.Shape) - 1
	offset := int64(0)
	for d := last - 1; d > 0; d-- {
		offset += i % v.Shape[d] * v.Stride(d)
		i /= v.Shape[d]
	}
	if last > 0 {
		offset += i * v.Stride(0)
	}
	size := v.DType.Size()
	return cpu.Span{P: unsafe.Add(v.Data, offset*size), Stride: v.Stride(last) * size, DType: v.DType}
}

// copyRows copies the rows of one job. Indices that were not checked may name
// none: theirs are zeros.
func (e *rowLookup) copyRows(c *call, w *worker, number int64) {
	weight, indices, y := &c.args[embeddingWeight], &c.args[embeddingIndices], &c.args[embeddingOutput]
	d, per := weight.Shape[1], rowsPerJob(weight.Shape[1])
	r := &w.ownArgs().copies
	*r = cpu.RowCopies{To: matrixOf(y), From: matrixOf(weight), Columns: d, Early: rowsEarly(weight), Stream: e.stream}
	for at, end := number*per, min((number+1)*per, indices.NumElements()); at < end; {
		var rows []int64
		if isList(indices) {
			rows = tensor.Slice[int64](*indices)[at:end]
		} else {
			rows = w.scratch.Ints(0, int(min(cpu.Block, end-at)))
			readManyIndices(rows, indices, at)
		}
		from := 0 // where the rows begin that are not copied yet
		for i := 0; i < len(rows) && !e.strict; i++ {
			if row := rows[i]; row < 0 || row >= weight.Shape[0] {
				r.First, r.Indices = at+int64(from), rows[from:i]
				e.kernel(r)
				cpu.ZeroRow(rowAt(y, at+int64(i)), d)
				from = i + 1
			}
		}
		r.First, r.Indices = at+int64(from), rows[from:]
		e.kernel(r)
		at += int64(len(rows))
	}
}

// rowsEarly returns how many rows of a table ahead memory is asked for: some 4 KiB,
// none where the table stays in the caches.
func rowsEarly(table *tensor.View) int {
	row := table.Shape[1] * table.DType.Size()
	if table.Shape[0]*row <= streamFrom/8 {
		return 0
	}
	return int(min(max(4096/row, 1), 8))
}
