package cuda

import (
	"fmt"
	"math"

	"github.com/isobit-ml/isobit/tensor"
)

type embeddingArgs struct {
	n, rows, columns     int64
	weight, indices, out tensorArg
}

// The places of embedding's arguments, the first two embedding_renorm's, too.
const (
	embeddingWeight = iota
	embeddingIndices
	embeddingY
)

// The places of embedding_backward's other arguments: its indices lie where embedding's do.
const (
	embeddingGradOutput = 0
	embeddingGradWeight = 2
)

type renormArgs struct {
	stripe           stripeArgs
	n, rows, columns int64
	weight, indices  tensorArg
	owner, factor    uint64
	maxNorm          float64
	norm, skip       int32
}

type embeddingBackwardArgs struct {
	rows          rowsArgs
	grad, indices tensorArg
	gradient      gradientArgs
	keys          keysArgs
	n, padding    int64
}

// gradientArgs is struct Gradient.
type gradientArgs struct {
	out                          tensorArg
	accumulate, byFreq, packs, _ int32
}

// gradientOf has the attributes of a gradient, but for where it goes.
func gradientOf(p *Problem) gradientArgs {
	return gradientArgs{accumulate: boolArg(p.Bool("accumulate")), byFreq: boolArg(p.Bool("scale_grad_by_freq"))}
}

// packed notes, and returns, whether rows of the gradient and of what it is
// summed from are whole packs.
func (g *gradientArgs) packed(grad *tensorArg, columns int64) bool {
	packs := grad.rank == 0 && g.out.rank == 0 && columns%scatterWidth == 0
	g.packs = boolArg(packs)
	return packs
}

// wholePacks gives a matrix rank 1 instead of 0 where its rows are not whole
// packs of size elements.
func wholePacks(t tensorArg, columns, size int64) tensorArg {
	if t.rank == 0 && columns%size != 0 {
		t.rank, t.extent[0], t.strides[0] = 1, 0, 1
	}
	return t
}

func buildEmbedding(p *Problem, prog *Program) error {
	dtype, table := p.Types[embeddingWeight], p.Shapes[embeddingWeight]
	prog.Compute = dtype
	a := embeddingArgs{n: tensor.NumElements(p.Shapes[embeddingIndices]), rows: table[0], columns: table[1]}
	skip := p.Word("bounds") == "skip"
	check := prog.kernelIf(!skip, "embedding_check")
	copyRows := prog.kernel("embedding%s", typeNames(dtype))
	size := packBytes / dtype.Size()
	prog.run = func(r *run) {
		a := a
		a.weight, a.out = wholePacks(r.tensor(embeddingWeight), a.columns, size), wholePacks(r.tensor(embeddingY), a.columns, size)
		a.indices = r.tensor(embeddingIndices)
		if a.n == 0 {
			return
		}
		if !skip {
			launch(r, check, threads(a.n), &a)
		}
		if a.columns > 0 {
			launch(r, copyRows, threads(ceilDiv(a.n*a.columns, size)), &a)
		}
	}
	return nil
}

func buildRenorm(p *Problem, prog *Program) error {
	dtype, table := p.Types[embeddingWeight], p.Shapes[embeddingWeight]
	prog.Compute = dtype.Compute()
	prog.Accumulator = prog.Compute
	a := renormArgs{n: tensor.NumElements(p.Shapes[embeddingIndices]), rows: table[0], columns: table[1], maxNorm: p.Float("max_norm")}
	switch norm := p.Float("norm_type"); {
	case norm == 1 || norm == 2:
		a.norm = int32(norm)
	case !math.IsInf(norm, 1):
		return fmt.Errorf("norm_type is %v; CUDA takes 1, 2 and +Inf", norm)
	}
	if a.n > limit32 || a.rows > limit32 {
		return fmt.Errorf("has %d indices and %d rows; CUDA takes up to %d", a.n, a.rows, int64(limit32))
	}
	a.skip = boolArg(p.Word("bounds") == "skip")
	check, fill, own := prog.kernelIf(a.skip == 0, "embedding_check"), prog.kernel("fill"), prog.kernel("embedding_renorm_own")
	scale := prog.kernel("embedding_renorm_scale%s", typeNames(dtype))
	var partial int64
	a.stripe, partial = prog.stripeOf(a.n, a.columns, 2, prog.Compute)
	norms := prog.rowKernel("embedding_renorm"+typeNames(dtype), &a.stripe, packedRows(a.columns, dtype) > 1)
	owner, factor := prog.reserve(a.rows*4), prog.reserve(a.n*prog.Compute.Size())
	prog.run = func(r *run) {
		if a.n == 0 {
			return
		}
		a := a
		a.weight, a.indices = r.tensor(embeddingWeight), r.tensor(embeddingIndices)
		a.owner, a.factor = r.at(owner), r.at(factor)
		if a.skip == 0 {
			bounds := embeddingArgs{n: a.n, rows: a.rows, columns: a.columns, indices: a.indices}
			launch(r, check, threads(a.n), &bounds)
		}
		none := fillArgs{n: uint64(a.rows), words: a.owner, value: math.MaxUint32}
		launch(r, fill, threads(a.rows), &none)
		launch(r, own, threads(a.n), &a)
		a.stripe.plain = 2 * boolArg(a.weight.compact())
		launchRows(r, norms, &a.stripe, partial, packedRows(a.columns, dtype, &a.weight), &a)
		launch(r, scale, threads(a.n*a.columns), &a)
	}
	return nil
}

func buildEmbeddingBackward(p *Problem, prog *Program) error {
	prog.Compute = p.Types[embeddingGradOutput].Compute()
	prog.Accumulator = prog.Compute
	rows, columns := p.Shapes[embeddingGradWeight][0], p.Shapes[embeddingGradWeight][1]
	a := embeddingBackwardArgs{
		n: tensor.NumElements(p.Shapes[embeddingIndices]), padding: p.Int("padding_idx"), gradient: gradientOf(p),
	}
	if a.n > limit32 || max(rows, columns) > limit32 {
		return fmt.Errorf("has %d indices, %d rows and %d columns; CUDA takes up to %d", a.n, rows, columns, int64(limit32))
	}
	keys := prog.kernel("embedding_keys")
	s := prog.rowSumsOf(a.n, rows, columns, "embedding_backward"+typeNames(p.Types[embeddingGradOutput]))
	prog.run = func(r *run) {
		if rows == 0 || columns == 0 {
			return
		}
		a := a
		a.grad, a.indices, a.gradient.out = r.tensor(embeddingGradOutput), r.tensor(embeddingIndices), r.tensor(embeddingGradWeight)
		packs := a.gradient.packed(&a.grad, columns)
		a.rows = s.args(r, packs)
		s.clear(r)
		if a.n > 0 {
			var g geometry
			a.keys, g = s.keysOf(r, 1)
			launch(r, keys, g, &a)
		}
		s.sort(r)
		launchRowSums(r, s, &a.rows, &a)
	}
	return nil
}
