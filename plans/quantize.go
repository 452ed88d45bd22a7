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
