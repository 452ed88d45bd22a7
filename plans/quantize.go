package plans

import "github.com/isobit-ml/isobit/cpu"

// quantize maps x to codes; see NUMERICS.md, section 3.
var quantize = groupedOp{
	name: "quantize",
	doc:  "The codes of numbers.",
	formulas: []string{
		"q = clamp(rint(x / scale) + zero_point, qmin, qmax); of f8 codes clamp(x / scale, qmin, qmax), rounded",
	},
	sections: []int{3},
	args: []arg{
		{name: "x", shaped: true, allow: floats, doc: "the numbers"}, scaleArg, zeroPointArg,
		{name: "q", out: true, allow: anyCodes, doc: "their codes"},
	},
	attrs: rangeAnd(roundingAttr),
	in:    []string{"x", "scale", "zero_point"}, out: []string{"q"},
	inPlace: [][2]string{{"q", "x"}}, compute: "x", codes: "q",
	build: elementwise(cpu.Quantize), rows: namesOf(cpu.Quantize),
}

// elementwise builds a plan whose kernel maps every element on its own.
func elementwise(table []cpu.Row[cpu.Elementwise]) func(pl *plan, f *groupedPlan, t cpu.Types) error {
	return func(pl *plan, f *groupedPlan, t cpu.Types) error {
		kernel, err := selectRow(pl, table, t)
		if err == nil {
			pl.run = runElementwise(f, kernel)
		}
		return err
	}
}

// quantizeBackward is the straight-through estimate.
var quantizeBackward = groupedOp{
	name: "quantize", suffix: "_backward",
	doc: "The straight-through gradient of quantize.",
	formulas: []string{
		"grad_input = grad_output / scale where qmin <= rint(x / scale) + zero_point <= qmax, else 0",
	},
	sections: []int{3},
	args: []arg{
		{name: "grad_output", shaped: true, allow: floats, doc: "the gradient of the codes, in a float type"},
		{name: "x", allow: floats, defaultType: same("grad_output"), doc: "the numbers that were quantized"}, scaleArg, zeroPointArg,
		{name: "grad_input", out: true, allow: floats, defaultType: same("x"), doc: "the gradient of x, in its type"},
	},
	attrs: rangeAnd(roundingAttr, codeAttr),
	in:    []string{"grad_output", "x", "scale", "zero_point"}, out: []string{"grad_input"},
	inPlace: [][2]string{{"grad_input", "grad_output"}, {"grad_input", "x"}}, compute: "x", codes: "grad_output",
	infer: sameTypeAs("grad_input", "x"),
	build: elementwise(cpu.QuantizeBackward), rows: namesOf(cpu.QuantizeBackward),
}
