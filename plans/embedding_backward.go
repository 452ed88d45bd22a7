package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The attributes that the gradients of a weight share.
var (
	paddingAttr    = attr{name: "padding_idx", def: int64(-1), doc: "indices of this row are left out; -1: of none"}
	accumulateAttr = attr{name: "accumulate", kind: boolAttr, def: false, doc: "adds to what the output holds, which is otherwise not read"}
	byFreqAttr     = attr{name: "scale_grad_by_freq", kind: boolAttr, def: false, doc: "divides each row's sum by the number of its terms"}
)

// The places of embeddingBackward's arguments.
const (
	embeddingBackwardGradOutput = iota
	embeddingBackwardIndices
	embeddingBackwardGradWeight
)

// embeddingBackward sums, for every row of weight, the rows of grad_output
// whose index named it, in Chunk order.
//
// Workspace: the first position of each row in a list, and the list of
// positions ordered by row, both of 64-bit numbers; where few rows are named,
// the first list is of those (named_rows.go).
var embeddingBackward = op{
	name: "embedding_backward", category: Embedding,
	doc: "Sums, for each row of the table, the gradients at the positions whose index named it.",
	formulas: []string{
		"grad_weight[r] = sum(grad_output[i]) over positions i with indices[i] = r",
	},
	sections: []int{5, 4},
	args: []arg{
		{name: "grad_output", shaped: true, compact: ownColumns, allow: floats, form: "indices', then D", doc: "the gradient of y"},
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
	build: buildEmbeddingBackward,
	rows:  namesOf(cpu.RowSums),
}

func buildEmbeddingBackward(pl *plan) error {
	p := &pl.problem
	kernel, err := selectRow(pl, cpu.RowSums, sumTypes(p.DType("grad_output"), p.DType("grad_weight")))
	if err != nil {
		return err
	}
	vocabulary, positions := p.Shape("grad_weight")[0], tensor.NumElements(p.Shape("indices"))
	e := &embeddingSum{
		kernel: kernel, padding: p.int("padding_idx"),
		accumulate: p.bool("accumulate"), byFreq: p.bool("scale_grad_by_freq"),
	}
	e.spread = pickSupport(cpu.RepeatsEach, typesOf(p.DType("grad_weight")))
	pl.keepAlikeCalls()
	e.few = !e.accumulate && areFew(positions, vocabulary)
	pl.workspace, pl.run = listWords(positions, vocabulary, e.few)*8, e.run
	return nil
}

// embeddingSum is how one problem runs.
type embeddingSum struct {
	kernel             func(*cpu.EmbeddingSums)
	padding            int64
	accumulate, byFreq bool
	few                bool // indices, so that named rows are listed alone
	spread             cpu.RepeatEach
}

// narrowRow is of how few bytes rows are that take less time to sum than to fill, unless some gradients are summed for each.
const narrowRow, someTerms = 32, 8

// ownColumns reports whether columns of the gradient differ, or are added to columns that do, or are short to copy.
func ownColumns(c *call) bool {
	dy, dw := &c.args[embeddingBackwardGradOutput], &c.args[embeddingBackwardGradWeight]
	last := len(dy.Shape) - 1
	columns := dy.Shape[last]
	short := columns == 1 || columns*dy.DType.Size() < narrowRow && dy.NumElements() < someTerms*dw.NumElements()
	return short || dy.Stride(last) != 0 || dy.Stride(0) == 0 || dw.Stride(1) != 1 || c.problem.bool("accumulate")
}

func (e *embeddingSum) run(c *call) error {
	gradOutput, indices, gradWeight := &c.args[embeddingBackwardGradOutput], &c.args[embeddingBackwardIndices], &c.args[embeddingBackwardGradWeight]
	sums := rowSums{kernel: e.kernel, accumulate: e.accumulate, byFreq: e.byFreq, terms: matrixOf(gradOutput), out: gradWeight}
	if !ownColumns(c) {
		sums.terms.Stride, sums.spread = gradOutput.DType.Size(), e.spread
	}
	c.sortByRow(&sums, indices, e.padding, e.few)
	sums.numberEvenly()
	c.sumRows(&sums)
	return nil
}

// sortByRow lists the positions of indices by the row of sums.out that they name, ascending
// within a row: those of the row numbered r are order[start[r]:start[r+1]]. Indices
// that name no row, or the padding row, are left out.
func (c *call) sortByRow(sums *rowSums, indices *tensor.View, padding int64, few bool) {
	n, memory := indices.NumElements(), words(c.workspace)
	b := newBags(indices, new(tensor.View), 0, n, sums.out.Shape[0], padding)
	b.takeLists(sums, &memory, few)
	b.countRows(sums, n)
	start, order := sums.start, sums.order
	var list [cpu.Block]int64
	for at := int64(0); at < n; {
		rows := b.some(list[:], at, n)
		for i, row := range rows {
			if b.keeps(row) {
				r := sums.named.number(row)
				order[start[r]] = at + int64(i)
				start[r]++
			}
		}
		at += int64(len(rows))
	}
	endsToStarts(start)
}
