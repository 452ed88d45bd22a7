package cuda

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// quantArgs is struct Quant.
type quantArgs struct {
	n, params                  int64
	inner, rows, groups, group int64
	extent, block, count       [tensor.MaxRank]int64
	dims, reciprocal           int32
	lo, hi                     float64
	scale, zero                tensorArg
}

type mapArgs struct {
	q          quantArgs
	in, x, out tensorArg
	packs      int64
}

type quantSumArgs struct {
	q                 quantArgs
	stripe            stripeArgs
	dy, x, dx, ds, dz tensorArg
	factor            float64
	symmetric, plain  int32
}

// quantOf describes the groups of a shape; see struct Quant.
func quantOf(shape, block []int64) (q quantArgs) {
	type dim struct{ extent, block int64 }
	var dims []dim
	q.n, q.params = 1, 1
	for i, extent := range shape {
		d := dim{extent, min(max(block[i], 1), max(extent, 1))}
		q.n *= extent
		if block[i] > 0 { // else one group of nothing
			q.params *= (extent + d.block - 1) / d.block
		}
		last := len(dims) - 1
		switch {
		case extent == 1:
		case last >= 0 && (d.block == d.extent || (d.block == 1 && dims[last].block == 1)):
			// Neighbours whose groups are, together, again runs of one length.
			dims[last] = dim{dims[last].extent * extent, dims[last].block * d.block}
		default:
			dims = append(dims, d)
		}
	}
	for _, d := range dims {
		if d.extent == 0 {
			dims = nil
			break
		}
	}
	if len(dims) > 0 && dims[0].block == dims[0].extent && len(dims) > 1 {
		dims = dims[1:] // repeats: rows go round
	}
	q.inner, q.rows, q.group = 1, 1, 1
	switch n := len(dims); {
	case n == 1:
		q.inner, q.group = dims[0].extent, dims[0].block
	case n == 2 && dims[0].block == 1:
		q.rows, q.inner, q.group = dims[0].extent, dims[1].extent, dims[1].block
	case n > 0:
		return generalQuant(q, shape, block)
	}
	q.groups = (q.inner + q.group - 1) / q.group
	return q
}

func generalQuant(q quantArgs, shape, block []int64) quantArgs {
	q.inner, q.rows, q.groups, q.group = 0, 0, 0, 0
	q.dims = int32(len(shape))
	copy(q.extent[:], shape)
	for i, extent := range shape {
		q.block[i] = min(block[i], extent)
		q.count[i] = (extent + q.block[i] - 1) / q.block[i]
	}
	return q
}

// longest returns the number of elements of the largest group.
func (q *quantArgs) longest(shape, block []int64) int64 {
	if q.n == 0 {
		return 0
	}
	n := int64(1)
	for i, extent := range shape {
		n *= min(block[i], extent)
	}
	return n
}

// attributes fills in what does not depend on shapes.
func (q *quantArgs) attributes(p *Problem, rounding bool) {
	q.lo, q.hi = float64(p.Int("qmin")), float64(p.Int("qmax"))
	q.reciprocal = boolArg(rounding && p.Word("rounding") == "reciprocal")
}

// packSize is PackSize: the elements that a thread handles at once.
func packSize(a, b tensor.DType) int64 {
	if bytes := min(a.Size(), b.Size()); bytes < 4 {
		return packBytes / bytes
	}
	return 4
}

// setPacks says how many packs of size elements have one parameter each.
func (a *mapArgs) setPacks(size int64) {
	whole := a.q.params == 1 || (a.q.dims == 0 && a.q.group%size == 0 && a.q.inner%size == 0)
	if a.packs = 0; whole && a.in.rank == 0 && a.x.rank == 0 && a.out.rank == 0 {
		a.packs = a.q.n / size
	}
}

// mapping is an op that maps every element on its own. in, x, scale, zero and
// out are numbers of arguments; x is -1 where there is none.
type mapping struct {
	in, x, scale, zero, out int
	packed                  [2]int // the arguments whose types decide the size of a pack
	rounding                bool
}

func (m mapping) build(p *Problem, to *Program, kernel int) {
	a := mapArgs{q: quantOf(p.Shapes[m.in], p.Block)}
	a.q.attributes(p, m.rounding)
	size := packSize(p.Types[m.packed[0]], p.Types[m.packed[1]])
	to.then(func(r *run) {
		if a.q.n == 0 {
			return
		}
		a := a
		a.q.scale, a.q.zero = tensorOf(&r.args[m.scale]), tensorOf(&r.args[m.zero])
		a.in, a.out = tensorOf(&r.args[m.in]), tensorOf(&r.args[m.out])
		if m.x >= 0 {
			a.x = tensorOf(&r.args[m.x])
		}
		a.setPacks(size)
		launch(r, kernel, threads(a.packs+a.q.n-a.packs*size), &a)
	})
}

// then adds a step to what the program runs.
func (to *Program) then(step func(r *run)) {
	before := to.run
	if before == nil {
		to.run = step
		return
	}
	to.run = func(r *run) {
		before(r)
		step(r)
	}
}

// summing is an op that reduces every group. The fields are numbers of
// arguments, -1 where there is none.
type summing struct {
	shape, dy, x, scale, zero, dx, ds, dz int
	rounding                              bool
	factor                                float64
	symmetric                             bool
}

func (s summing) build(p *Problem, to *Program, kernel int) {
	a := quantSumArgs{q: quantOf(p.Shapes[s.shape], p.Block), factor: s.factor, symmetric: boolArg(s.symmetric)}
	a.q.attributes(p, s.rounding)
	var partial int64
	a.stripe, partial = to.stripeOf(a.q.params, a.q.longest(p.Shapes[s.shape], p.Block), 2, to.Compute)
	if a.q.dims == 0 && a.q.group == 1 && a.q.n > a.q.params {
		a.stripe.interleave(to.Compute, 2)
	}
	contiguous := a.q.dims == 0 && a.q.inner*a.q.rows == a.q.n
	to.then(func(r *run) {
		a := a
		arg := func(i int) (t tensorArg) {
			if i >= 0 {
				t = tensorOf(&r.args[i])
			}
			return t
		}
		a.q.scale, a.q.zero = arg(s.scale), arg(s.zero)
		a.dy, a.x, a.dx, a.ds, a.dz = arg(s.dy), arg(s.x), arg(s.dx), arg(s.ds), arg(s.dz)
		a.plain = boolArg(contiguous && a.dy.compact() && a.x.compact() && a.dx.compact())
		launchStripe(r, kernel, &a.stripe, partial, &a)
	})
}

func buildQuantize(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[0])
	mapping{in: 0, x: -1, scale: 1, zero: 2, out: 3, rounding: true}.build(p, to, to.kernel("quantize%s", typeNames(p.Types[0], p.Types[3])))
	return nil
}

func buildQuantizeBackward(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[1])
	mapping{in: 0, x: 1, scale: 2, zero: 3, out: 4, packed: [2]int{0, 1}, rounding: true}.build(p, to, to.kernel("quantize_backward%s", typeNames(p.Types[:2]...)))
	return nil
}

func buildDequantize(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[3])
	mapping{in: 0, x: -1, scale: 1, zero: 2, out: 3, packed: [2]int{0, 3}}.build(p, to, to.kernel("dequantize%s", typeNames(p.Types[0], p.Types[3])))
	return nil
}

func buildFakeQuantize(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[0])
	mapping{in: 0, x: -1, scale: 1, zero: 2, out: 3, rounding: true}.build(p, to, to.kernel("fake_quantize%s", typeNames(p.Types[0])))
	return nil
}

// stripeKernel notes a reduction's two kernels and returns the first's number.
func (to *Program) stripeKernel(format string, a ...any) int {
	name := fmt.Sprintf(format, a...)
	k := to.kernel("%s", name)
	to.kernel("%s_fold", name)
	return k
}

func buildFakeQuantizeBackward(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[1])
	if p.Types[5] == tensor.None && p.Types[6] == tensor.None {
		mapping{in: 0, x: 1, scale: 2, zero: 3, out: 4, rounding: true}.build(p, to, to.kernel("fake_quantize_backward%s", typeNames(p.Types[1])))
		return nil
	}
	to.Accumulator = to.Compute
	summing{shape: 0, dy: 0, x: 1, scale: 2, zero: 3, dx: 4, ds: 5, dz: 6, rounding: true, factor: p.Float("grad_factor")}.
		build(p, to, to.stripeKernel("fake_quantize_sums%s", typeNames(p.Types[1])))
	return nil
}

func buildDequantizeBackward(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[0])
	if p.Types[5] == tensor.None && p.Types[6] == tensor.None {
		mapping{in: 0, x: -1, scale: 2, zero: 3, out: 4}.build(p, to, to.kernel("dequantize_backward%s", typeNames(p.Types[0])))
		return nil
	}
	to.Accumulator = to.Compute
	summing{shape: 0, dy: 0, x: 1, scale: 2, zero: 3, dx: 4, ds: 5, dz: 6, factor: 1}.
		build(p, to, to.stripeKernel("dequantize_sums%s", typeNames(p.Types[0])))
	return nil
}

func buildChooseQParams(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[0])
	summing{shape: 0, dy: -1, x: 0, scale: -1, zero: -1, dx: -1, ds: 1, dz: 2, symmetric: p.Bool("symmetric")}.
		build(p, to, to.stripeKernel("choose_qparams%s", typeNames(p.Types[0])))
	return nil
}

// buildDynamicQuantize chooses parameters, then quantizes with them.
func buildDynamicQuantize(p *Problem, to *Program) error {
	to.Compute = computeType(p.Types[0])
	summing{shape: 0, dy: -1, x: 0, scale: -1, zero: -1, dx: -1, ds: 2, dz: 3, symmetric: p.Bool("symmetric")}.
		build(p, to, to.stripeKernel("choose_qparams%s", typeNames(p.Types[0])))
	mapping{in: 0, x: -1, scale: 2, zero: 3, out: 1}.build(p, to, to.kernel("quantize%s", typeNames(p.Types[0], p.Types[1])))
	return nil
}

// forTypes lists the kernels of a name for every combination of types.
func forTypes(name string, lists ...[]tensor.DType) []string {
	names := []string{name}
	for _, list := range lists {
		var next []string
		for _, n := range names {
			for _, d := range list {
				next = append(next, n+"_"+d.String())
			}
		}
		names = next
	}
	return names
}

// withFold adds the second kernel of reductions.
func withFold(names []string) []string {
	all := slices.Clone(names)
	for _, n := range names {
		all = append(all, n+"_fold")
	}
	return all
}
