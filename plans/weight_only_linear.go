package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// weightOnlyLinear multiplies float activations with weights that are stored
// as codes, in groups along K that share a scale and a zero point.
//
// Workspace: x in f32, where it is of a smaller type.
var weightOnlyLinear = op{
	name: "weight_only_linear", category: Linear,
	args: []arg{
		{name: "x", shaped: true, allow: floats},
		{name: "weight", shaped: true, allow: codes},
		{name: "weight_scale", allow: floats, defaultType: fixed(tensor.F32)},
		{name: "weight_zero_point", optional: true, allow: either(integers, floats), defaultType: fixed(tensor.None)},
		{name: "bias", optional: true, allow: floats, defaultType: fixed(tensor.F32)},
		{name: "y", out: true, allow: floats, defaultType: same("x")},
	},
	attrs: []attr{{name: "group_size"}},
	infer: func(p *Problem) error {
		x, w, g := p.Shape("x"), p.Shape("weight"), p.int("group_size")
		switch {
		case len(x) != 2:
			return p.errorf("x", "has shape %s; want [M, K]", tensor.ShapeString(x))
		case len(w) != 2 || w[1] != x[1]:
			return p.errorf("weight", "has shape %s; want [N, %d]", tensor.ShapeString(w), x[1])
		case g < 1:
			return p.errorf("group_size", "is %d; want at least 1", g)
		}
		groups := []int64{w[0], ceilDiv(w[1], g)}
		p.setShape("weight_scale", groups)
		p.setShape("weight_zero_point", groups)
		p.setShape("bias", w[:1])
		p.setShape("y", []int64{x[0], w[0]})
		return sameTypeAs("y", "x")(p)
	},
	build: func(pl *plan) error {
		p := &pl.problem
		compute := cpu.ComputeType(p.DType("x"))
		kernel, err := selectRow(pl, cpu.WeightOnlyLinear, cpu.Types{
			Compute: compute,
			In:      [4]tensor.DType{compute, p.DType("weight"), p.DType("weight_scale"), p.DType("weight_zero_point")},
		})
		if err != nil {
			return err
		}
		m, k, n := p.Shape("x")[0], p.Shape("x")[1], p.Shape("weight")[0]
		weight := p.DType("weight")
		group := p.int("group_size")
		widened := p.DType("x") != compute
		if widened {
			pl.workspace = roundUp(m*k*compute.Size(), 8)
		}
		wide := func(c *call) cpu.Rows {
			row := k * compute.Size()
			return cpu.Rows{Span: cpu.Span{P: unsafe.Pointer(unsafe.SliceData(c.workspace)), Stride: compute.Size(), DType: compute}, RowStride: row}
		}
		widen := func(c *call, _ *worker, row int64) {
			cpu.Load(unsafe.Slice((*float32)(wide(c).Row(row, 0).P), k), rowsOf(&c.args[0]).Row(row, 0))
		}
		tiles := (m + cpu.WeightTileRows - 1) / cpu.WeightTileRows
		columns := max(1, min(n, jobSize*4/max(1, k)))
		job := func(c *call, w *worker, number int64) {
			t := &w.weights
			*t = cpu.WeightTile{
				X: rowsOf(&c.args[0]), Weight: rowsOf(&c.args[1]), Scale: rowsOf(&c.args[2]), Y: rowsOf(&c.args[5]),
				Bias: vectorOf(&c.args[4]), K: k, GroupSize: group, Scratch: &w.scratch,
				M0: number % tiles * cpu.WeightTileRows, N0: number / tiles * columns,
			}
			if widened {
				t.X = wide(c)
			}
			t.Weight.DType = weight
			if c.args[3].Present() {
				t.Zero = rowsOf(&c.args[3])
			}
			t.M1, t.N1 = min(t.M0+cpu.WeightTileRows, m), min(t.N0+columns, n)
			kernel(t)
		}
		pl.run = func(c *call) error {
			if widened {
				c.parallel(m, m*k, widen)
			}
			c.parallel(tiles*((n+columns-1)/columns), m*n*max(1, k/8), job)
			return nil
		}
		return nil
	},
	rows: namesOf(cpu.WeightOnlyLinear),
}
