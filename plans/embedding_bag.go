package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// embeddingBag sums the rows of weight that the indices of a bag name, or
// takes their mean or, column by column, the largest.
//
// Workspace: the first kept index of each bag in a list, and the list of the
// rows that kept indices name, both of 64-bit numbers; with weights the list of
// theirs, with mode=max the positions of the kept indices, of 64 bits.
var embeddingBag = op{
	name: "embedding_bag", category: Embedding,
	doc: "Sums the rows that the indices of each bag name, or takes their mean or, column by column, the largest.",
	formulas: []string{
		"y[b] = sum(weight[indices[i]] * per_sample_weights[i]) over positions i of bag b; mean: divided by how many; max: the largest",
		"chosen[b] = the i that y[b] came from, -1 in a bag without rows",
	},
	sections: []int{5, 4},
	args: []arg{
		{name: "weight", shaped: true, compact: namesAsMany(bagRows, bagIndices), allow: floats, form: "[V, D]", doc: "the table"},
		bagIndicesArg,
		offsetsArg,
		factorsArg,
		{name: "y", out: true, allow: floats, defaultType: same("weight"), form: "[B, D]", doc: "a row for each bag, in weight's type"},
		{name: "chosen", out: true, optional: true, allow: []tensor.DType{tensor.I64}, defaultType: fixed(tensor.None), form: "[B, D]", doc: "with mode=max: the position in indices that each element came from; the gradient takes it"},
	},
	attrs: append([]attr{modeAttr, boundsAttr}, bagAttrs...),
	infer: func(p *Problem) error {
		if err := checkTable(p, "weight"); err != nil {
			return err
		}
		count, err := inferBags(p, "weight", "per_sample_weights", "weight")
		if err != nil {
			return err
		}
		y := []int64{count, p.Shape("weight")[1]}
		p.setShape("y", y)
		if p.has("chosen") {
			p.setShape("chosen", y)
		}
		return all(inferMode, sameTypeAs("y", "weight"))(p)
	},
	build: buildEmbeddingBag,
	rows:  namesOf(cpu.RowSums),
}

func buildEmbeddingBag(pl *plan) error {
	_, err := newBagForward(pl, cpu.RowSums, cpu.BagMax)
	return err
}

// newBagForward makes the plan of bags of rows of a weight.
func newBagForward(pl *plan, table, maxima []cpu.Row[func(*cpu.EmbeddingSums)]) (*bagForward, error) {
	p := &pl.problem
	if p.word("mode") == "max" {
		table = maxima
	}
	kernel, err := selectRow(pl, table, sumTypes(p.DType("weight"), p.DType("y")))
	if err != nil {
		return nil, err
	}
	e := &bagForward{
		y: p.op.arg("y"), kernel: kernel, checkRows: rowCheck(), mode: p.word("mode"), weighted: p.has("per_sample_weights"), padding: p.int("padding_idx"),
		count: p.Shape("y")[0], positions: tensor.NumElements(p.Shape("indices")), strict: p.word("bounds") == "error",
	}
	pl.workspace = (e.count + 1 + e.positions) * 8
	switch {
	case e.weighted:
		pl.workspace += elementBytes(e.positions, p.DType("per_sample_weights"))
	case e.mode == "max":
		pl.workspace += e.positions * 8
	}
	pl.check, pl.run = e.check, e.run
	return e, nil
}

// bagForward is how one problem runs.
type bagForward struct {
	y                int                          // among the arguments
	codes            func(c *call) cpu.WeightRows // of a weight that is codes
	decoded          *decodedTable                // ... or nil
	kernel           func(*cpu.EmbeddingSums)
	checkRows        func(c *call) error
	mode             string
	weighted, strict bool
	padding          int64
	count, positions int64
}

func (e *bagForward) bags(c *call) bags {
	return newBags(&c.args[bagIndices], &c.args[bagOffsets], e.count, e.positions, c.args[bagRows].Shape[0], e.padding)
}

func (e *bagForward) check(c *call) error {
	b := e.bags(c)
	if err := b.check(c); err != nil || !e.strict {
		return err
	}
	return e.checkRows(c)
}

func (e *bagForward) run(c *call) error {
	b, memory := e.bags(c), words(c.workspace)
	sums := rowSums{
		kernel: e.kernel, byFreq: e.mode == "mean", out: &c.args[e.y],
		start: memory.ints(e.count + 1), order: memory.ints(e.positions),
	}
	if e.codes != nil {
		sums.codes = e.codes(c)
	} else {
		sums.terms = matrixOf(&c.args[bagRows])
	}
	if e.weighted {
		sums.factors = memory.elements(e.positions, c.args[bagFactors].DType)
	}
	if e.mode == "max" {
		sums.sources = memory.ints(e.positions)
		if e.codes == nil && c.args[e.y+1].Present() {
			sums.choice = &c.args[e.y+1]
		}
	}
	if e.decoded != nil {
		e.decoded.run(c, &sums)
	}
	order, factors := sums.order, sums.factors
	b.listAll(&sums, &c.args[bagFactors])
	if !e.strict || e.padding >= 0 {
		b.leaveOut(&sums, order, factors)
	}
	c.sumRows(&sums)
	return nil
}

// listAll fills start and order, and where there are any factors and sources,
// with all indices of each bag.
func (b *bags) listAll(sums *rowSums, factors *tensor.View) {
	if b.offsets.Present() {
		n := min(len(sums.start), int(b.offsets.Shape[0]))
		readManyIndices(sums.start[:n], b.offsets, 0)
		if n < len(sums.start) {
			sums.start[n] = b.positions
		}
	} else {
		for bag := range sums.start {
			sums.start[bag] = int64(bag) * b.indices.Shape[1]
		}
	}
	end := sums.start[b.count]
	if sums.order = sums.order[:end]; b.list != nil {
		sums.order = b.list[:end]
	} else {
		readManyIndices(sums.order, b.indices, 0)
	}
	switch {
	case sums.factors.P == nil:
	case factors.IsContiguous():
		sums.factors.P = factors.Data
	default:
		copyElements(sums.factors, factors, 0, end)
	}
	for i := range sums.sources {
		sums.sources[i] = int64(i)
	}
}

// leaveOut leaves out of listAll's lists what is not kept: order and factors are
// memory for them, where they may lie already.
func (b *bags) leaveOut(sums *rowSums, order []int64, factors cpu.Span) {
	switch from, to, n := sums.factors.P, factors.P, len(sums.order); {
	case sums.sources != nil:
		keep(b, sums, order, sums.sources, sums.sources)
	case from == nil || n == 0:
		keep[uint16](b, sums, order, nil, nil)
	case factors.DType.Size() == 8:
		keep(b, sums, order, unsafe.Slice((*uint64)(from), n), unsafe.Slice((*uint64)(to), n))
	case factors.DType.Size() == 4:
		keep(b, sums, order, unsafe.Slice((*uint32)(from), n), unsafe.Slice((*uint32)(to), n))
	default:
		keep(b, sums, order, unsafe.Slice((*uint16)(from), n), unsafe.Slice((*uint16)(to), n))
	}
	sums.factors = factors
}

// keep moves the kept indices to order, and what is beside them, unless that is nil, to other memory.
func keep[T int64 | uint64 | uint32 | uint16](b *bags, sums *rowSums, order []int64, beside, to []T) {
	rows, padding, kept, begin := uint64(b.rows), b.padding, int64(0), int64(0)
	for bag := range b.count {
		end := sums.start[bag+1]
		sums.start[bag] = kept
		for i, row := range sums.order[begin:end] {
			order[kept] = row // another takes the place of one that is not kept: a jump would be hard to predict
			if beside != nil {
				to[kept] = beside[begin+int64(i)]
			}
			one := int64(1)
			if uint64(row) >= rows {
				one = 0
			}
			if row == padding {
				one = 0
			}
			kept += one
		}
		begin = end
	}
	sums.start[b.count] = kept
	sums.order = order[:kept]
}
