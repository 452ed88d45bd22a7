package plans

import (
	"math"

	"github.com/isobit-ml/isobit/cpu"
)

// embeddingRenorm scales the rows of weight that indices name, in place, so
// that no norm exceeds max_norm. Each row is scaled once.
//
// Workspace: one byte per row.
var embeddingRenorm = op{
	name: "embedding_renorm", category: Embedding,
	args: []arg{
		{name: "weight", out: true, shaped: true, allow: floats},
		{name: "indices", shaped: true, allow: indices},
	},
	attrs: []attr{{name: "max_norm", kind: floatAttr}, {name: "norm_type", kind: floatAttr, def: 2.0}, boundsAttr},
	infer: func(p *Problem) error {
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		if t := p.float("norm_type"); !(t > 0) {
			return p.errorf("norm_type", "is %v; want more than 0", t)
		}
		if m := p.float("max_norm"); math.IsNaN(m) {
			return p.errorf("max_norm", "is NaN; want a number")
		}
		return nil
	},
	build: func(pl *plan) error {
		p := &pl.problem
		kernel, err := selectRow(pl, cpu.Renorm, cpu.Types{Compute: cpu.ComputeType(p.DType("weight"))})
		if err != nil {
			return err
		}
		maxNorm, norm := p.float("max_norm"), p.float("norm_type")
		pl.workspace = roundUp(p.Shape("weight")[0], WorkspaceAlignment) // whole words, so that Go aligns it
		if p.word("bounds") == "error" {
			outside := pickSupport(cpu.FirstOutside, cpu.Types{})
			pl.check = func(c *call) error { return checkIndices(c, outside, &c.args[1], c.args[0].Shape[0]) }
		}
		job := func(c *call, w *worker, row int64) {
			if c.workspace[row] != 0 {
				weight := &c.args[0]
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
			if weight.Shape[1] > 0 {
				c.parallel(weight.Shape[0], index.NumElements()*weight.Shape[1], job)
			}
			return nil
		}
		return nil
	},
	rows: namesOf(cpu.Renorm),
}
