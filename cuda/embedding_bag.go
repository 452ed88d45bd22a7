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

// bagModes are the modes in the order of their codes.
var bagModes = []string{"sum", "mean", "max"}

func bagMode(p *Problem) int32 { return int32(slices.Index(bagModes, p.Word("mode"))) }

// bagsOf describes the bags of a problem: the shapes of indices and offsets,
// the number of bags and of rows.
func bagsOf(p *Problem, indices, offsets []int64, count, rows int64) bagsArgs {
	b := bagsArgs{n: tensor.NumElements(indices), count: count, rows: rows, padding: p.Int("padding_idx")}
	if offsets != nil {
		b.offsetCount = offsets[0]
	} else {
		b.length = indices[1]
	}
	return b
}

// locate sets where the bags lie, and checks them.
func (b *bagsArgs) locate(r *run, check int, indices, offsets *tensor.View) {
	b.indices, b.offsets = tensorOf(indices), tensorOf(offsets)
	if b.offsetCount > 0 {
		launch(r, check, threads(b.offsetCount), b)
	}
}

func buildEmbeddingBag(p *Problem, prog *Program) error {
	buildBags(p, prog, 4, "embedding_bag", func(r *run, k int, a *bagArgs, size geometry) {
		a.weight, a.chosen = tensorOf(&r.args[0]), tensorOf(&r.args[5])
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
	lo, hi := p.Types[0].WholeRange()
	group := p.Int("group_size")
	c := codeBagArgs{group: group, groups: ceilDiv(p.Shapes[0][1], group), lo: float64(lo), hi: float64(hi), learned: boolArg(p.Types[5].IsFloat())}
	buildBags(p, prog, 6, "code_bag", func(r *run, k int, a *bagArgs, size geometry) {
		c := c
		c.bagArgs = *a
		c.weight, c.scale, c.zero = codesOf(&r.args[0], p.Types[0]), tensorOf(&r.args[4]), tensorOf(&r.args[5])
		launch(r, k, size, &c)
	})
	return nil
}

// buildBags plans bags of rows of a table; y is the number of the output. start launches a kernel of the given
// name, or of the one for the largest.
func buildBags(p *Problem, prog *Program, y int, name string, start func(r *run, k int, a *bagArgs, size geometry)) {
	prog.Compute = p.Types[y].Compute()
	prog.Accumulator = prog.Compute
	rows, columns := p.Shapes[0][0], p.Shapes[0][1]
	a := bagArgs{
		bags: bagsOf(p, p.Shapes[1], p.Shapes[2], p.Shapes[y][0], rows), columns: columns, mode: bagMode(p),
		weighted: boolArg(p.Types[3] != tensor.None), noted: boolArg(len(p.Types) > y+1 && p.Types[y+1] != tensor.None),
	}
	if p.Word("mode") == "max" {
		name += "_max"
	}
	skip := p.Word("bounds") == "skip"
	check, bounds := prog.kernelIf(a.bags.offsetCount > 0, "bags_check"), prog.kernelIf(!skip, "embedding_check")
	k := prog.kernel("%s%s", name, typeNames(p.Types[y]))
	prog.run = func(r *run) {
		a := a
		a.bags.locate(r, check, &r.args[1], &r.args[2])
		if !skip && a.bags.n > 0 {
			of := embeddingArgs{n: a.bags.n, rows: rows, columns: columns, indices: a.bags.indices}
			launch(r, bounds, threads(a.bags.n), &of)
		}
		a.factors, a.out = tensorOf(&r.args[3]), tensorOf(&r.args[y])
		if a.bags.count*columns > 0 {
			start(r, k, &a, threads(a.bags.count*columns))
		}
	}
}

func buildEmbeddingBagWeights(p *Problem, prog *Program) error {
	prog.Compute = p.Types[1].Compute()
	prog.Accumulator = prog.Compute
	a := bagWeightsArgs{bags: bagsOf(p, p.Shapes[2], p.Shapes[3], p.Shapes[0][0], p.Shapes[1][0]), columns: p.Shapes[1][1]}
	check := prog.kernelIf(a.bags.offsetCount > 0, "bags_check")
	var partial int64
	a.stripe, partial = prog.stripeOf(a.bags.n, a.columns, 1, prog.Compute)
	k := prog.rowKernel("embedding_bag_weights"+typeNames(p.Types[1]), &a.stripe, packedRows(a.columns, p.Types[1]) > 1)
	prog.run = func(r *run) {
		a := a
		a.bags.locate(r, check, &r.args[2], &r.args[3])
		a.grad, a.weight, a.out = tensorOf(&r.args[0]), tensorOf(&r.args[1]), tensorOf(&r.args[4])
		a.stripe.plain = 2 * boolArg(a.grad.compact() && a.weight.compact())
		launchRows(r, k, &a.stripe, partial, packedRows(a.columns, p.Types[1], &a.grad, &a.weight), &a)
	}
	return nil
}

func buildEmbeddingBagBackward(p *Problem, prog *Program) error {
	prog.Compute = p.Types[0].Compute()
	prog.Accumulator = prog.Compute
	rows, columns, count := p.Shapes[5][0], p.Shapes[5][1], p.Shapes[0][0]
	a := bagBackwardArgs{
		bags: bagsOf(p, p.Shapes[1], p.Shapes[2], count, rows), gradient: gradientOf(p),
		mode: bagMode(p), weighted: boolArg(p.Types[3] != tensor.None),
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
		maxKernel = prog.kernel("embedding_bag_max_backward%s", typeNames(p.Types[0]))
	} else {
		s = prog.rowSumsOf(a.bags.n, rows, columns, "embedding_bag_backward"+typeNames(p.Types[0]))
	}
	bag, kept := prog.reserve(a.bags.n*4), prog.reserve(count*4)
	prog.run = func(r *run) {
		a := a
		a.bags.locate(r, check, &r.args[1], &r.args[2])
		if rows == 0 || columns == 0 {
			return
		}
		a.bag, a.kept = r.at(bag), r.at(kept)
		a.grad, a.factors, a.chosen = tensorOf(&r.args[0]), tensorOf(&r.args[3]), tensorOf(&r.args[4])
		a.gradient.out = tensorOf(&r.args[5])
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
