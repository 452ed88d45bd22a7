package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var alignAttr = attr{
	name: "align_corners", kind: boolAttr, def: false,
	doc: "whether -1 and 1 are the centres of the outermost pixels, or their edges",
}

// The places of affineGrid's arguments.
const (
	affineTheta = iota
	affineOutput
)

// affineGrid spreads a grid over [-1, 1] and maps it by theta.
var affineGrid = op{
	name: "affine_grid", category: Sampling,
	doc: "A grid for grid_sample: evenly spread places, mapped by a matrix.",
	formulas: []string{
		"grid = (t0 * bx + t1 * by) + t2 for each row t of theta, bx = (2x + 1) / W - 1, or 2x / (W - 1) - 1 with align_corners, likewise by; of volumes ((t0 * bx + t1 * by) + t2 * bz) + t3",
	},
	sections: []int{6},
	args: []arg{
		{name: "theta", shaped: true, allow: floats, form: "[N, 2, 3] or [N, 3, 4]", doc: "a matrix for each image"},
		{name: "grid", out: true, shaped: true, allow: floats, form: "[N, H, W, 2] or [N, D, H, W, 3]", doc: "the places, in theta's type"},
	},
	attrs: []attr{alignAttr},
	infer: func(p *Problem) error {
		theta, err := inferAffine(p, "grid")
		if err != nil {
			return err
		}
		return all(hasShape("theta", theta), sameTypeAs("grid", "theta"))(p)
	},
	build: buildAffine,
	rows:  namesOf(cpu.AffineGrid),
}

// inferAffine checks a grid's shape and returns theta's.
func inferAffine(p *Problem, name string) ([]int64, error) {
	grid := p.Shape(name)
	dims := int64(len(grid) - 2)
	if (dims != 2 && dims != 3) || grid[dims+1] != dims {
		return nil, p.errorf(name, "has shape %s; want [N, H, W, 2] or [N, D, H, W, 3]", tensor.ShapeText(grid))
	}
	return []int64{grid[0], dims, dims + 1}, nil
}

// affinePart is how many positions of an image are a job.
const affinePart = 1 << 13

func buildAffine(pl *plan) error {
	p := &pl.problem
	kernel, err := selectRow(pl, cpu.AffineGrid, typesOf(p.DType("theta")))
	if err != nil {
		return err
	}
	g := affineOf(p, "grid")
	parts := ceilDiv(g.positions(), affinePart)
	part := func(c *call, w *worker, number int64) {
		theta, grid, image := &c.args[affineTheta], &c.args[affineOutput], number/parts
		size := theta.DType.Size()
		kernel(g.run(w, grid, image, number%parts*affinePart, affinePart), cpu.Rows{
			Span:      cpu.Span{P: unsafe.Add(theta.Data, image*theta.Stride(0)*size), Stride: theta.Stride(2) * size, DType: theta.DType},
			RowStride: theta.Stride(1) * size,
		})
	}
	pl.keepAlikeCalls()
	pl.run = func(c *call) error {
		c.parallel(parts*g.batch, g.cost(), part)
		return nil
	}
	return nil
}

// affine is the geometry of a plan.
type affine struct {
	dims         int
	batch        int64
	size         [3]int64 // extents along x, y, z
	alignCorners bool
}

func affineOf(p *Problem, name string) *affine {
	grid := p.Shape(name)
	g := &affine{dims: len(grid) - 2, batch: grid[0], size: [3]int64{1, 1, 1}, alignCorners: p.bool("align_corners")}
	for axis := range g.dims {
		g.size[axis] = grid[g.dims-axis]
	}
	return g
}

func (g *affine) positions() int64 { return g.size[0] * g.size[1] * g.size[2] }
func (g *affine) cost() int64      { return g.positions() * g.batch * 4 }

// run describes positions of an image from start on, as many as n if there are.
func (g *affine) run(w *worker, grid *tensor.View, image, start, n int64) *cpu.AffineRun {
	r := &w.ownArgs().affine
	size := grid.DType.Size()
	*r = cpu.AffineRun{
		Dims: g.dims, Size: g.size, AlignCorners: g.alignCorners, Start: start, Stop: min(start+n, g.positions()),
		Bases: &w.bases, Scratch: &w.scratch,
	}
	r.Grid = cpu.Rows{
		Span:      cpu.Span{P: unsafe.Add(grid.Data, image*grid.Stride(0)*size), DType: grid.DType},
		RowStride: grid.Stride(g.dims+1) * size,
	}
	for axis := range g.dims {
		r.Stride[axis] = grid.Stride(g.dims-axis) * size
	}
	return r
}
