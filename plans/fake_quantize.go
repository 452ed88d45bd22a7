package plans

import "github.com/isobit-ml/isobit/cpu"

// fakeQuantizeRange is where every code and its neighbours are exact in f32.
const fakeQuantizeRange = 1 << 23

// fakeQuantize is quantize and dequantize in one pass.
var fakeQuantize = groupedOp{
	name: "fake_quantize",
	doc:  "Quantize and dequantize in one pass.",
	formulas: []string{
		"y = (q - zero_point) * scale, q being quantize's",
	},
	sections: []int{3},
	args: []arg{
		{name: "x", shaped: true, allow: floats, doc: "the numbers"}, scaleArg, zeroPointArg,
		{name: "y", out: true, allow: floats, defaultType: same("x"), doc: "the numbers that their codes stand for, in x's type"},
	},
	attrs: rangeAnd(roundingAttr, codeAttr),
	in:    []string{"x", "scale", "zero_point"}, out: []string{"y"},
	inPlace: [][2]string{{"y", "x"}}, compute: "x", within: fakeQuantizeRange,
	infer: sameTypeAs("y", "x"),
	build: elementwise(cpu.FakeQuantize), rows: namesOf(cpu.FakeQuantize),
}
