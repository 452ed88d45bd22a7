package plans

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of weightOnlyLinear's arguments.
const (
	weightOnlyX = iota
	weightOnlyWeight
	weightOnlyScale
	weightOnlyZero
	weightOnlyBias
	weightOnlyY
)

// weightOnlyLinear multiplies float activations with weights that are stored
// as codes, in groups along K that share a scale and a zero point.
//
// Workspace: x in the compute type, packed for the kernels.
var weightOnlyLinear = op{
	name: "weight_only_linear", category: Linear,
	doc: "A linear layer whose weights are codes, in groups along K.",
	formulas: []string{
		"y[m, n] = sum(x[m, k] * w[n, k]) + bias[n] over k, w = (weight - weight_zero_point) * weight_scale of the group of k",
	},
	sections: []int{7, 4},
	args: slices.Concat([]arg{
		{name: "x", shaped: true, allow: floats, form: "[M, K]", doc: "the activations"},
		{name: "weight", shaped: true, compact: always, allow: codes, form: "[N, K]", doc: "the codes of the weights"},
	}, weightParameterArgs("[N, ceil(K / group_size)]", learnedZero), []arg{
		{name: "bias", optional: true, allow: floats, defaultType: fixed(tensor.F32), form: "[N]", doc: "what is added"},
		{name: "y", out: true, allow: floats, defaultType: same("x"), form: "[M, N]", doc: "the result, in x's type"},
	}),
	attrs: []attr{{name: "group_size", doc: "codes along K that share a scale, at least 1"}},
	infer: func(p *Problem) error {
		_, w, err := inferLinear(p)
		if err != nil {
			return err
		}
		return all(inferWeightGroups(w), sameTypeAs("y", "x"))(p)
	},
	build: buildWeightOnlyLinear,
	rows:  namesOf(cpu.WeightOnlyLinear),
}

const learnedZero = "a float one is rounded and clamped to the codes' range"

// weightParameterArgs are what weights that are codes in groups have beside them.
func weightParameterArgs(form, zero string) []arg {
	return []arg{
		{name: "weight_scale", allow: floats, defaultType: fixed(tensor.F32), form: form, doc: "a scale for each group"},
		{name: "weight_zero_point", optional: true, allow: either(integers, floats), defaultType: fixed(tensor.None), form: form, doc: "a zero point for each group; " + zero},
	}
}

// inferWeightGroups sets the shapes of these for weights of a shape.
func inferWeightGroups(w []int64) func(p *Problem) error {
	return func(p *Problem) error {
		g := p.int("group_size")
		if g < 1 {
			return p.errorf("group_size", "is %d; want at least 1", g)
		}
		groups := []int64{w[0], ceilDiv(w[1], g)}
		p.setShape("weight_scale", groups)
		p.setShape("weight_zero_point", groups)
		return nil
	}
}

func buildWeightOnlyLinear(pl *plan) error {
	p := &pl.problem
	compute := p.DType("x").Compute()
	layer, err := selectRow(pl, cpu.WeightOnlyLinear, cpu.Types{
		Compute: compute,
		In:      cpu.InTypes{p.DType("x"), p.DType("weight"), p.DType("weight_scale"), p.DType("weight_zero_point")},
	})
	if err != nil {
		return err
	}
	l := &weightLinear{
		WeightLayer: layer, m: p.Shape("x")[0], k: p.Shape("x")[1], n: p.Shape("weight")[0],
		group: weightGroup(p), codes: p.DType("weight"),
	}
	if l.Numbers != nil {
		l.numbers = l.Numbers(l.m, l.k, l.group)
	}
	l.tiles = ceilDiv(l.m, l.Rows)
	l.columns = max(weightColumns, min(l.n, 4*jobSize/max(1, l.k))/weightColumns*weightColumns)
	if l.Pack != nil {
		pl.workspace = roundUp(l.Packed(l.m, l.k), WorkspaceAlignment)
	}
	pl.keepAlikeCalls()
	pack, tile := l.packRows, l.runTile
	pl.run = func(c *call) error {
		if l.Pack != nil {
			c.parallel(ceilDiv(l.m, rowsPerJob(l.k)), l.m*l.k, pack)
		}
		c.parallel(l.tiles*ceilDiv(l.n, l.columns), linearCost(l.m, l.k, l.n), tile)
		return nil
	}
	return nil
}

// weightColumns is what a job's columns of y are a multiple of.
const weightColumns = 4

// weightLinear is how one problem runs.
type weightLinear struct {
	cpu.WeightLayer
	m, k, n, group int64
	codes          tensor.DType
	numbers        []int32 // of groups
	tiles          int64   // of rows of x
	columns        int64   // of y that one job has
}

// tile describes all rows and columns.
func (l *weightLinear) tile(c *call, w *worker) *cpu.WeightTile {
	x, weight, scale := &c.args[weightOnlyX], &c.args[weightOnlyWeight], &c.args[weightOnlyScale]
	zero, bias, y := &c.args[weightOnlyZero], &c.args[weightOnlyBias], &c.args[weightOnlyY]
	t := &w.ownArgs().weights
	*t = cpu.WeightTile{
		X: rowsOf(x), WeightRows: weightRowsOf(weight, scale, zero, l.codes, l.group), Y: rowsOf(y), Bias: vectorOf(bias),
		M: l.m, M1: l.m, N1: l.n, K: l.k,
		Packed: unsafe.Pointer(unsafe.SliceData(c.workspace)), Numbers: l.numbers, Scratch: &w.scratch,
	}
	return t
}

// weightGroup returns how many codes of a row share a scale: all of them where a group is longer, by however much.
func weightGroup(p *Problem) int64 {
	return min(p.int("group_size"), max(1, p.Shape("weight")[1]))
}

// weightRowsOf describes rows of codes and their parameters; zero may be absent.
func weightRowsOf(weight, scale, zero *tensor.View, codes tensor.DType, group int64) cpu.WeightRows {
	w := cpu.WeightRows{Weight: rowsOf(weight), Scale: rowsOf(scale), GroupSize: group, Rows: weight.Shape[0]}
	w.Weight.DType = codes // packed ones came as bytes
	if zero.Present() {
		w.Zero = rowsOf(zero)
	}
	return w
}

// packRows copies some rows of x to the workspace.
func (l *weightLinear) packRows(c *call, w *worker, number int64) {
	t, rows := l.tile(c, w), rowsPerJob(l.k)
	t.M0 = number * rows
	t.M1 = min(t.M0+rows, l.m)
	l.Pack(t)
}

// runTile computes some columns of y for a tile of rows of x.
func (l *weightLinear) runTile(c *call, w *worker, number int64) {
	t := l.tile(c, w)
	t.M0, t.N0 = number%l.tiles*l.Rows, number/l.tiles*l.columns
	t.M1, t.N1 = min(t.M0+l.Rows, l.m), min(t.N0+l.columns, l.n)
	l.Run(t)
}
