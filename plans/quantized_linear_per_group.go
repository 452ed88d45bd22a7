package plans

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of quantizedLinearPerGroup's arguments.
const (
	groupLinearX = iota
	groupLinearXScale
	groupLinearXZero
	groupLinearWeight
	groupLinearScale
	groupLinearZero
	groupLinearBias
	groupLinearY
)

// quantizedLinearPerGroup multiplies codes of activations with codes of weights in exact integers, where either may have
// zero points, and weights are in groups along K (NUMERICS.md, section 7). Of one group, without zero points, it is
// quantizedLinear.
//
// Workspace: x, packed for the kernels.
var quantizedLinearPerGroup = op{
	name: "quantized_linear_per_group", category: Linear,
	doc: "A linear layer of codes in groups along K: exact integer products of x and weight less their zero points, scaled once for each group, and a bias.",
	formulas: []string{
		"y[m, n] = sum(float(acc[g]) * (x_scale[m] * weight_scale[n, g])) + bias[n] over groups g, left to right, " +
			"acc[g] = sum((x[m, k] - x_zero_point[m]) * (weight[n, k] - weight_zero_point[n, g])) over the k of a group, exact",
	},
	sections: []int{7},
	args: slices.Concat([]arg{
		{name: "x", shaped: true, compact: always, allow: []tensor.DType{tensor.S8, tensor.U8}, form: "[M, K]", doc: "the codes of the activations"},
		{name: "x_scale", allow: floats, defaultType: fixed(tensor.F32), form: "[M]", doc: "a scale for each row of x"},
		{name: "x_zero_point", optional: true, allow: either(integers, floats), defaultType: fixed(tensor.None), form: "[M]", doc: "a zero point for each row of x, rounded and clamped to the codes' range"},
		{name: "weight", shaped: true, compact: always, allow: codes, form: "[N, K]", doc: "the codes of the weights"},
	}, weightParameterArgs("[N, ceil(K / group_size)]", "it is rounded and clamped to the codes' range"), []arg{
		{name: "bias", optional: true, allow: floats, defaultType: fixed(tensor.F32), form: "[N]", doc: "what is added"},
		{name: "y", out: true, allow: floats, defaultType: fixed(tensor.F32), form: "[M, N]", doc: "the result"},
	}),
	attrs: []attr{{name: "group_size", doc: "codes along K that share a scale, at least 1"}},
	infer: func(p *Problem) error {
		x, w, err := inferLinear(p)
		if err != nil {
			return err
		}
		p.setShape("x_scale", x[:1])
		p.setShape("x_zero_point", x[:1])
		return inferWeightGroups(w)(p)
	},
	build: buildQuantizedLinearPerGroup,
	rows:  namesOf(cpu.QuantizedLinearPerGroup),
}

func buildQuantizedLinearPerGroup(pl *plan) error {
	p := &pl.problem
	layer, err := selectRow(pl, cpu.QuantizedLinearPerGroup, cpu.Types{
		Compute: p.DType("y").Compute(), In: cpu.InTypes{p.DType("x"), p.DType("weight")},
	})
	if err != nil {
		return err
	}
	pl.accumulator = tensor.I64
	l := &groupLinear{
		GroupLinearLayer: layer, m: p.Shape("x")[0], k: p.Shape("x")[1], n: p.Shape("weight")[0],
		group: weightGroup(p), codes: p.DType("weight"),
	}
	if l.Packed != nil {
		pl.workspace = roundUp(l.Packed(l.problem(p)), WorkspaceAlignment)
	}
	l.packs = pl.workspace > 0
	across := ceilDiv(l.n, cpu.LinearColumns)
	l.rows = min(l.m, max(linearRows, min(l.m*across/linearJobs, cpu.MostLinearRows)))
	l.tiles = ceilDiv(l.m, max(1, l.rows))
	pack, tile := l.packRows, l.runTile
	pl.run = func(c *call) error {
		if l.packs {
			c.parallel(ceilDiv(l.m, rowsPerJob(l.k)), l.m*l.k, pack)
		}
		c.parallel(l.tiles*across, linearCost(l.m, l.k, l.n), tile)
		return nil
	}
	return nil
}

// groupLinear is how one problem runs.
type groupLinear struct {
	cpu.GroupLinearLayer
	m, k, n, group int64
	codes          tensor.DType
	packs          bool
	rows, tiles    int64 // of x: of a tile, and how many tiles
}

// problem describes types and extents, without tensors.
func (l *groupLinear) problem(p *Problem) *cpu.GroupLinearTile {
	rows := func(name string) cpu.Rows { return cpu.Rows{Span: cpu.Span{DType: p.DType(name)}} }
	return &cpu.GroupLinearTile{
		X: rows("x"), XZero: rows("x_zero_point").Span, M: l.m, N1: l.n, K: l.k,
		WeightRows: cpu.WeightRows{Weight: rows("weight"), Zero: rows("weight_zero_point"), GroupSize: l.group, Rows: l.n},
	}
}

// tile describes all rows and columns.
func (l *groupLinear) tile(c *call, w *worker) *cpu.GroupLinearTile {
	x, weight, scale, zero := &c.args[groupLinearX], &c.args[groupLinearWeight], &c.args[groupLinearScale], &c.args[groupLinearZero]
	t := &w.ownArgs().groups
	*t = cpu.GroupLinearTile{
		X: rowsOf(x), WeightRows: weightRowsOf(weight, scale, zero, l.codes, l.group), Y: rowsOf(&c.args[groupLinearY]),
		XScale: vectorOf(&c.args[groupLinearXScale]), XZero: vectorOf(&c.args[groupLinearXZero]), Bias: vectorOf(&c.args[groupLinearBias]),
		M: l.m, M1: l.m, N1: l.n, K: l.k, Scratch: &w.scratch,
	}
	if l.packs {
		t.Packed = unsafe.Pointer(unsafe.SliceData(c.workspace))
	}
	return t
}

// packRows packs some rows of x in the workspace.
func (l *groupLinear) packRows(c *call, w *worker, number int64) {
	t, rows := l.tile(c, w), rowsPerJob(l.k)
	t.M0 = number * rows
	t.M1 = min(t.M0+rows, l.m)
	l.Pack(t)
}

// runTile computes some columns of y for a tile of rows of x.
func (l *groupLinear) runTile(c *call, w *worker, number int64) {
	t := l.tile(c, w)
	t.M0, t.N0 = number%l.tiles*l.rows, number/l.tiles*cpu.LinearColumns
	t.M1, t.N1 = min(t.M0+l.rows, l.m), min(t.N0+cpu.LinearColumns, l.n)
	l.Run(t)
}
