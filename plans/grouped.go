package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The arguments and attributes that the ops over grouped elements share.
var (
	scaleArg = arg{
		name: "scale", param: true, allow: floats, defaultType: fixed(tensor.F32),
		doc: "the distance of neighbouring codes",
	}
	zeroPointArg = arg{
		name: "zero_point", param: true, optional: true, allow: either(integers, floats), defaultType: fixed(tensor.I32),
		doc: "the code of 0, within qmin and qmax; a float one is rounded and clamped; none with f8 codes",
	}
	gradScaleArg = arg{
		name: "grad_scale", param: true, out: true, optional: true, allow: floats, defaultType: fixed(tensor.None),
		doc: "the gradient of scale, in scale's type",
	}
	gradZeroArg = arg{
		name: "grad_zero_point", param: true, out: true, optional: true, allow: floats, defaultType: fixed(tensor.None),
		doc: "the gradient of a float zero_point, in its type",
	}
	codeAttr = attr{
		name: "code", kind: wordAttr, def: "int", words: append([]string{"int"}, names(tensor.Float8s())...),
		doc: "what codes are: whole numbers, or 8-bit floats",
	}
	roundingAttr = attr{
		name: "rounding", kind: wordAttr, def: "nearest", words: []string{"nearest", "reciprocal"},
		doc: "what is rounded: x / scale, or x * (1 / scale), as PyTorch does on a CPU",
	}
)

// rangeAnd returns the range of codes, which every one of them has, and further
// attributes.
func rangeAnd(further ...attr) []attr {
	return append([]attr{
		{name: "qmin", doc: "the smallest code; the type of the codes holds it"},
		{name: "qmax", doc: "the largest code, at least qmin; the type of the codes holds it"},
	}, further...)
}

// groupedOp is an op over grouped elements before its granularity is known. It has
// a range of codes (rangeAnd), and kernels take its parameters after its data.
type groupedOp struct {
	name, suffix string   // around the granularity, such as "quantize" and "_backward"
	doc          string   // op's
	formulas     []string // op's
	sections     []int    // op's
	args         []arg    // the first decides the shape
	attrs        []attr
	// in, out and groupOut name the kernel's operands; see newGroupedPlan.
	in, out, groupOut []string
	inPlace           [][2]string // pairs of an output and an input that may be the same tensor
	compute           string      // the argument whose type decides the arithmetic
	codes             string      // the argument that holds codes, or ""
	unstored          bool        // the op is about codes that are no argument of it, so that their type is not known
	within            int64       // qmin is at least -within and qmax at most within, of codes that are not stored; 0: where whole numbers are exact
	infer             func(p *Problem) error
	build             func(pl *plan, f *groupedPlan, t cpu.Types) error
	rows              func() []string
}

// at makes the op of one granularity.
func (o groupedOp) at(g granularity) op {
	made := op{
		name: o.name + "_" + g.suffix + o.suffix, base: o.name + o.suffix, category: Quantization,
		doc: o.doc, formulas: o.formulas, sections: o.sections, groups: g.doc, args: o.argsOf(g),
		attrs: append(append([]attr{}, g.attrs...), o.attrs...), rows: o.rows,
	}
	for _, pair := range o.inPlace {
		made.inPlace = append(made.inPlace, [2]int{made.arg(pair[0]), made.arg(pair[1])})
	}
	made.infer = func(p *Problem) error { return o.inferShapes(p, g) }
	made.build = func(pl *plan) error {
		f := newGroupedPlan(&pl.problem, o.in, o.out, o.groupOut)
		if d := o.codeType(&pl.problem); d.IsFloat8() && pl.problem.op.hasAttr("rounding") {
			f.args.Attrs.Code = d
		}
		pl.check = checkZeroPoints(&pl.problem)
		err := o.build(pl, f, f.types(&pl.problem, pl.problem.DType(o.compute).Compute()))
		f.isa = pl.needs
		pl.keepCalls(f)
		run := pl.run
		pl.run = func(c *call) error {
			f.repeatNumbers(c)
			return run(c)
		}
		return err
	}
	return made
}

// argsOf returns the arguments with the shapes of one granularity's parameters.
func (o groupedOp) argsOf(g granularity) []arg {
	args := slices.Clone(o.args)
	for i := range args {
		switch {
		case args[i].param:
			args[i].form = g.params
		case i == 0:
			args[i].form = g.form
		default:
			args[i].form = args[0].name + "'s"
		}
	}
	return args
}

func (o groupedOp) inferShapes(p *Problem, g granularity) (err error) {
	if p.grouping, err = g.blocks(p, p.shapes[0]); err != nil {
		return err
	}
	for i := range o.args {
		p.shapes[i] = p.shapes[0]
		if o.args[i].param {
			p.shapes[i] = p.grouping.paramShapes[0]
		}
	}
	if err := o.checkRange(p); err != nil {
		return err
	}
	if o.codes != "" && p.DType(o.codes).Packed() && len(p.shapes[0]) == 0 {
		return p.errorf(p.op.args[0].name, "has shape []; want at least one dimension to pack along")
	}
	if o.infer != nil {
		return o.infer(p)
	}
	return nil
}

// checkRange checks that the type of the codes holds qmin and qmax, and so does the type
// of the arithmetic.
func (o groupedOp) checkRange(p *Problem) error {
	if d := o.codeType(p); d.IsFloat8() && p.op.arg("zero_point") >= 0 && p.has("zero_point") {
		return p.errorf("zero_point", "is %s; %s codes have a scale only: want none", p.DType("zero_point"), d)
	}
	lo, hi, name := o.codeRange(p)
	qmin, qmax := p.int("qmin"), p.int("qmax")
	switch {
	case qmin > qmax:
		return p.errorf("qmin", "is %d, above %s, which is %d", qmin, named("qmax"), qmax)
	case qmin < lo:
		return p.errorf("qmin", "is %d; %s starts at %d", qmin, name, lo)
	case qmax > hi:
		return p.errorf("qmax", "is %d; %s ends at %d", qmax, name, hi)
	}
	// Codes are compared with the bounds in floating point.
	computed := p.DType(o.compute).Compute()
	for i, q := range []int64{qmin, qmax} {
		if computed == tensor.F32 && int64(float32(q)) != q && q != hi {
			return p.errorf([]string{"qmin", "qmax"}[i], "is %d, which %s does not hold; want a number that it does, or %d", q, computed, hi)
		}
	}
	return nil
}

// codeRange returns the least qmin and the largest qmax, and in an error's words what has these bounds.
func (o groupedOp) codeRange(p *Problem) (lo, hi int64, name string) {
	computed, d := p.DType(o.compute).Compute(), o.codeType(p)
	lo, hi = computed.WholeRange()
	if o.within > 0 {
		lo, hi = -o.within, o.within
	}
	codeLo, codeHi := d.WholeRange()
	switch {
	case d.IsFloat(): // codes that are computed with as they are
		name = named(d.String())
		if lo > codeLo {
			name += " computed in " + named(computed.String())
		}
		return max(lo, codeLo), min(hi, codeHi), name
	case d != tensor.None:
		return codeLo, codeHi, named(d.String())
	case o.unstored || o.codes != "": // of any type
		codeLo, codeHi = tensor.I32.WholeRange()
		return min(lo, codeLo), max(hi, codeHi), "the range of codes"
	case o.within > 0:
		return lo, hi, "the range of fake-quantized codes"
	}
	return lo, hi, "the range of exact whole numbers"
}

// codeType returns the type of the codes, None where they are whole numbers
// that are not stored.
func (o groupedOp) codeType(p *Problem) tensor.DType {
	if p.op.hasAttr("code") {
		if d, ok := tensor.ParseDType(p.word("code")); ok {
			return d
		}
	}
	if o.codes != "" {
		return p.DType(o.codes)
	}
	return tensor.None
}

// hasShape asks an argument to have a shape.
func hasShape(name string, want []int64) func(p *Problem) error {
	return func(p *Problem) error {
		if got := p.Shape(name); !slices.Equal(got, want) {
			return p.errorf(name, "has shape %s; want %s", tensor.ShapeText(got), tensor.ShapeText(want))
		}
		return nil
	}
}

// sameTypeAs asks a gradient to have the type of what it is the gradient of.
func sameTypeAs(grad, of string) func(p *Problem) error {
	return func(p *Problem) error {
		if p.has(grad) && p.DType(grad) != p.DType(of) {
			return p.errorf(grad, "is %s; want %s, the type of %s", p.DType(grad), p.DType(of), named(of))
		}
		return nil
	}
}

// all joins checks: the first error is the result.
func all(checks ...func(p *Problem) error) func(p *Problem) error {
	return func(p *Problem) error {
		for _, check := range checks {
			if err := check(p); err != nil {
				return err
			}
		}
		return nil
	}
}
