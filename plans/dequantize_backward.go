package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// dequantizeBackward gives the gradients of the codes, the scale and the zero
// point. Codes are needed for the scale's only.
var dequantizeBackward = groupedOp{
	name: "dequantize", suffix: "_backward",
	doc: "The gradients of codes, scale and zero point; at least one of the outputs is wanted.",
	formulas: []string{
		"grad_input = grad_output * scale",
		"grad_scale = sum(grad_output * (q - zero_point))",
		"grad_zero_point = 0 - scale * sum(grad_output)",
	},
	sections: []int{3, 4},
	args: []arg{
		{name: "grad_output", shaped: true, allow: floats, doc: "the gradient of y"},
		{name: "q", optional: true, allow: anyCodes, defaultType: fixed(tensor.S8), doc: "the codes; needed for grad_scale alone"}, scaleArg, zeroPointArg,
		{name: "grad_input", out: true, optional: true, allow: floats, defaultType: same("grad_output"), doc: "the gradient of q, in grad_output's type"},
		gradScaleArg, gradZeroArg,
	},
	attrs: rangeAnd(checkZeroAttr),
	in:    []string{"grad_output", "q", "scale", "zero_point"}, out: []string{"grad_input"},
	groupOut: []string{"grad_scale", "grad_zero_point"},
	inPlace:  [][2]string{{"grad_input", "grad_output"}}, compute: "grad_output", codes: "q",
	infer: all(checkUnchecked, checkGroupGradients, sameTypeAs("grad_input", "grad_output"), needs("grad_scale", "q")),
	build: gradients(cpu.DequantizeBackward, cpu.DequantizeBackwardInput),
	rows:  namesOf(cpu.DequantizeBackward),
}

// needs asks for an input that an output is computed from.
func needs(out, in string) func(p *Problem) error {
	return func(p *Problem) error {
		if p.has(out) && !p.has(in) {
			return p.errorf(in, "is none, but %s is computed from it", named(out))
		}
		return nil
	}
}

// checkGroupGradients asks the parameters' gradients to have their types.
func checkGroupGradients(p *Problem) error {
	if p.has("grad_zero_point") && !p.DType("zero_point").IsFloat() {
		return p.errorf("grad_zero_point", "is %s, but %s is %s; only a float zero point has a gradient", p.DType("grad_zero_point"), named("zero_point"), p.DType("zero_point"))
	}
	if !p.has("grad_input") && !p.has("grad_scale") && !p.has("grad_zero_point") {
		return p.errorf("grad_input", "is none, and so are %s and %s; want at least one", named("grad_scale"), named("grad_zero_point"))
	}
	return all(sameTypeAs("grad_scale", "scale"), sameTypeAs("grad_zero_point", "zero_point"))(p)
}

// gradients builds a plan for the input's gradient and the parameters', or
// for the input's alone.
func gradients(both []cpu.Row[cpu.Striped], inputOnly []cpu.Row[cpu.Elementwise]) func(pl *plan, f *groupedPlan, t cpu.Types) error {
	return func(pl *plan, f *groupedPlan, t cpu.Types) error {
		p := &pl.problem
		if !p.has("grad_scale") && !p.has("grad_zero_point") {
			return elementwise(inputOnly)(pl, f, t)
		}
		kernel, err := selectRow(pl, both, t)
		if err != nil {
			return err
		}
		factor := 1.0
		if p.op.hasAttr("grad_factor") {
			factor = p.float("grad_factor")
		}
		cpu.ForCompute(t.Compute, sumGradients[float32], sumGradients[float64])(pl, f, kernel, factor)
		return nil
	}
}

// sumGradients makes the run of a plan that reduces the parameters' gradients.
func sumGradients[C cpu.Compute](pl *plan, f *groupedPlan, kernel cpu.Striped, factor float64) {
	r := &reduction[C]{groupedPlan: f, kernel: kernel, fold: stripes(storeGradients[C](factor))}
	pl.run, pl.workspace = r.run(), reductionWorkspace[C](f)
	if f.packed >= 0 {
		pl.run = r.runUnpacked(pl.needs, pl.run)
	}
}

// storeGradients finishes groups: ds = sum * g and dz = (0 - s * sum) * g.
func storeGradients[C cpu.Compute](factor float64) finisher[C] {
	return func(w *worker, to resultSpans, sums [2][]C) {
		g := C(factor)
		for i := range sums[0] {
			sums[0][i] *= g
		}
		if to.results[1].P != nil {
			scale := cpu.BlockOf[C](&w.scratch, 2, len(sums[1]))
			cpu.Load(scale, to.scale)
			for i, s := range scale {
				sums[1][i] = (0 - C(s*sums[1][i])) * g
			}
		}
		for i, s := range to.results {
			cpu.Store(s, sums[i])
		}
	}
}
