package plans

import "github.com/isobit-ml/isobit/cpu"

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
	inPlace: [][2]string{{"grad_input", "grad_output"}, {"grad_input", "x"}}, compute: "x", unstored: true,
	infer: sameTypeAs("grad_input", "x"),
	build: elementwise(cpu.QuantizeBackward), rows: namesOf(cpu.QuantizeBackward),
}
