package plans

import (
	"math"
	"sync"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var symmetricAttr = attr{
	name: "symmetric", kind: boolAttr, def: true,
	doc: "true: scales reach from 0 to the largest absolute value, and zero points are 0; false: from the smallest to the largest value, and 0",
}

var epsAttr = attr{
	name: "eps", kind: floatAttr, def: 0.0,
	doc: "the least scale, at least 0 and finite: one that would be smaller is this, and zero points are made with it",
}

// The scale and zero point that an op chooses: outputs.
var (
	chosenScaleArg = arg{
		name: "scale", param: true, out: true, allow: floats, doc: "the scales chosen",
		defaultType: typeRule{"f32, or f64 where x is", func(p *Problem) tensor.DType { return p.DType("x").Compute() }},
	}
	chosenZeroArg = arg{
		name: "zero_point", param: true, out: true, optional: true, allow: indices, doc: "the zero points chosen; wanted with symmetric=false",
		defaultType: typeRule{"none, or i32 with symmetric=false", func(p *Problem) tensor.DType {
			if p.bool("symmetric") {
				return tensor.None
			}
			return tensor.I32
		}},
	}
)

// The formulas of what is chosen.
const (
	formulaOfScale     = "scale = max|x| / qmax, or (hi - lo) / (qmax - qmin) with symmetric=false, lo = min(0, min x), hi = max(0, max x); 1 where that is 0; at least eps"
	formulaOfZeroPoint = "zero_point = 0, or clamp(rint(qmin - lo / scale), qmin, qmax) with symmetric=false"
)

// chooseQParams computes scale and zero point from the range of each group.
var chooseQParams = groupedOp{
	name: "choose_qparams",
	doc:  "A scale, and if wanted a zero point, for the range of each group.",
	formulas: []string{
		formulaOfScale,
		formulaOfZeroPoint,
	},
	sections: []int{3},
	args:     []arg{{name: "x", shaped: true, allow: floats, doc: "the numbers"}, chosenScaleArg, chosenZeroArg},
	attrs:    rangeAnd(symmetricAttr, epsAttr),
	in:       []string{"x"}, groupOut: []string{"scale", "zero_point"}, compute: "x",
	infer: checkChosen,
	rows:  namesOf(cpu.MinMax),
	build: func(pl *plan, f *groupedPlan, t cpu.Types) error {
		minMax, err := selectRow(pl, cpu.MinMax, t)
		if err == nil {
			runChoice(pl, f, t, minMax, nil)
		}
		return err
	},
}

// runChoice makes the run of an op that chooses scales and zero points, and maps elements with them if
// there is a kernel for it.
func runChoice(pl *plan, f *groupedPlan, t cpu.Types, minMax cpu.Striped, quantize cpu.Elementwise) {
	cpu.ForCompute(t.Compute, choose[float32], choose[float64])(pl, f, t, minMax, quantize)
}

// From how many bytes of a group on kernels with AVX-512 choose parameters group by group, and the longest groups, in
// elements, that else have theirs chosen together: measured on Zen 5.
const shortestChoice, longestTogether = 1 << 11, 1024

// choose is runChoice in a compute type.
func choose[C cpu.Compute](pl *plan, f *groupedPlan, t cpu.Types, minMax cpu.Striped, quantize cpu.Elementwise) {
	if f.packed >= 0 {
		chooseBytes[C](pl, f, t, minMax, quantize)
		return
	}
	r := chooser[C](pl, f, t, minMax, quantize)
	if quantize != nil {
		r.apart = sync.OnceValue(func() *apart[C] {
			alone, t := *f, t
			alone.isa = pl.needs
			alone.operand[firstOutput], alone.size[firstOutput], alone.args.Out[0].DType = -1, 0, tensor.None
			t.Out[0] = tensor.None
			first := chooser[C](pl, &alone, t, minMax, nil)
			return &apart[C]{first, first.ways(), newMapJobs(f, quantize)}
		})
	}
	pl.run = r.run()
	pl.workspace = reductionWorkspace[C](f)
}

// chooser makes the reduction that chooses scales and zero points, and maps elements with them if there is a kernel for it.
func chooser[C cpu.Compute](pl *plan, f *groupedPlan, t cpu.Types, minMax cpu.Striped, quantize cpu.Elementwise) *reduction[C] {
	p := &pl.problem
	codes := cpu.Codes[C]{QMin: C(p.int("qmin")), QMax: C(p.int("qmax")), Eps: C(p.float("eps")), Symmetric: p.bool("symmetric")}
	store := finisher[C](storeQParams[C])
	choose := pickSupport(cpu.ChooseParamsRows[C](), t)
	fold := extremes(t, func(w *worker, to resultSpans, extremes [2][]C) {
		choose(extremes, codes)
		store(w, to, extremes)
	})
	// In one step, unless another row is asked for.
	if pl.needs == cpu.Allowed() {
		fold.store = store
		switch {
		case quantize == nil:
			fold.choose = pickSupport(cpu.ChooseQParamsRows[C](), t)
		case p.DType("scale") == t.Compute: // elements are divided by the scale as it is stored
			fold.choose = pickSupport(cpu.DynamicQuantizeRows[C](), t)
		}
		if fold.choose != nil && pl.needs == cpu.AVX512 {
			fold.together = shortestChoice/f.size[0] - 1
		}
	}
	return &reduction[C]{groupedPlan: f, kernel: minMax, fold: fold, then: quantize}
}

// chooseBytes makes packed codes bytes, in memory of the library's, while groups are in cache, and packs these as a whole.
func chooseBytes[C cpu.Compute](pl *plan, f *groupedPlan, t cpu.Types, minMax cpu.Striped, quantize cpu.Elementwise) {
	bytes := *f
	bytes.packed, bytes.isa = -1, pl.needs
	choose[C](pl, &bytes, t, minMax, quantize)
	pl.run = f.thenPacked(pl.run)
}

// checkChosen asks for codes that a scale above 0 and below infinity can be chosen for.
func checkChosen(p *Problem) error {
	if eps := p.float("eps"); !(eps >= 0) || math.IsInf(eps, 1) || p.DType("x").Compute() == tensor.F32 && math.IsInf(float64(float32(eps)), 1) {
		return p.errorf("eps", "is %v; want at least 0, and finite in %v", formatAttr(eps), p.DType("x").Compute())
	}
	qmax := p.int("qmax")
	switch symmetric := p.bool("symmetric"); {
	case !symmetric && !p.has("zero_point"):
		return p.errorf("zero_point", "is none, but %s=%v chooses one", named("symmetric"), false)
	case symmetric && qmax <= 0:
		return p.errorf("qmax", "is %d; want at least 1 with %s=%v: scales are max|x| / %s", qmax, named("symmetric"), true, named("qmax"))
	case !symmetric && p.int("qmin") == qmax:
		return p.errorf("qmax", "is %d, and so is %s; want more with %s=%v: scales are a range divided by their difference", qmax, named("qmin"), named("symmetric"), false)
	}
	return nil
}

// storeQParams finishes groups: it stores their scales and zero points.
func storeQParams[C cpu.Compute](_ *worker, to resultSpans, chosen [2][]C) {
	for i, s := range to.results {
		cpu.Store(s, chosen[i])
	}
}
