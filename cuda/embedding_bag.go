package cuda

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// bagsArgs is struct Bags.
type bagsArgs struct {
	indices, offsets              tensorArg
	n, count, length, offsetCount int64
	rows, padding                 int64
}

type bagArgs struct {
	bags                         bagsArgs
	weight, factors, out, chosen tensorArg
	columns                      int64
	mode, weighted, noted, _     int32
}

type bagWeightsArgs struct {
	stripe            stripeArgs
	bags              bagsArgs
	grad, weight, out tensorArg
	columns           int64
}

type bagBackwardArgs struct {
	bags                  bagsArgs
	grad, factors, chosen tensorArg
	gradient              gradientArgs
	keys                  keysArgs
	bag, kept             uint64
	mode, weighted        int32
}

type bagRowsArgs struct {
	bagBackwardArgs
	rows rowsArgs
}

// The places of the arguments that ops on bags have in common, but for
// embedding_bag_per_sample_weights_backward.
const (
	bagRows = iota // weight, or grad_output
	bagIndices
	bagOffsets
	bagFactors // per_sample_weights
	bagFurther // from here on they differ
)

// The places of embedding_bag's further arguments.
const (
	bagY = bagFurther + iota
	bagChosen
)

// The places of embedding_bag_backward's.
const (
	bagBackwardChosen = bagFurther + iota
	bagGradWeight
)

// The places of weight_only_embedding_bag's.
const (
	codeBagScale = bagFurther + iota
	codeBagZero
	codeBagY
)

// The places of embedding_bag_per_sample_weights_backward's arguments.
const (
	factorsGradOutput = iota
	factorsWeight
	factorsIndices
	factorsOffsets
	factorsGradient
)

// bagModes are the modes in the order of their codes.
var bagModes = []string{"sum", "mean", "max"}

func bagMode(p *Problem) int32 { return int32(slices.Index(bagModes, p.Word("mode"))) }

// bagsOf describes the bags of a problem: the places of indices and offsets,
// the number of bags and of rows.
func bagsOf(p *Problem, indices, offsets int, count, rows int64) bagsArgs {
	shape := p.Shapes[indices]
	b := bagsArgs{n: tensor.NumElements(shape), count: count, rows: rows, padding: p.Int("padding_idx")}
	if given := p.Shapes[offsets]; given != nil {
		b.offsetCount = given[0]
	} else {
		b.length = shape[1]
	}
	return b
}

// locate sets where the bags lie, and checks them.
func (b *bagsArgs) locate(r *run, check, indices, offsets int) {
	b.indices, b.offsets = r.tensor(indices), r.tensor(offsets)
	if b.offsetCount > 0 {
		launch(r, check, threads(b.offsetCount), b)
	}
}

func buildEmbeddingBag(p *Problem, prog *Program) error {
	noted := boolArg(p.Types[bagChosen] != tensor.None)
	buildBags(p, prog, bagY, "embedding_bag", func(r *run, k int, a *bagArgs, size geometry) {
		a.weight, a.chosen, a.noted = r.tensor(bagRows), r.tensor(bagChosen), noted
		launch(r, k, size, a)
	})
	return nil
}

// codeBagArgs is struct CodeBagArgs.
type codeBagArgs struct {
	bagArgs
	scale, zero   tensorArg
	group, groups int64
	lo, hi        float64
	learned, _    int32
}

func buildCodeBags(p *Problem, prog *Program) error {
	codes, group := p.Types[bagRows], p.Int("group_size")
	lo, hi := codes.WholeRange()
	c := codeBagArgs{
		group: group, groups: ceilDiv(p.Shapes[bagRows][1], group),
		lo: float64(lo), hi: float64(hi), learned: boolArg(p.Types[codeBagZero].IsFloat()),
	}
	buildBags(p, prog, codeBagY, "code_bag", func(r *run, k int, a *bagArgs, size geometry) {
		c := c
		c.bagArgs = *a
		c.weight, c.scale, c.zero = codesOf(&r.args[bagRows], codes), r.tensor(codeBagScale), r.tensor(codeBagZero)
		launch(r, k, size, &c)
	})
	return nil
}

// buildBags plans bags of rows of a table; y is the place of the output. The kernel has the given
// name, with mode=max the one that ends in _max; start launches it.
func buildBags(p *Problem, prog *Program, y int, name string, start func(r *run, k int, a *bagArgs, size geometry)) {
	prog.Compute = p.Types[y].Compute()
	prog.Accumulator = prog.Compute
	rows, columns := p.Shapes[bagRows][0], p.Shapes[bagRows][1]
	a := bagArgs{
		bags: bagsOf(p, bagIndices, bagOffsets, p.Shapes[y][0], rows), columns: columns, mode: bagMode(p),
		weighted: boolArg(p.Types[bagFactors] != tensor.None),
	}
	if p.Word("mode") == "max" {
		name += "_max"
	}
	skip := p.Word("bounds") == "skip"
	check, bounds := prog.kernelIf(a.bags.offsetCount > 0, "bags_check"), prog.kernelIf(!skip, "embedding_check")
	k := prog.kernel("%s%s", name, typeNames(p.Types[y]))
	prog.run = func(r *run) {
		a := a
		a.bags.locate(r, check, bagIndices, bagOffsets)
		if !skip && a.bags.n > 0 {
			of := embeddingArgs{n: a.bags.n, rows: rows, columns: columns, indices: a.bags.indices}
			launch(r, bounds, threads(a.bags.n), &of)
		}
		a.factors, a.out = r.tensor(bagFactors), r.tensor(y)
		if a.bags.count*columns > 0 {
			start(r, k, &a, threads(a.bags.count*columns))
		}
	}
}

func buildEmbeddingBagWeights(p *Problem, prog *Program) error {
	dtype, table := p.Types[factorsWeight], p.Shapes[factorsWeight]
	prog.Compute = dtype.Compute()
	prog.Accumulator = prog.Compute
	a := bagWeightsArgs{bags: bagsOf(p, factorsIndices, factorsOffsets, p.Shapes[factorsGradOutput][0], table[0]), columns: table[1]}
	check := prog.kernelIf(a.bags.offsetCount > 0, "bags_check")
	var partial int64
	a.stripe, partial = prog.stripeOf(a.bags.n, a.columns, 1, prog.Compute)
	k := prog.rowKernel("embedding_bag_weights"+typeNames(dtype), &a.stripe, packedRows(a.columns, dtype) > 1)
	prog.run = func(r *run) {
		a := a
		a.bags.locate(r, check, factorsIndices, factorsOffsets)
		a.grad, a.weight, a.out = r.tensor(factorsGradOutput), r.tensor(factorsWeight), r.tensor(factorsGradient)
		a.stripe.plain = 2 * boolArg(a.grad.compact() && a.weight.compact())
		launchRows(r, k, &a.stripe, partial, packedRows(a.columns, dtype, &a.grad, &a.weight), &a)
	}
	return nil
}

func buildEmbeddingBagBackward(p *Problem, prog *Program) error {
	dtype := p.Types[bagRows]
	prog.Compute = dtype.Compute()
	prog.Accumulator = prog.Compute
	rows, columns, count := p.Shapes[bagGradWeight][0], p.Shapes[bagGradWeight][1], p.Shapes[bagRows][0]
	a := bagBackwardArgs{
		bags: bagsOf(p, bagIndices, bagOffsets, count, rows), gradient: gradientOf(p),
		mode: bagMode(p), weighted: boolArg(p.Types[bagFactors] != tensor.None),
	}
	if max(a.bags.n, rows, columns, count) > limit32 {
		return fmt.Errorf("has %d indices, %d rows, %d columns and %d bags; CUDA takes up to %d", a.bags.n, rows, columns, count, int64(limit32))
	}
	check, keys := prog.kernelIf(a.bags.offsetCount > 0, "bags_check"), prog.kernel("bag_keys")
	most := p.Word("mode") == "max"
	var s *rowSums
	var maxKernel int
	if most { // every column has chunks of its own: one kernel sums
		s = &rowSums{sorting: prog.sortingOf(a.bags.n, rows, 0), rows: rows, columns: columns}
		maxKernel = prog.kernel("embedding_bag_max_backward%s", typeNames(dtype))
	} else {
		s = prog.rowSumsOf(a.bags.n, rows, columns, "embedding_bag_backward"+typeNames(dtype))
	}
	bag, kept := prog.reserve(a.bags.n*4), prog.reserve(count*4)
	prog.run = func(r *run) {
		a := a
		a.bags.locate(r, check, bagIndices, bagOffsets)
		if rows == 0 || columns == 0 {
			return
		}
		a.bag, a.kept = r.at(bag), r.at(kept)
		a.grad, a.factors, a.chosen = r.tensor(bagRows), r.tensor(bagFactors), r.tensor(bagBackwardChosen)
		a.gradient.out = r.tensor(bagGradWeight)
		packs := a.gradient.packed(&a.grad, columns)
		s.clear(r)
		if a.bags.n > 0 {
			var g geometry
			a.keys, g = s.keysOf(r, 1)
			none := fillArgs{n: uint64(count), words: a.kept}
			launch(r, s.fill, threads(count), &none)
			launch(r, keys, g, &a)
		}
		s.sort(r)
		args := bagRowsArgs{a, s.args(r, packs)}
		if most {
			launch(r, maxKernel, threads(rows*ceilDiv(columns, scatterWidth)), &args)
			return
		}
		launchRowSums(r, s, &args.rows, &args)
	}
	return nil
}
