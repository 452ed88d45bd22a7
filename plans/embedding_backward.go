package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The attributes that the gradients of a weight share.
var (
	paddingAttr    = attr{name: "padding_idx", def: int64(-1), doc: "indices of this row are left out; -1: of none"}
	accumulateAttr = attr{name: "accumulate", kind: boolAttr, def: false, doc: "adds to what the output holds, which is otherwise not read"}
	byFreqAttr     = attr{name: "scale_grad_by_freq", kind: boolAttr, def: false, doc: "divides each row's sum by the number of its terms"}
)

// embeddingBackward sums, for every row of weight, the rows of grad_output
// whose index named it, in Chunk order.
//
// Workspace: the first position of each row in a list, and the list of
// positions ordered by row, both of 64-bit numbers.
var embeddingBackward = op{
	name: "embedding_backward", category: Embedding,
	doc: "Sums, for each row of the table, the gradients at the positions whose index named it.",
	args: []arg{
		{name: "grad_output", shaped: true, compact: always, allow: floats, form: "indices', then D", doc: "the gradient of y"},
		{name: "indices", shaped: true, allow: indices, form: "any of at most 7 dimensions", doc: "rows of weight; those that name none are left out"},
		{name: "grad_weight", out: true, shaped: true, allow: floats, form: "[V, D]", doc: "the gradient of weight, in grad_output's type"},
	},
	attrs: []attr{
		paddingAttr,
		accumulateAttr,
		byFreqAttr,
	},
	infer: func(p *Problem) error {
		if err := checkTable(p, "grad_weight"); err != nil {
			return err
		}
		dy := append(p.Shape("indices"), p.Shape("grad_weight")[1])
		return all(hasShape("grad_output", dy), checkPadding, sameTypeAs("grad_weight", "grad_output"))(p)
	},
	build: func(pl *plan) error {
		p := &pl.problem
		kernel, err := selectRow(pl, cpu.RowSums, sumTypes(p.DType("grad_output"), p.DType("grad_weight")))
		if err != nil {
			return err
		}
		vocabulary, positions := p.Shape("grad_weight")[0], tensor.NumElements(p.Shape("indices"))
		pl.workspace = (vocabulary + 1 + positions) * 8
		e := embeddingSum{
			kernel: kernel, padding: p.int("padding_idx"),
			accumulate: p.bool("accumulate"), byFreq: p.bool("scale_grad_by_freq"),
		}
		pl.run = e.run
		return nil
	},
	rows: namesOf(cpu.RowSums),
}

type embeddingSum struct {
	kernel             func(*cpu.EmbeddingSums)
	padding            int64
	accumulate, byFreq bool
}

func (e *embeddingSum) run(c *call) error {
	start, order := c.sortByRow(e.padding)
	c.sumRows(&rowSums{
		kernel: e.kernel, accumulate: e.accumulate, byFreq: e.byFreq,
		start: start, order: order, terms: matrixOf(&c.args[0]), out: &c.args[2],
	})
	return nil
}

// sortByRow lists the positions of indices by the row they name, ascending
// within a row: those of row r are order[start[r]:start[r+1]]. Indices that
// name no row, or the padding row, are left out.
func (c *call) sortByRow(padding int64) (start, order []int64) {
	b := bags{indices: &c.args[1], rows: c.args[2].Shape[0], padding: padding}
	n := b.indices.NumElements()
	memory := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(c.workspace))), b.rows+1+n)
	start = memory[:b.rows+1]
	b.countRows(start, n)
	order = memory[b.rows+1:][:start[b.rows]:start[b.rows]]
	var list [cpu.Block]int64
	for at := int64(0); at < n; {
		rows := someIndices(list[:], b.indices, at, n)
		for i, r := range rows {
			if b.keeps(r) {
				order[start[r]] = at + int64(i)
				start[r]++
			}
		}
		at += int64(len(rows))
	}
	endsToStarts(start)
	return start, order
}
