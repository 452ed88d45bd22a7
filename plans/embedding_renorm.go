package plans

import (
	"bytes"
	"math"

	"github.com/isobit-ml/isobit/cpu"
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
	attrs: []attr{
		{
			name: "max_norm", kind: floatAttr,
			doc: "the norm above which rows are multiplied by max_norm / (norm + 1e-7), which rounds; a number",
		},
		{
			name: "norm_type", kind: floatAttr, def: 2.0,
			doc: "the p of the norm: a number, inf or -inf; with others than 0, 1, 2, inf and -inf the last bits depend on the processor, and on a GPU there are 1, 2 and inf",
		},
		boundsAttr,
	},
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
	build:            buildEmbeddingRenorm,
	machineDependent: takesPowers,
	rows:             namesOf(cpu.Renorm),
}

func buildEmbeddingRenorm(pl *plan) error {
	p := &pl.problem
	d, rows := p.DType("weight"), p.Shape("weight")[0]
	kernel, err := selectRow(pl, cpu.Renorm, typesOf(d))
	if err != nil {
		return err
	}
	e := &renorm{kernel: kernel, maxNorm: p.float("max_norm"), norm: p.float("norm_type"), perJob: max(1, min(renormRows, rows/renormRows))}
	e.job = e.scaleNamed
	pl.workspace = roundUp(rows, WorkspaceAlignment) // whole words, so that Go aligns it
	if p.word("bounds") == "error" {
		pl.check = rowCheck()
	}
	pl.run = e.run
	return nil
}

// renorm is how one problem runs.
type renorm struct {
	kernel        cpu.RowRenorm
	maxNorm, norm float64
	perJob        int64 // rows
	job           job   // scaleNamed: a method value made once, so that running does not allocate
}

// run marks the rows that are named, of which each is scaled once.
func (e *renorm) run(c *call) error {
	weight, indices := &c.args[embeddingWeight], &c.args[embeddingIndices]
	named := c.workspace[:weight.Shape[0]]
	clear(named)
	var list [cpu.Block]int64
	for at, n := int64(0), indices.NumElements(); at < n; at += cpu.Block {
		part := list[:min(cpu.Block, n-at)]
		readIndices(part, indices, at)
		for _, row := range part {
			if uint64(row) < uint64(len(named)) {
				named[row] = 1
			}
		}
	}
	c.parallel(ceilDiv(weight.Shape[0], e.perJob), indices.NumElements()*weight.Shape[1], e.job)
	return nil
}

// scaleNamed scales those of some rows that are marked.
func (e *renorm) scaleNamed(c *call, w *worker, number int64) {
	weight := &c.args[embeddingWeight]
	stop := min((number+1)*e.perJob, weight.Shape[0])
	for row := number * e.perJob; row < stop; row++ {
		skipped := bytes.IndexByte(c.workspace[row:stop], 1)
		if skipped < 0 {
			return
		}
		row += int64(skipped)
		e.kernel(rowAt(weight, row), weight.Shape[1], e.norm, e.maxNorm, &w.scratch)
	}
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
