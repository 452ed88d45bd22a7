package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// affineGridBackward gives the gradient of theta: sums over the positions of
// an image in Stripe order.
//
// Workspace: the block results of every sum.
var affineGridBackward = op{
	name: "affine_grid_backward", category: Sampling,
	args: []arg{
		{name: "grad_grid", shaped: true, allow: floats},
		{name: "grad_theta", out: true, allow: floats, defaultType: same("grad_grid")},
	},
	attrs: []attr{alignAttr},
	infer: func(p *Problem) error {
		theta, err := inferAffine(p, "grad_grid")
		if err != nil {
			return err
		}
		p.setShape("grad_theta", theta)
		return sameTypeAs("grad_theta", "grad_grid")(p)
	},
	build: func(pl *plan) error {
		if pl.problem.DType("grad_grid") == tensor.F64 {
			return buildAffineBackward(pl, cpu.AffineGridBackward64)
		}
		return buildAffineBackward(pl, cpu.AffineGridBackward32)
	},
	rows: namesOf(cpu.AffineGridBackward32),
}

func buildAffineBackward[C cpu.Compute](pl *plan, table []cpu.Row[func(*cpu.AffineSum) C]) error {
	p := &pl.problem
	kernel, err := selectRow(pl, table, cpu.Types{Compute: cpu.ComputeType(p.DType("grad_grid"))})
	if err != nil {
		return err
	}
	s := affineOf(p, "grad_grid")
	columns := int64(s.Dims + 1)
	elements := int64(s.Dims) * columns
	blocks := blocksOf(s.positions())
	sums := s.batch * elements
	pl.workspace = sums * blocks * int64(unsafe.Sizeof(C(0)))
	results := func(c *call) []C {
		return unsafe.Slice((*C)(unsafe.Pointer(unsafe.SliceData(c.workspace))), sums*blocks)
	}
	part := func(c *call, w *worker, number int64) {
		sum, block := number/blocks, number%blocks
		grid, a := &c.args[0], &w.ownArgs().affine
		b := &w.ownArgs().grid
		b.image, b.at = sum/elements, [3]int64{}
		*a = cpu.AffineSum{Row: int(sum % elements / columns), Column: int(sum % columns), Start: block * cpu.StripeBlock}
		a.AffineBlock = cpu.AffineBlock{Dims: s.Dims, Size: s.out, AlignCorners: s.AlignCorners, Grid: s.gridRows(grid, b), Scratch: &w.scratch}
		a.Stop = min(a.Start+cpu.StripeBlock, s.positions())
		for axis := range s.Dims {
			a.GridStride[axis] = grid.Stride(s.Dims-axis) * grid.DType.Size()
		}
		results(c)[number] = kernel(a)
	}
	join := func(c *call, w *worker, sum int64) {
		tree := cpu.TreeOf[C](&w.scratch, 0)
		for _, r := range results(c)[sum*blocks:][:blocks] {
			tree.Push(r)
		}
		v := cpu.BlockOf[C](&w.scratch, 0, 1)
		v[0] = tree.Sum()
		theta := &c.args[1]
		cpu.Store(cpu.Span{P: unsafe.Add(theta.Data, elementOffset(theta, sum)*theta.DType.Size()), DType: theta.DType}, v)
	}
	pl.run = func(c *call) error {
		c.parallel(sums*blocks, sums*s.positions(), part)
		c.parallel(sums, 0, join)
		return nil
	}
	return nil
}
