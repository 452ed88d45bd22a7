package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of embeddingBagBackward's further arguments.
const (
	bagChosen = bagFurther + iota
	bagGradWeight
)

// embeddingBagBackward sums, for every row of weight, the gradients of the
// bags whose indices named it, in Chunk order over the positions.
//
// Workspace: the first contribution of each row in a list (where few rows are named, of those), and
// the list of contributions ordered by row, the number of the bag of each; with weights the list of
// theirs, with mode=max their ranks in the bags, and that of each element that was chosen; with
// mode=mean grad_output divided by the sizes of the bags, in the compute type. With mode=max and
// long bags it is that of embedding_bag_chosen.go.
var embeddingBagBackward = op{
	name: "embedding_bag_backward", category: Embedding,
	doc: "Sums, for each row of the table, the gradients of the bags whose indices named it.",
	formulas: []string{
		"grad_weight[r] = sum(grad_output[b] * per_sample_weights[i]) over positions i with indices[i] = r, b being the bag of i; mean: grad_output[b] divided by how many b has; max: where chosen[b] = i",
	},
	sections: []int{5, 4},
	args: []arg{
		{name: "grad_output", shaped: true, compact: always, allow: floats, form: "[B, D]", doc: "the gradient of y"},
		bagIndicesArg,
		offsetsArg,
		factorsArg,
		{name: "chosen", optional: true, allow: []tensor.DType{tensor.I64}, defaultType: fixed(tensor.None), form: "[B, D]", doc: "embedding_bag's output; wanted with mode=max, and with no other"},
		{name: "grad_weight", out: true, shaped: true, allow: floats, form: "[V, D]", doc: "the gradient of weight, in grad_output's type"},
	},
	attrs: append([]attr{
		modeAttr,
		accumulateAttr,
		byFreqAttr,
	}, bagAttrs...),
	infer: inferEmbeddingBagBackward,
	build: buildEmbeddingBagBackward,
	rows:  namesOf(cpu.RowSums),
}

func inferEmbeddingBagBackward(p *Problem) error {
	if err := checkTable(p, "grad_weight"); err != nil {
		return err
	}
	count, err := inferBags(p, "grad_weight", "per_sample_weights", "grad_output")
	if err != nil {
		return err
	}
	dy := []int64{count, p.Shape("grad_weight")[1]}
	if err := hasShape("grad_output", dy)(p); err != nil {
		return err
	}
	switch isMax := p.word("mode") == "max"; {
	case isMax && !p.has("chosen"):
		return p.errorf("chosen", "is none; want %s with %s=max", tensor.I64, named("mode"))
	case isMax && p.bool("scale_grad_by_freq"):
		return p.errorf("scale_grad_by_freq", "is %v; want %v with %s=max", true, false, named("mode"))
	case isMax:
		p.setShape("chosen", dy)
	}
	return all(inferMode, sameTypeAs("grad_weight", "grad_output"))(p)
}

func buildEmbeddingBagBackward(pl *plan) error {
	p := &pl.problem
	dtype, mode := p.DType("grad_output"), p.word("mode")
	compute := dtype.Compute()
	e := &bagBackward{
		mode: mode, weighted: p.has("per_sample_weights"), padding: p.int("padding_idx"), compute: compute,
		accumulate: p.bool("accumulate"), byFreq: p.bool("scale_grad_by_freq"),
		count: p.Shape("grad_output")[0], positions: tensor.NumElements(p.Shape("indices")), rows: p.Shape("grad_weight")[0],
	}
	table, terms, lists := cpu.RowSums, dtype, int64(1) // lists of positions
	switch {
	case mode == "max":
		table, lists = cpu.BagMaxBackward, 2
		e.prepare = e.ranksJob
		pl.workspace = roundUp(tensor.NumElements(p.Shape("grad_output"))*4, WorkspaceAlignment)
	case mode == "mean":
		terms = compute
		e.prepare = e.meansJob
		e.divide = pickSupport(cpu.DivideRow, typesOf(dtype))
		pl.workspace = roundUp(tensor.NumElements(p.Shape("grad_output"))*compute.Size(), WorkspaceAlignment)
	case e.weighted:
		pl.workspace = elementBytes(e.positions, dtype)
	}
	e.few = !e.accumulate && areFew(e.positions, e.rows)
	pl.workspace += (listWords(e.positions, e.rows, e.few) + (lists-1)*e.positions) * 8
	var err error
	e.kernel, err = selectRow(pl, table, sumTypes(terms, dtype))
	pl.check, pl.run = e.check, e.run
	if s := newChosenSums(e, dtype, p.Shape("grad_weight")[1]); s != nil {
		pl.run, pl.workspace = s.run, s.workspace()
	}
	return err
}

// bagBackward is how one problem runs.
type bagBackward struct {
	kernel                 func(*cpu.EmbeddingSums)
	divide                 cpu.RowDivision // mode=mean
	prepare                job             // what is done to each bag first: a method value made once, so that running does not allocate
	mode                   string
	compute                tensor.DType
	weighted               bool
	accumulate, byFreq     bool
	few                    bool // indices, so that named rows are listed alone
	padding                int64
	count, positions, rows int64
}

func (e *bagBackward) bags(c *call) bags {
	return newBags(&c.args[bagIndices], &c.args[bagOffsets], e.count, e.positions, e.rows, e.padding)
}

func (e *bagBackward) check(c *call) error {
	b := e.bags(c)
	return b.check(c)
}

func (e *bagBackward) run(c *call) error {
	b, memory := e.bags(c), words(c.workspace)
	sums := rowSums{kernel: e.kernel, accumulate: e.accumulate, byFreq: e.byFreq, terms: matrixOf(&c.args[bagRows]), out: &c.args[bagGradWeight]}
	b.takeLists(&sums, &memory, e.few)
	switch {
	case e.weighted:
		sums.factors = memory.elements(e.positions, c.args[bagFactors].DType)
	case e.mode == "max":
		sums.sources = memory.ints(e.positions)
		sums.ranks = e.ranks(c, memory)
	case e.mode == "mean":
		sums.terms = e.means(c, unsafe.Pointer(unsafe.SliceData(memory)))
	}
	b.sortByRow(&sums, &c.args[bagFactors])
	c.sumRows(&sums)
	return nil
}

// means divides each row of grad_output by the number of indices that its
// bag keeps, into the workspace.
func (e *bagBackward) means(c *call, memory unsafe.Pointer) cpu.Matrix {
	columns, size := c.args[bagRows].Shape[1], e.compute.Size()
	m := cpu.Matrix{Span: cpu.Span{P: memory, Stride: size, DType: e.compute}, Dims: 1}
	m.Size[0], m.Strides[0] = e.count, columns*size
	need(&c.rowSums).terms = m
	c.parallel(ceilDiv(e.count, rowsPerJob(columns)), e.count*columns+e.positions, e.prepare)
	return m
}

// ranks notes of each element which of its bag's positions it came from.
func (e *bagBackward) ranks(c *call, memory words) []uint32 {
	need(&c.rowSums).ranks = valuesIn[uint32](memory, c.args[bagChosen].NumElements())
	c.parallel(ceilDiv(e.count, rowsPerJob(c.args[bagChosen].Shape[1])), c.args[bagChosen].NumElements(), e.prepare)
	return c.rowSums.ranks
}

// ranksJob does so for some bags.
func (e *bagBackward) ranksJob(c *call, _ *worker, number int64) {
	b, columns := e.bags(c), c.args[bagChosen].Shape[1]
	perJob := rowsPerJob(columns)
	begin := b.begin(number * perJob)
	for bag := number * perJob; bag < min((number+1)*perJob, e.count); bag++ {
		end := b.end(bag)
		cpu.RanksOf(c.rowSums.ranks[bag*columns:][:columns], rowAt(&c.args[bagChosen], bag), begin, end)
		begin = end
	}
}

// meansJob divides the rows of some bags by the number of indices that each keeps.
func (e *bagBackward) meansJob(c *call, w *worker, number int64) {
	b, columns := e.bags(c), c.args[bagRows].Shape[1]
	perJob := rowsPerJob(columns)
	var list [cpu.Block]int64
	at := b.begin(number * perJob)
	for bag := number * perJob; bag < min((number+1)*perJob, e.count); bag++ {
		kept := int64(0)
		for end := b.end(bag); at < end; {
			rows := b.some(list[:], at, end)
			for _, row := range rows {
				if b.keeps(row) {
					kept++
				}
			}
			at += int64(len(rows))
		}
		if kept > 0 {
			e.divide(c.rowSums.terms.Row(bag, 0), rowAt(&c.args[bagRows], bag), columns, kept, &w.scratch)
		}
	}
}

// sortByRow lists the contributions by the row that their index names, in order
// of position within a row: those of the row numbered r are
// order[start[r]:start[r+1]].
func (b *bags) sortByRow(sums *rowSums, factors *tensor.View) {
	var list [cpu.Block]int64
	b.countRows(sums, b.last())
	start := sums.start
	position, first := int64(0), cpu.Span{} // of factors, where they lie one after the other
	if sums.factors.P != nil && factors.IsContiguous() {
		first = elementAt(factors, 0)
	}
	for bag := range b.count {
		for begin, end := position, b.end(bag); position < end; {
			rows := b.some(list[:], position, end)
			for i, row := range rows {
				if !b.keeps(row) {
					continue
				}
				r := sums.named.number(row)
				at := start[r]
				start[r]++
				sums.order[at] = bag
				switch {
				case first.P != nil:
					copyElement(sums.factors.At(at), first.At(position+int64(i)))
				case sums.factors.P != nil:
					copyElement(sums.factors.At(at), elementAt(factors, position+int64(i)))
				}
				if sums.sources != nil {
					sums.sources[at] = position + int64(i) - begin
				}
			}
			position += int64(len(rows))
		}
	}
	endsToStarts(start)
}

// countRows makes start[r] how many of the first n indices are kept and name a
// row before the one numbered r.
func (b *bags) countRows(sums *rowSums, n int64) {
	var list [cpu.Block]int64
	if named := &sums.named; named.bits != nil {
		named.find(b, n)
		sums.start = sums.start[:len(named.rows)+1]
	}
	start := sums.start
	clear(start)
	for at := int64(0); at < n; {
		rows := b.some(list[:], at, n)
		for _, row := range rows {
			if b.keeps(row) {
				start[sums.named.number(row)+1]++
			}
		}
		at += int64(len(rows))
	}
	for r := range len(start) - 1 {
		start[r+1] += start[r]
	}
	kept := start[len(start)-1]
	sums.order = sums.order[:kept:kept]
}

// endsToStarts is for lists that were filled from each row's start on: every
// start moved to its end, which is the next row's start.
func endsToStarts(start []int64) {
	copy(start[1:], start[:len(start)-1])
	start[0] = 0
}
