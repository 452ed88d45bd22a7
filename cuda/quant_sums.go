package cuda

import "github.com/isobit-ml/isobit/tensor"

// summing is an op that reduces every group.
type summing struct {
	q                              quantArgs
	dy, x, scale, zero, dx, ds, dz int // places of arguments, -1 where there is none
	factor                         float64
	symmetric                      bool
	codes                          bool  // x has codes, of any type
	row, column                    int64 // how many elements of a row, and how many columns, move at once
}

// summed is a planned reduction: memory, and the kernels that may run.
type summed struct {
	summing
	args           quantSumArgs // without tensors
	partial, lanes int64
	kernel         int
	// What runs where tensors are aligned, or, of columns, plain.
	columns, short, fewRows, fewColumns, rowPacks, columnPacks bool
}

// x0 is the first argument, whose type the kernel is for.
func (s *summing) x0() int { return max(0, s.dy) }

// moves reports whether size elements that have one parameter always move at once.
func (q *quantArgs) moves(size int64) bool {
	return q.dims == 0 && q.group%size == 0 && q.inner%size == 0
}

// build plans the reduction; shape is that of the elements. name and suffixes are those
// of the kernels.
func (s summing) build(p *Problem, prog *Program, shape []int64, name string, suffixes []string) {
	made := summed{summing: s, args: quantSumArgs{q: s.q, factor: s.factor, symmetric: boolArg(s.symmetric)}}
	if len(shape) > 0 {
		made.args.columns = shape[len(shape)-1]
	}
	made.reserve(prog, s.q.longest(shape, p.Block))
	made.choose(packSize(p.Types[s.x0()]), p.Types[s.x])
	made.kernel = prog.suffixed(name, suffixes, true, made.args.stripe.blocks > 1, made.rowPacks,
		made.columns, made.columnPacks, made.columns, made.short, made.fewRows, made.fewColumns)
	prog.then(func(r *run) { made.launch(r, made.with(r, p.Types)) })
}

// reserve cuts reductions of up to longest elements into blocks, for whose sums there is workspace.
func (s *summed) reserve(prog *Program, longest int64) {
	block := int64(stripeBlock)
	for s.dy < 0 && block > 4096 && s.q.params*(longest/block+1) < 4096 {
		block /= 2 // extremes have no order, so that blocks may be as small as keeps a GPU busy
	}
	s.args.stripe, s.partial = prog.blocksOf(s.q.params, longest, block, 2, prog.Compute)
	s.columns = s.q.dims == 0 && s.q.group == 1 && s.q.n > s.q.params
	if s.columns {
		s.lanes = prog.columnsOf(&s.args.stripe, 2, prog.Compute)
	}
}

// choose says which kernels may run; whole is how many elements move at once at most,
// code the type of x.
func (s *summed) choose(whole int64, code tensor.DType) {
	q, stripe := &s.q, &s.args.stripe
	// Only codes of a byte, in rows that follow one another, move as packs.
	bytes := !s.codes || code.Size() <= 1 && !(code.Packed() && s.args.columns%2 != 0)
	follow := !s.columns && q.inner*q.rows == q.n && q.group > 0 && q.inner%q.group == 0
	sums := s.dy >= 0 && bytes
	few := sums && stripe.few()
	s.short = sums && follow && stripe.longest <= shortRow && q.moves(whole)
	s.fewRows = few && q.moves(min(whole, 4))
	s.fewColumns = few && s.columns && q.params%min(whole, 4) == 0
	s.rowPacks = bytes && q.moves(s.row)
	s.columnPacks = bytes && s.columns && s.column > 1 && q.params%s.column == 0
}

// with returns the kernels' arguments with a run's tensors.
func (s *summed) with(r *run, types []tensor.DType) *quantSumArgs {
	a := s.args
	for _, t := range []struct {
		to *tensorArg
		i  int
	}{{&a.q.scale, s.scale}, {&a.q.zero, s.zero}, {&a.dy, s.dy}, {&a.x, s.x}, {&a.dx, s.dx}, {&a.ds, s.ds}, {&a.dz, s.dz}} {
		if t.i >= 0 && r.args[t.i].Present() {
			*t.to = codesOf(&r.args[t.i], types[t.i])
		}
	}
	a.stripe.plain = boolArg(a.q.dims == 0 && a.dy.compact() && a.x.compact() && a.dx.compact())
	if a.stripe.plain != 0 && (a.q.n == a.q.rows*a.q.inner || a.q.moves(rowSpan)) {
		a.stripe.plain = 2
	}
	return &a
}

// launch runs the best kernels that take the tensors.
func (s *summed) launch(r *run, a *quantSumArgs) {
	aligned := a.dy.rank == 0 && a.x.rank == 0 && a.dx.rank == 0
	sizeOf := func(packs bool, size int64) int64 { // how many elements move at once
		if aligned && packs {
			return size
		}
		return 1
	}
	switch {
	case aligned && s.short:
		launchShort(r, s.kernel, &a.stripe, a)
	case aligned && s.fewColumns:
		launchFewColumns(r, s.kernel, &a.stripe, s.partial, s.lanes, a)
	case s.columns && a.stripe.plain != 0:
		launchColumns(r, s.kernel, &a.stripe, s.partial, s.lanes, sizeOf(s.columnPacks, s.column), a)
	case aligned && s.fewRows:
		launchFew(r, s.kernel, &a.stripe, s.partial, a)
	default:
		launchRows(r, s.kernel, &a.stripe, s.partial, sizeOf(s.rowPacks, s.row), a)
	}
}

// backward builds an op for the input's gradient and the parameters', or for the input's alone,
// which no codes decide. The arguments are in the same places in both ops.
func backward(p *Problem, prog *Program, q quantArgs, name string, factor float64) error {
	s := summing{q: q, dy: 0, x: 1, scale: 2, zero: 3, dx: 4, ds: 5, dz: 6, factor: factor, codes: name == "dequantize", column: 2}
	input := mapping{q: q, in: s.dy, x: s.x, scale: s.scale, zero: s.zero, out: s.dx}
	dy := p.Types[s.dy]
	prog.Compute = p.Types[s.x].Compute()
	if s.codes {
		input.x, prog.Compute = -1, dy.Compute()
	}
	if p.Types[s.ds] == tensor.None && p.Types[s.dz] == tensor.None {
		input.build(p, prog, prog.kernel("%s_backward%s", name, typeNames(dy)))
		return nil
	}
	prog.Accumulator = prog.Compute
	if s.row = packSize(dy); !s.codes {
		s.row = max(2, s.row/2)
	}
	s.build(p, prog, p.Shapes[s.dy], name+"_sums"+typeNames(dy), sumKernels)
	return nil
}

func buildFakeQuantizeBackward(p *Problem, prog *Program) error {
	return backward(p, prog, grouped(p).rounded(p, tensor.None), "fake_quantize", p.Float("grad_factor"))
}

func buildDequantizeBackward(p *Problem, prog *Program) error {
	return backward(p, prog, grouped(p), "dequantize", 1)
}
