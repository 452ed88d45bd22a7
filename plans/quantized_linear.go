package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of quantizedLinear's arguments.
const (
	linearX = iota
	linearXScale
	linearWeight
	linearWeightScale
	linearBias
	linearY
)

// quantizedLinear multiplies codes of activations with codes of weights in
// exact integers, then scales once (NUMERICS.md, section 7).
//
// Workspace: x, packed for the kernels, which do without where a preference does not allow that much.
var quantizedLinear = op{
	name: "quantized_linear", category: Linear,
	doc: "A linear layer of codes: exact integer products of x and weight, scaled once, and a bias.",
	formulas: []string{
		"y[m, n] = float(sum(x[m, k] * weight[n, k])) * (x_scale[m] * weight_scale[n]) + bias[n], the sum over k exact",
	},
	sections: []int{7},
	args: []arg{
		{name: "x", shaped: true, compact: always, allow: []tensor.DType{tensor.S8}, form: "[M, K]", doc: "the codes of the activations"},
		{name: "x_scale", allow: floats, defaultType: fixed(tensor.F32), form: "[M]", doc: "a scale for each row of x"},
		{name: "weight", shaped: true, compact: always, allow: []tensor.DType{tensor.S8}, form: "[N, K]", doc: "the codes of the weights"},
		{name: "weight_scale", allow: floats, defaultType: fixed(tensor.F32), form: "[N]", doc: "a scale for each row of weight"},
		{name: "bias", optional: true, allow: floats, defaultType: fixed(tensor.F32), form: "[N]", doc: "what is added"},
		{name: "y", out: true, allow: floats, defaultType: fixed(tensor.F32), form: "[M, N]", doc: "the result"},
	},
	infer: func(p *Problem) error {
		x, w, err := inferLinear(p)
		if err != nil {
			return err
		}
		p.setShape("x_scale", x[:1])
		p.setShape("weight_scale", w[:1])
		return nil
	},
	build: buildQuantizedLinear,
	rows:  namesOf(cpu.QuantizedLinear),
}

func buildQuantizedLinear(pl *plan) error {
	p := &pl.problem
	layer, err := selectRow(pl, cpu.QuantizedLinear, cpu.Types{Compute: p.DType("y").Compute()})
	if err != nil {
		return err
	}
	pl.accumulator = tensor.I64
	l := &linear{LinearLayer: layer, m: p.Shape("x")[0], k: p.Shape("x")[1], n: p.Shape("weight")[0]}
	l.columns = cpu.TileColumns(l.m, l.k)
	l.across = ceilDiv(l.n, l.columns)
	// Whole panels, with which tiles begin.
	l.rows = min(l.m, max(linearRows, roundUp(min(l.m*l.across/linearJobs, cpu.MostLinearRows), cpu.LinearPanel)))
	l.tiles, l.panels = l.runTile, l.packPanel
	if l.Pack != nil {
		rows, bytes := l.Packed(l.m, l.n, l.k)
		if limit := pl.pref.MaxWorkspace; limit == 0 || bytes <= limit {
			l.packed, pl.workspace = rows, bytes
		}
	}
	pl.run = l.run
	return nil
}

// linear is how one problem runs.
type linear struct {
	cpu.LinearLayer
	m, k, n       int64
	rows, columns int64 // of a tile
	across        int64 // tiles
	packed        int64 // rows of x that are packed first
	tiles, panels job   // method values made once, so that running does not allocate
}

func (l *linear) run(c *call) error {
	if l.packed > 0 {
		c.parallel(ceilDiv(l.packed, cpu.LinearPanel), l.packed*l.k, l.panels)
	}
	c.parallel(ceilDiv(l.m, l.rows)*l.across, linearCost(l.m, l.k, l.n), l.tiles)
	return nil
}

// tile describes all of y.
func (l *linear) tile(c *call, w *worker) *cpu.LinearTile {
	x, xScale, weight := &c.args[linearX], &c.args[linearXScale], &c.args[linearWeight]
	weightScale, bias, y := &c.args[linearWeightScale], &c.args[linearBias], &c.args[linearY]
	t := &w.ownArgs().linear
	*t = cpu.LinearTile{
		X: rowsOf(x), Weight: rowsOf(weight), Y: rowsOf(y),
		XScale: vectorOf(xScale), WScale: vectorOf(weightScale), Bias: vectorOf(bias),
		M1: l.m, N1: l.n, K: l.k, Scratch: &w.scratch,
		Panels: cpu.LinearPanels{P: unsafe.Pointer(unsafe.SliceData(c.workspace)), Rows: l.packed},
	}
	return t
}

// packPanel packs a panel of x in the workspace.
func (l *linear) packPanel(c *call, w *worker, number int64) {
	t := l.tile(c, w)
	t.M0, t.M1 = number*cpu.LinearPanel, min((number+1)*cpu.LinearPanel, l.m)
	l.Pack(t)
}

// runTile computes one tile of y.
func (l *linear) runTile(c *call, w *worker, number int64) {
	t := l.tile(c, w)
	t.M0, t.N0 = number/l.across*l.rows, number%l.across*l.columns
	t.M1, t.N1 = min(t.M0+l.rows, l.m), min(t.N0+l.columns, l.n)
	l.Run(t)
}

// inferLinear checks the shapes of x and weight, returns them, and sets those of bias and y.
func inferLinear(p *Problem) (x, w []int64, err error) {
	x, w = p.Shape("x"), p.Shape("weight")
	switch {
	case len(x) != 2:
		return nil, nil, p.errorf("x", "has shape %s; want [M, K]", tensor.ShapeText(x))
	case len(w) != 2 || w[1] != x[1]:
		return nil, nil, p.errorf("weight", "has shape %s; want [N, %d]", tensor.ShapeText(w), x[1])
	}
	p.setShape("bias", w[:1])
	p.setShape("y", []int64{x[0], w[0]})
	return x, w, nil
}

// Weights are read and corrected once for the rows of a job, as many as leave
// enough jobs for the threads.
const (
	linearRows = 64
	linearJobs = 64
)

// linearCost is the cost of a product in elements of a streaming op: eight
// multiplications take about as long as one of those.
func linearCost(m, k, n int64) int64 { return m * n * max(1, k/8) }

// rowsOf describes a matrix, or the first of a batch, vectorOf a vector.
func rowsOf(v *tensor.View) cpu.Rows {
	size, last := v.DType.Size(), len(v.Shape)-1
	return cpu.Rows{Span: cpu.Span{P: v.Data, Stride: v.Stride(last) * size, DType: v.DType}, RowStride: v.Stride(last-1) * size}
}

func vectorOf(v *tensor.View) cpu.Span {
	if !v.Present() {
		return cpu.Span{}
	}
	return cpu.Span{P: v.Data, Stride: v.Stride(0) * v.DType.Size(), DType: v.DType}
}
