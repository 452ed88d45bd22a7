package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// embeddingBagWeights is the gradient of a bag's per_sample_weights: the
// product of the bag's gradient and the row that the index names.
var embeddingBagWeights = op{
	name: "embedding_bag_per_sample_weights_backward", category: Embedding,
	args: []arg{
		{name: "grad_output", shaped: true, allow: floats},
		{name: "weight", shaped: true, allow: floats},
		{name: "indices", shaped: true, allow: indices},
		offsetsArg,
		{name: "grad_per_sample_weights", out: true, allow: floats, defaultType: same("weight")},
	},
	attrs: bagAttrs,
	infer: func(p *Problem) error {
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		count, err := inferBags(p, "grad_per_sample_weights", "weight")
		if err != nil {
			return err
		}
		dy := []int64{count, p.Shape("weight")[1]}
		return all(hasShape("grad_output", dy), sameTypeAs("grad_output", "weight"))(p)
	},
	build: func(pl *plan) error {
		p := &pl.problem
		dtype := p.DType("weight")
		kernel, err := selectRow(pl, cpu.RowProduct, cpu.Types{Compute: cpu.ComputeType(dtype), In: [4]tensor.DType{dtype}})
		if err != nil {
			return err
		}
		e := &bagWeights{
			kernel: kernel, padding: p.int("padding_idx"), count: p.Shape("grad_output")[0],
			positions: tensor.NumElements(p.Shape("indices")),
		}
		e.perJob = rowsPerJob(p.Shape("weight")[1])
		pl.check = func(c *call) error { b := e.bags(c); return b.check(c) }
		job, cost := e.job, e.positions*p.Shape("weight")[1]
		pl.run = func(c *call) error {
			c.parallel(ceilDiv(e.positions, e.perJob), cost, job)
			return nil
		}
		return nil
	},
	rows: namesOf(cpu.RowProduct),
}

type bagWeights struct {
	kernel                   func(out, a, b cpu.Span, n int64, s *cpu.Scratch)
	padding                  int64
	count, positions, perJob int64
}

func (e *bagWeights) bags(c *call) bags {
	return bags{indices: &c.args[2], offsets: &c.args[3], count: e.count, positions: e.positions, rows: c.args[1].Shape[0], padding: e.padding}
}

// job computes the gradients at some positions, whichever bags they are in.
func (e *bagWeights) job(c *call, w *worker, number int64) {
	b := e.bags(c)
	position, end := number*e.perJob, min((number+1)*e.perJob, e.positions)
	bag, bagEnd := b.at(position)
	for first := position; position < end; position++ {
		if (position-first)%cpu.TouchRows == 0 {
			b.touch(w, &c.args[1], position, min(position+cpu.TouchRows, end))
		}
		for bag < b.count && position >= bagEnd {
			if bag++; bag < b.count {
				_, bagEnd = b.of(bag)
			}
		}
		out, row := elementAt(&c.args[4], position), indexAt(b.indices, position)
		if bag == b.count || !b.keeps(row) {
			cpu.ZeroRow(out, 1)
			continue
		}
		e.kernel(out, rowAt(&c.args[0], bag), rowAt(&c.args[1], row), c.args[1].Shape[1], &w.scratch)
	}
}

// touch asks for the rows that indices name.
func (b *bags) touch(w *worker, weight *tensor.View, position, end int64) {
	for ; position < end; position++ {
		if row := indexAt(b.indices, position); b.keeps(row) {
			cpu.Touch(&w.scratch, rowAt(weight, row), weight.Shape[1])
		}
	}
}
