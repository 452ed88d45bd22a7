package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// readyParameters are a table's scales and zero points, of types that sums of codes do not read, made floats before the sums:
// where bags name many rows of a small table. Else those of named rows are, as their codes are copied.
//
// Workspace: for each of the two that is made, 4 bytes for each group.
type readyParameters struct {
	kernels cpu.ParamKernels
	codes   tensor.DType
	makes   [2]bool // scales, zero points
	at, n   int64   // where in the workspace, and of how many groups
	cost    int64   // of the sums
	shared  bool    // also where threads share them
	convert job
}

// Of so many rows of a table for each that is named parameters are converted, since copies take longer: where one thread does
// all, and where several read what one of them wrote, line by line. Tests set them.
var readyRows, sharedReadyRows = 2., 1. / 8

// newReadyParameters returns nil where kernels, or the definition, read parameters as they are, where named rows are few, or
// where the workspace may not have so much.
func newReadyParameters(pl *plan) *readyParameters {
	p := &pl.problem
	r := &readyParameters{codes: p.DType("weight"), at: pl.workspace, n: tensor.NumElements(p.Shape("weight_scale"))}
	for i, name := range []string{"weight_scale", "weight_zero_point"} {
		if r.makes[i] = !cpu.ReadsParameters(p.DType(name), i == 1); r.makes[i] {
			pl.workspace += int32Bytes(r.n)
		}
	}
	rows, named := float64(p.Shape("weight")[0]), float64(tensor.NumElements(p.Shape("indices")))
	kernels := pl.needs > cpu.Go // in f32
	if !kernels || pl.workspace == r.at || pl.checkWorkspaceLimit() != nil || rows > readyRows*named {
		pl.workspace = r.at
		return nil
	}
	r.cost, r.shared = tensor.NumElements(p.Shape("indices"))*p.Shape("weight")[1], rows <= sharedReadyRows*named
	r.kernels, r.convert = pickSupport(cpu.ParamRows, cpu.Types{Compute: tensor.F32}), r.part
	return r
}

// parameters returns a table's, and the place of what is made of them.
func (r *readyParameters) parameters(c *call) (from [2]*tensor.View, to [2][]float32) {
	at := r.at
	for i, makes := range r.makes {
		from[i] = &c.args[bagFurther+i]
		if makes {
			to[i] = valuesIn[float32](c.workspace[at:], r.n)
			at += int32Bytes(r.n)
		}
	}
	return from, to
}

// run makes those that lie one after the other.
func (r *readyParameters) run(c *call, w *cpu.WeightRows) {
	from, to := r.parameters(c)
	if !r.shared && c.parts(r.cost, 1) > 1 {
		return
	}
	for i, makes := range r.makes {
		if makes && !from[i].IsContiguous() {
			return
		}
	}
	c.parallel(ceilDiv(r.n, jobSize), r.n, r.convert)
	for i, makes := range r.makes {
		if makes {
			w.Ready[i] = cpu.ReadyRows(to[i], from[i].Shape[1])
		}
	}
}

// part is a job.
func (r *readyParameters) part(c *call, _ *worker, number int64) {
	first := number * jobSize
	n := min(jobSize, r.n-first)
	from, to := r.parameters(c)
	for i, makes := range r.makes {
		if makes {
			r.kernels.MakeReady(to[i][first:][:n], elementAt(from[i], first), i == 1, r.codes)
		}
	}
}
