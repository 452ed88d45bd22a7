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
	for _, d := range tensor.Float8s() {
		if q.float8 == float8Codes[d] {
			q.lo, q.hi = tensor.RoundFloat8(d, q.lo), tensor.RoundFloat8(d, q.hi)
		}
	}
	return q
}

// mapping is an op that maps every element on its own.
type mapping struct {
	q                       quantArgs
	in, x, scale, zero, out int  // places of arguments; x is -1 where there is none
	quick                   bool // the kernel has quick steps for types of 32 bits and less
}

func (m mapping) build(p *Problem, prog *Program, kernel int) {
	size := packSize(p.Types[m.in], p.Types[m.out])
	if m.x >= 0 {
		size = min(size, packSize(p.Types[m.x]))
	}
	quick := m.quick && p.Types[m.in].Size() <= 4 && p.Types[m.out].Size() <= 4
	prog.then(func(r *run) {
		if m.q.n == 0 {
			return
		}
		a := mapArgs{q: m.q}
		a.q.scale, a.q.zero = r.tensor(m.scale), r.tensor(m.zero)
		a.in, a.out = r.tensor(m.in), r.tensor(m.out)
		if m.x >= 0 {
			a.x = r.tensor(m.x)
		}
		a.tiles = a.q.tiles(size, quick, &a.in, &a.x, &a.out)
		launch(r, kernel, a.tiles.threads(a.q.n-a.tiles.packs*a.tiles.size), &a)
	})
}

// buildPacked maps between floats and packed codes, given their places.
func (m mapping) buildPacked(p *Problem, prog *Program, codes, floats int, kernel string) {
	k := prog.kernel("%s%s", kernel, typeNames(p.Types[floats]))
	shape := p.Shapes[floats]
	columns, size := shape[len(shape)-1], packSize(p.Types[floats])
	prog.then(func(r *run) {
		if m.q.n == 0 {
			return
		}
		a := packedArgs{q: m.q, columns: columns, rows: m.q.n / columns}
		a.q.scale, a.q.zero = r.tensor(m.scale), r.tensor(m.zero)
		a.codes, a.x = codesOf(&r.args[codes], p.Types[codes]), r.tensor(floats)
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
func (prog *Program) then(step func(r *run)) {
	before := prog.run
	if before == nil {
		prog.run = step
		return
	}
	prog.run = func(r *run) {
		before(r)
		step(r)
	}
}

func buildQuantize(p *Problem, prog *Program) error {
	m := mapping{in: 0, x: -1, scale: 1, zero: 2, out: 3, quick: true}
	m.q = grouped(p).coded(p, p.Types[m.out])
	prog.Compute = p.Types[m.in].Compute()
	quantize(p, prog, m)
	return nil
}

// quantize maps numbers to codes.
func quantize(p *Problem, prog *Program, m mapping) {
	if p.Types[m.out].Packed() {
		m.buildPacked(p, prog, m.out, m.in, "quantize_packed")
	} else {
		m.build(p, prog, prog.kernel("quantize%s", typeNames(p.Types[m.in], p.Types[m.out])))
	}
}

func buildQuantizeBackward(p *Problem, prog *Program) error {
	m := mapping{q: grouped(p).rounded(p, tensor.None), in: 0, x: 1, scale: 2, zero: 3, out: 4}
	prog.Compute = p.Types[m.x].Compute()
	m.build(p, prog, prog.kernel("quantize_backward%s", typeNames(p.Types[m.in], p.Types[m.x])))
	return nil
}

func buildDequantize(p *Problem, prog *Program) error {
	m := mapping{q: grouped(p), in: 0, x: -1, scale: 1, zero: 2, out: 3}
	codes, y := p.Types[m.in], p.Types[m.out]
	m.quick = codes.Size() <= 2 && (codes.IsInt() || codes.IsFloat8())
	prog.Compute = y.Compute()
	if codes.Packed() {
		m.buildPacked(p, prog, m.in, m.out, "dequantize_packed")
	} else {
		m.build(p, prog, prog.kernel("dequantize%s", typeNames(codes, y)))
	}
	return nil
}

func buildFakeQuantize(p *Problem, prog *Program) error {
	m := mapping{q: grouped(p).coded(p, tensor.None), in: 0, x: -1, scale: 1, zero: 2, out: 3, quick: true}
	prog.Compute = p.Types[m.in].Compute()
	m.build(p, prog, prog.kernel("fake_quantize%s", typeNames(p.Types[m.in])))
	return nil
}

// stripeKernels are a reduction's two.
var stripeKernels = []string{"", "_fold"}

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
