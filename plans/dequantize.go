package plans

import "github.com/isobit-ml/isobit/cpu"

// dequantize maps codes to floats.
var dequantize = familyOp{
	name: "dequantize",
	args: []arg{
		{name: "q", shaped: true, allow: either(codes, floats, float8s)}, scaleArg, zeroPointArg,
		{name: "y", out: true, allow: floats},
	},
	attrs: rangeAnd(),
	in:    []string{"q", "scale", "zero_point"}, out: []string{"y"},
	inPlace: [][2]string{{"y", "q"}}, compute: "y", codes: "q",
	build: elementwise(cpu.Dequantize), rows: namesOf(cpu.Dequantize),
}
