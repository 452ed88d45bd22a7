package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of embeddingBagWeights' arguments.
const (
	bagWeightsGradOutput = iota
	bagWeightsTable
	bagWeightsIndices
	bagWeightsOffsets
	bagWeightsOutput
)

// embeddingBagWeights is the gradient of a bag's per_sample_weights: the
// product of the bag's gradient and the row that the index names.
var embeddingBagWeights = op{
	name: "embedding_bag_per_sample_weights_backward", category: Embedding,
	doc: "The gradient of per_sample_weights: the product of each bag's gradient and the row that the index names.",
	formulas: []string{
		"grad_per_sample_weights[i] = sum(grad_output[b] * weight[indices[i]]) over columns, b being the bag of i",
	},
	sections: []int{5, 4},
	args: []arg{
		{name: "grad_output", shaped: true, compact: always, allow: floats, form: "[B, D]", doc: "the gradient of y, in weight's type"},
		{name: "weight", shaped: true, compact: namesAsMany(bagWeightsTable, bagWeightsIndices), allow: floats, form: "[V, D]", doc: "the table"},
		bagIndicesArg,
		offsetsArg,
		{name: "grad_per_sample_weights", out: true, allow: floats, defaultType: same("weight"), form: "indices'", doc: "the gradient of per_sample_weights, in weight's type"},
	},
	attrs: bagAttrs,
	infer: func(p *Problem) error {
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		count, err := inferBags(p, "weight", "grad_per_sample_weights", "weight")
		if err != nil {
			return err
		}
		dy := []int64{count, p.Shape("weight")[1]}
		return all(hasShape("grad_output", dy), sameTypeAs("grad_output", "weight"))(p)
	},
	build: buildEmbeddingBagWeights,
	rows:  namesOf(cpu.RowProducts),
}

func buildEmbeddingBagWeights(pl *plan) error {
	p := &pl.problem
	dtype := p.DType("weight")
	kernel, err := selectRow(pl, cpu.RowProducts, typesOf(dtype))
	if err != nil {
		return err
	}
	e := &bagWeights{
		kernel: kernel, padding: p.int("padding_idx"), count: p.Shape("grad_output")[0],
		positions: tensor.NumElements(p.Shape("indices")),
	}
	columns := p.Shape("weight")[1]
	e.perJob, e.cost, e.job = rowsPerJob(columns), e.positions*columns, e.someProducts
	pl.check, pl.run = e.check, e.run
	return nil
}

// bagWeights is how one problem runs.
type bagWeights struct {
	kernel                   func(p *cpu.RowPairs, out cpu.Span)
	padding                  int64
	count, positions, perJob int64
	cost                     int64
	job                      job // someProducts: a method value made once, so that running does not allocate
}

func (e *bagWeights) bags(c *call) bags {
	weight, indices, offsets := &c.args[bagWeightsTable], &c.args[bagWeightsIndices], &c.args[bagWeightsOffsets]
	return newBags(indices, offsets, e.count, e.positions, weight.Shape[0], e.padding)
}

func (e *bagWeights) check(c *call) error {
	b := e.bags(c)
	return b.check(c)
}

func (e *bagWeights) run(c *call) error {
	c.parallel(ceilDiv(e.positions, e.perJob), e.cost, e.job)
	return nil
}

// someProducts computes the gradients at some positions, whichever bags they are in.
func (e *bagWeights) someProducts(c *call, w *worker, number int64) {
	gradOutput, weight, out := &c.args[bagWeightsGradOutput], &c.args[bagWeightsTable], &c.args[bagWeightsOutput]
	b, p := e.bags(c), &w.ownArgs().pairs
	*p = cpu.RowPairs{X: matrixOf(gradOutput), Y: matrixOf(weight), N: weight.Shape[1], Scratch: &w.scratch}
	position, end := number*e.perJob, min((number+1)*e.perJob, e.positions)
	bag, bagEnd := b.at(position)
	for ; position < end; position += cpu.Block {
		n := min(cpu.Block, end-position)
		bags, rows := w.scratch.Ints(0, int(n)), w.scratch.Ints(1, int(n))
		readIndices(rows, b.indices, position)
		kept := int64(0) // where the pairs begin that are not computed yet
		for i, row := range rows {
			for bag < b.count && position+int64(i) >= bagEnd {
				if bag++; bag < b.count {
					bagEnd = b.end(bag)
				}
			}
			bags[i] = bag
			if bag == b.count || !b.keeps(row) {
				e.products(out, p, position, kept, int64(i))
				cpu.ZeroRow(elementAt(out, position+int64(i)), 1)
				kept = int64(i) + 1
			}
		}
		e.products(out, p, position, kept, n)
	}
}

// products computes the gradients at some of the positions that the worker's
// lists hold bags and rows of.
func (e *bagWeights) products(out *tensor.View, p *cpu.RowPairs, position, from, to int64) {
	bags, rows := p.Scratch.Ints(0, int(to)), p.Scratch.Ints(1, int(to))
	step := to - from
	if !out.IsContiguous() {
		step = 1 // elements that follow one another may lie anywhere
	}
	for ; from < to; from += step {
		p.Xs, p.Ys = bags[from:from+step], rows[from:from+step]
		e.kernel(p, elementAt(out, position+from))
	}
}
