package plans

import "github.com/isobit-ml/isobit/cpu"

// dynamicQuantize chooses scale and zero point of each group and quantizes it
// with them, while the group is still in cache.
var dynamicQuantize = groupedOp{
	name: "dynamic_quantize",
	doc:  "choose_qparams and quantize in one pass.",
	formulas: []string{
		"q = clamp(rint(x / scale) + zero_point, qmin, qmax)",
		formulaOfScale,
		formulaOfZeroPoint,
	},
	sections: []int{3},
	args: []arg{
		{name: "x", shaped: true, allow: floats, doc: "the numbers"},
		{name: "q", out: true, allow: either(codes, wider), doc: "their codes"}, chosenScaleArg, chosenZeroArg,
	},
	attrs: rangeAnd(symmetricAttr, epsAttr),
	in:    []string{"x", "scale", "zero_point"}, out: []string{"q"},
	groupOut: []string{"scale", "zero_point"}, compute: "x", codes: "q",
	infer: checkChosen,
	rows:  namesOf(cpu.Quantize),
	build: func(pl *plan, f *groupedPlan, t cpu.Types) error {
		minMax, err := selectRow(pl, cpu.MinMax, t)
		if err != nil {
			return err
		}
		quantize, err := selectRow(pl, cpu.Quantize, t)
		if err == nil {
			runChoice(pl, f, t, minMax, quantize)
		}
		return err
	},
}
