package plans

import "github.com/isobit-ml/isobit/cpu"

// fakeQuantizeBackward is the straight-through estimate with LSQ's gradients
// of scale and zero point, scaled by grad_factor.
var fakeQuantizeBackward = groupedOp{
	name: "fake_quantize", suffix: "_backward",
	doc: "The straight-through gradient of fake_quantize, and LSQ's gradients of scale and zero point; at least one of the outputs is wanted.",
	formulas: []string{
		"grad_input = grad_output where qmin <= rint(x / scale) + zero_point <= qmax (inside), else 0",
		"grad_scale = sum(grad_output * e) * grad_factor, e = rint(x / scale) - x / scale inside, qmin - zero_point below, qmax - zero_point above",
		"grad_zero_point = (0 - scale * sum(grad_output below or above)) * grad_factor",
	},
	sections: []int{3, 4},
	args: []arg{
		{name: "grad_output", shaped: true, allow: floats, doc: "the gradient of y"},
		{name: "x", allow: floats, defaultType: same("grad_output"), doc: "the numbers, in grad_output's type"}, scaleArg, zeroPointArg,
		{name: "grad_input", out: true, optional: true, allow: floats, defaultType: same("grad_output"), doc: "the gradient of x, in its type"},
		gradScaleArg, gradZeroArg,
	},
	attrs: rangeAnd(attr{name: "grad_factor", kind: floatAttr, def: 1.0, doc: "what the gradients of scale and zero_point are multiplied by"}, roundingAttr, codeAttr),
	in:    []string{"grad_output", "x", "scale", "zero_point"}, out: []string{"grad_input"},
	groupOut: []string{"grad_scale", "grad_zero_point"},
	inPlace:  [][2]string{{"grad_input", "grad_output"}, {"grad_input", "x"}}, compute: "x", within: fakeQuantizeRange,
	infer: all(checkGroupGradients, sameTypeAs("x", "grad_output"), sameTypeAs("grad_input", "x")),
	build: gradients(cpu.FakeQuantizeBackward, cpu.FakeQuantizeBackwardInput),
	rows:  namesOf(cpu.FakeQuantizeBackward),
}
