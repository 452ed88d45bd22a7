package plans

import "github.com/isobit-ml/isobit/cpu"

// dequantize maps codes to floats.
var dequantize = groupedOp{
	name: "dequantize",
	doc:  "The numbers that codes stand for.",
	formulas: []string{
		"y = (q - zero_point) * scale",
	},
	sections: []int{3},
	args: []arg{
		{name: "q", shaped: true, allow: anyCodes, doc: "the codes, taken as they are, also beyond qmin and qmax"}, scaleArg, zeroPointArg,
		{name: "y", out: true, allow: floats, doc: "the numbers that they stand for"},
	},
	attrs: rangeAnd(checkZeroAttr),
	in:    []string{"q", "scale", "zero_point"}, out: []string{"y"},
	inPlace: [][2]string{{"y", "q"}}, compute: "y", codes: "q",
	infer: checkUnchecked,
	build: elementwise(cpu.Dequantize), rows: namesOf(cpu.Dequantize),
}
