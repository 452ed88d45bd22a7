package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var alignAttr = attr{name: "align_corners", kind: boolAttr, def: false}

// affineGrid spreads a grid over [-1, 1] and maps it by theta.
var affineGrid = op{
	name: "affine_grid", category: Sampling,
	args: []arg{
		{name: "theta", shaped: true, allow: floats},
		{name: "grid", out: true, shaped: true, allow: floats},
	},
	attrs: []attr{alignAttr},
	infer: func(p *Problem) error {
		theta, err := inferAffine(p, "grid")
		if err != nil {
			return err
		}
		return all(hasShape("theta", theta), sameTypeAs("grid", "theta"))(p)
	},
	build: func(pl *plan) error {
		p := &pl.problem
		kernel, err := selectRow(pl, cpu.AffineGrid, cpu.Types{Compute: cpu.ComputeType(p.DType("theta"))})
		if err != nil {
			return err
		}
		s := affineOf(p, "grid")
		s.order(false, GetNumThreads())
		job := func(c *call, w *worker, number int64) {
			theta, grid := &c.args[0], &c.args[1]
			size := theta.DType.Size()
			s.eachBlock(number, func(image, column, row int64) {
				b := s.block(w, image, column, row, grid)
				a := &w.ownArgs().affine.AffineBlock
				*a = cpu.AffineBlock{
					Dims: s.Dims, Size: s.out, AlignCorners: s.AlignCorners, N: b.N, At: b.at,
					Grid: s.gridRows(grid, b), Scratch: &w.scratch,
				}
				kernel(a, cpu.Rows{
					Span:      cpu.Span{P: unsafe.Add(theta.Data, image*theta.Stride(0)*size), Stride: theta.Stride(2) * size, DType: theta.DType},
					RowStride: theta.Stride(1) * size,
				})
			})
		}
		pl.run = func(c *call) error {
			c.parallel(s.tiles(), s.positions()*s.batch*4, job)
			return nil
		}
		return nil
	},
	rows: namesOf(cpu.AffineGrid),
}

// inferAffine checks a grid's shape and returns theta's.
func inferAffine(p *Problem, name string) ([]int64, error) {
	grid := p.Shape(name)
	dims := int64(len(grid) - 2)
	if (dims != 2 && dims != 3) || grid[dims+1] != dims {
		return nil, p.errorf(name, "has shape %s; want [N, H, W, 2] or [N, D, H, W, 3]", tensor.ShapeString(grid))
	}
	return []int64{grid[0], dims, dims + 1}, nil
}

// affineOf describes the output of an affine_grid as that of a sampler.
func affineOf(p *Problem, name string) *sampler {
	grid := p.Shape(name)
	s := &sampler{batch: grid[0], out: [3]int64{1, 1, 1}}
	s.Dims = len(grid) - 2
	for axis := range s.Dims {
		s.out[axis] = grid[len(grid)-2-axis]
	}
	s.AlignCorners = p.bool("align_corners")
	return s
}
