package cuda

import "github.com/isobit-ml/isobit/tensor"

// grouped is what a problem says about its groups and codes: the first argument has
// the shape.
func grouped(p *Problem) (q quantArgs) {
	q = quantOf(p.Shapes[0], p.Block)
	q.lo, q.hi = float64(p.Int("qmin")), float64(p.Int("qmax"))
	return q
}

// rounded adds how u = x / s becomes a code: the attributes rounding and, of
// an op without codes among its arguments, code.
func (q quantArgs) rounded(p *Problem, code tensor.DType) quantArgs {
	if code == tensor.None {
		code, _ = tensor.ParseDType(p.Word("code"))
	}
	q.float8, q.reciprocal = float8Codes[code], boolArg(p.Word("rounding") == "reciprocal")
	return q
}

// coded is rounded of an op that makes codes: those of 8-bit floats are the same where
// the bounds are rounded first, which the kernels ask for.
func (q quantArgs) coded(p *Problem, code tensor.DType) quantArgs {
	q = q.rounded(p, code)
	for _, d := range []tensor.DType{tensor.F8E4M3, tensor.F8E5M2} {
		if q.float8 == float8Codes[d] {
			q.lo, q.hi = tensor.RoundFloat8(d, q.lo), tensor.RoundFloat8(d, q.hi)
		}
	}
	return q
}

// mapping is an op that maps every element on its own. in, x, scale, zero and
// out are numbers of arguments; x is -1 where there is none.
type mapping struct {
	q                       quantArgs
	in, x, scale, zero, out int
	quick                   bool // the kernel has quick steps for types of 32 bits and less
}

func (m mapping) build(p *Problem, to *Program, kernel int) {
	size := packSize(p.Types[m.in], p.Types[m.out])
	if m.x >= 0 {
		size = min(size, packSize(p.Types[m.x]))
	}
	quick := m.quick && p.Types[m.in].Size() <= 4 && p.Types[m.out].Size() <= 4
	to.then(func(r *run) {
		if m.q.n == 0 {
			return
		}
		a := mapArgs{q: m.q}
		a.q.scale, a.q.zero = tensorOf(&r.args[m.scale]), tensorOf(&r.args[m.zero])
		a.in, a.out = tensorOf(&r.args[m.in]), tensorOf(&r.args[m.out])
		if m.x >= 0 {
			a.x = tensorOf(&r.args[m.x])
		}
		a.tiles = a.q.tiles(size, quick, &a.in, &a.x, &a.out)
		launch(r, kernel, a.tiles.threads(a.q.n-a.tiles.packs*a.tiles.size), &a)
	})
}

// buildPacked maps between floats and packed codes, both arguments.
func (m mapping) buildPacked(p *Problem, to *Program, codes, floats int, kernel string) {
	k := to.kernel("%s%s", kernel, typeNames(p.Types[floats]))
	shape := p.Shapes[floats]
	columns, size := shape[len(shape)-1], packSize(p.Types[floats])
	to.then(func(r *run) {
		if m.q.n == 0 {
			return
		}
		a := packedArgs{q: m.q, columns: columns, rows: m.q.n / columns}
		a.q.scale, a.q.zero = tensorOf(&r.args[m.scale]), tensorOf(&r.args[m.zero])
		a.codes, a.x = codesOf(&r.args[codes], p.Types[codes]), tensorOf(&r.args[floats])
		if columns%2 == 0 { // else rows do not follow one another
			a.tiles = a.q.tiles(size, p.Types[floats] != tensor.F64, &a.codes, &a.x)
		}
		if a.tiles.size != size { // single elements have no bytes of their own
			a.tiles = tilesArgs{}
		}
		launch(r, k, a.tiles.threads(a.rows*((columns+1)/2)-a.tiles.packs*size/2), &a)
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
	q                              quantArgs
	dy, x, scale, zero, dx, ds, dz int
	factor                         float64
	symmetric                      bool
	codes                          bool  // x has codes, of any type
	row, column                    int64 // how many elements of a row, and how many columns, move at once
}

// x0 is the first argument, whose type the kernel is for.
func (s summing) x0() int { return max(0, s.dy) }

// moves reports whether size elements that have one parameter always move at once.
func (q *quantArgs) moves(size int64) bool {
	return q.dims == 0 && q.group%size == 0 && q.inner%size == 0
}

// build plans the reduction; shape is that of the elements. name and suffixes are those
// of the kernels.
func (s summing) build(p *Problem, to *Program, shape []int64, name string, suffixes []string) {
	a := quantSumArgs{q: s.q, factor: s.factor, symmetric: boolArg(s.symmetric)}
	if len(shape) > 0 {
		a.columns = shape[len(shape)-1]
	}
	var partial, lanes int64
	longest, block := a.q.longest(shape, p.Block), int64(stripeBlock)
	for s.dy < 0 && block > 4096 && a.q.params*(longest/block+1) < 4096 {
		block /= 2 // extremes have no order, so that blocks may be as small as keeps a GPU busy
	}
	a.stripe, partial = to.blocksOf(a.q.params, longest, block, 2, to.Compute)
	columns := a.q.dims == 0 && a.q.group == 1 && a.q.n > a.q.params
	if columns {
		lanes = to.columnsOf(&a.stripe, 2, to.Compute)
	}
	whole := packSize(p.Types[s.x0()])
	code := p.Types[s.x] // only codes of a byte, in rows that follow one another, move as packs
	bytes := !s.codes || (code.Size() <= 1 && !(code.Packed() && a.columns%2 != 0))
	follow := !columns && a.q.inner*a.q.rows == a.q.n && a.q.group > 0 && a.q.inner%a.q.group == 0
	// Which kernels may run, and will where tensors are aligned.
	sums, few := s.dy >= 0 && bytes, a.stripe.few()
	short := sums && follow && a.stripe.longest <= shortRow && a.q.moves(whole)
	fewRows := sums && few && a.q.moves(min(whole, 4))
	fewColumns := sums && few && columns && a.q.params%min(whole, 4) == 0
	rowPacks := bytes && a.q.moves(s.row)
	columnPacks := bytes && columns && s.column > 1 && a.q.params%s.column == 0
	kernel := to.suffixed(name, suffixes, true, a.stripe.blocks > 1, rowPacks, columns, columnPacks, columns, short, fewRows, fewColumns)
	to.then(func(r *run) {
		a := a
		arg := func(i int) (t tensorArg) {
			if i >= 0 && r.args[i].Present() {
				t = codesOf(&r.args[i], p.Types[i])
			}
			return t
		}
		a.q.scale, a.q.zero = arg(s.scale), arg(s.zero)
		a.dy, a.x, a.dx, a.ds, a.dz = arg(s.dy), arg(s.x), arg(s.dx), arg(s.ds), arg(s.dz)
		a.stripe.plain = boolArg(a.q.dims == 0 && a.dy.compact() && a.x.compact() && a.dx.compact())
		if a.stripe.plain != 0 && (a.q.n == a.q.rows*a.q.inner || a.q.moves(rowSpan)) {
			a.stripe.plain = 2
		}
		aligned := a.dy.rank == 0 && a.x.rank == 0 && a.dx.rank == 0
		size := int64(1) // how many elements move at once
		switch {
		case aligned && short:
			launchShort(r, kernel, &a.stripe, &a)
		case aligned && fewColumns:
			launchFewColumns(r, kernel, &a.stripe, partial, lanes, &a)
		case columns && a.stripe.plain != 0:
			if aligned && columnPacks {
				size = s.column
			}
			launchColumns(r, kernel, &a.stripe, partial, lanes, size, &a)
		case aligned && fewRows:
			launchFew(r, kernel, &a.stripe, partial, &a)
		default:
			if aligned && rowPacks {
				size = s.row
			}
			launchRows(r, kernel, &a.stripe, partial, size, &a)
		}
	})
}

func buildQuantize(p *Problem, to *Program) error {
	to.Compute = p.Types[0].Compute()
	quantize(p, to, mapping{q: grouped(p).coded(p, p.Types[3]), in: 0, x: -1, scale: 1, zero: 2, out: 3, quick: true})
	return nil
}

// quantize maps numbers to codes.
func quantize(p *Problem, to *Program, m mapping) {
	if p.Types[m.out].Packed() {
		m.buildPacked(p, to, m.out, m.in, "quantize_packed")
	} else {
		m.build(p, to, to.kernel("quantize%s", typeNames(p.Types[m.in], p.Types[m.out])))
	}
}

func buildQuantizeBackward(p *Problem, to *Program) error {
	to.Compute = p.Types[1].Compute()
	m := mapping{q: grouped(p).rounded(p, tensor.None), in: 0, x: 1, scale: 2, zero: 3, out: 4}
	m.build(p, to, to.kernel("quantize_backward%s", typeNames(p.Types[:2]...)))
	return nil
}

func buildDequantize(p *Problem, to *Program) error {
	to.Compute = p.Types[3].Compute()
	codes := p.Types[0]
	m := mapping{q: grouped(p), in: 0, x: -1, scale: 1, zero: 2, out: 3, quick: codes.Size() <= 2 && (codes.IsInt() || codes.IsFloat8())}
	if p.Types[0].Packed() {
		m.buildPacked(p, to, 0, 3, "dequantize_packed")
	} else {
		m.build(p, to, to.kernel("dequantize%s", typeNames(p.Types[0], p.Types[3])))
	}
	return nil
}

func buildFakeQuantize(p *Problem, to *Program) error {
	to.Compute = p.Types[0].Compute()
	m := mapping{q: grouped(p).coded(p, tensor.None), in: 0, x: -1, scale: 1, zero: 2, out: 3, quick: true}
	m.build(p, to, to.kernel("fake_quantize%s", typeNames(p.Types[0])))
	return nil
}

// stripeKernels are a reduction's two.
var stripeKernels = []string{"", "_fold"}

// backward builds an op for the input's gradient and the parameters', or for
// the input's alone. The arguments are in the same places in both ops.
func backward(p *Problem, to *Program, q quantArgs, x int, name string, factor float64) {
	types := typeNames(p.Types[0])
	if p.Types[5] == tensor.None && p.Types[6] == tensor.None {
		mapping{q: q, in: 0, x: x, scale: 2, zero: 3, out: 4}.build(p, to, to.kernel("%s_backward%s", name, types))
		return
	}
	to.Accumulator = to.Compute
	s := summing{q: q, dy: 0, x: 1, scale: 2, zero: 3, dx: 4, ds: 5, dz: 6, factor: factor, codes: name == "dequantize", column: 2}
	if s.row = packSize(p.Types[0]); !s.codes {
		s.row = max(2, s.row/2)
	}
	s.build(p, to, p.Shapes[0], name+"_sums"+types, sumKernels)
}

func buildFakeQuantizeBackward(p *Problem, to *Program) error {
	to.Compute = p.Types[1].Compute()
	backward(p, to, grouped(p).rounded(p, tensor.None), 1, "fake_quantize", p.Float("grad_factor"))
	return nil
}

func buildDequantizeBackward(p *Problem, to *Program) error {
	to.Compute = p.Types[0].Compute()
	backward(p, to, grouped(p), -1, "dequantize", 1)
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
func withFold(names []string) []string { return withSuffixes(names, stripeKernels) }
