package plans

import (
	"bytes"
	"math"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// renormRows is how many rows of weight a job looks through at most; there are
// that many jobs if there are rows enough.
const renormRows = 64

// embeddingRenorm scales those rows of weight that indices name down to max_norm,
// in place, whose norm exceeds it. Each row is scaled once.
//
// Workspace: one byte per row.
var embeddingRenorm = op{
	name: "embedding_renorm", category: Embedding,
	doc: "Scales those rows of a table that indices name down to max_norm, whose norm exceeds it.",
	formulas: []string{
		"weight[r] = weight[r] * (max_norm / (norm + 1e-7)) where norm > max_norm, norm = sum(|weight[r]|^norm_type)^(1 / norm_type)",
	},
	sections: []int{5, 4},
	args: []arg{
		{name: "weight", out: true, inout: true, shaped: true, allow: floats, form: "[V, D]", doc: "the table, whose rows are scaled in place"},
		{name: "indices", shaped: true, allow: indices, form: "any", doc: "the rows that are looked at, each once"},
	},
	attrs: []attr{{name: "max_norm", kind: floatAttr, doc: "the norm above which rows are multiplied by max_norm / (norm + 1e-7), which rounds; a number"}, {name: "norm_type", kind: floatAttr, def: 2.0, doc: "the p of the norm: a number, inf or -inf; with others than 0, 1, 2, inf and -inf the last bits depend on the processor, and on a GPU there are 1, 2 and inf"}, boundsAttr},
	infer: func(p *Problem) error {
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		for _, name := range []string{"norm_type", "max_norm"} {
			if math.IsNaN(p.float(name)) {
				return p.errorf(name, "is NaN; want a number")
			}
		}
		return nil
	},
	build: func(pl *plan) error {
		p := &pl.problem
		d := p.DType("weight")
		kernel, err := selectRow(pl, cpu.Renorm, cpu.Types{Compute: d.Compute(), In: [4]tensor.DType{d}})
		if err != nil {
			return err
		}
		maxNorm, norm := p.float("max_norm"), p.float("norm_type")
		perJob := max(1, min(renormRows, p.Shape("weight")[0]/renormRows))
		pl.workspace = roundUp(p.Shape("weight")[0], WorkspaceAlignment) // whole words, so that Go aligns it
		if p.word("bounds") == "error" {
			pl.check = rowCheck()
		}
		job := func(c *call, w *worker, number int64) {
			weight := &c.args[0]
			stop := min((number+1)*perJob, weight.Shape[0])
			for row := number * perJob; row < stop; row++ {
				skipped := bytes.IndexByte(c.workspace[row:stop], 1)
				if skipped < 0 {
					return
				}
				row += int64(skipped)
				kernel(rowAt(weight, row), weight.Shape[1], norm, maxNorm, &w.scratch)
			}
		}
		pl.run = func(c *call) error {
			weight, index := &c.args[0], &c.args[1]
			named := c.workspace[:weight.Shape[0]]
			clear(named)
			for i := range index.NumElements() {
				if r := indexAt(index, i); r >= 0 && r < weight.Shape[0] {
					named[r] = 1
				}
			}
			c.parallel(ceilDiv(weight.Shape[0], perJob), index.NumElements()*weight.Shape[1], job)
			return nil
		}
		return nil
	},
	machineDependent: takesPowers,
	rows:             namesOf(cpu.Renorm),
}

// takesPowers reports whether norms need math.Pow, which is assembly on some
// processors and fused on others.
func takesPowers(p *Problem) bool {
	switch p.float("norm_type") {
	case 0, 1, 2, math.Inf(1), math.Inf(-1):
		return false
	}
	return true
}
