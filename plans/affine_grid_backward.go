package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// The places of affineGridBackward's arguments.
const (
	affineGradGrid = iota
	affineGradTheta
)

// affineGridBackward gives the gradient of theta: sums over the positions of
// an image in Stripe order.
//
// Workspace: the block results of every image's sums.
var affineGridBackward = op{
	name: "affine_grid_backward", category: Sampling,
	doc: "The gradient of theta.",
	formulas: []string{
		"grad_theta = sum(grad_grid * b) over positions, for each coordinate of grad_grid and each b of bx, by, (bz,) 1",
	},
	sections: []int{6, 4},
	args: []arg{
		{name: "grad_grid", shaped: true, compact: always, blocks: 1, allow: floats, form: "[N, H, W, 2] or [N, D, H, W, 3]", doc: "the gradient of grid"},
		{name: "grad_theta", out: true, allow: floats, defaultType: same("grad_grid"), form: "[N, 2, 3] or [N, 3, 4]", doc: "the gradient of theta, in grad_grid's type"},
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
		return cpu.ForCompute(pl.problem.DType("grad_grid"), buildAffineBackward[float32], buildAffineBackward[float64])(pl)
	},
	rows: namesOf(cpu.AffineGridBackward[float32]()),
}

func buildAffineBackward[C cpu.Compute](pl *plan) error {
	p := &pl.problem
	kernel, err := selectRow(pl, cpu.AffineGridBackward[C](), typesOf(p.DType("grad_grid")))
	if err != nil {
		return err
	}
	g := affineOf(p, "grad_grid")
	elements := int64(g.dims * (g.dims + 1))
	blocks := blocksOf(g.positions())
	sums := g.batch * elements
	pl.workspace = roundUp(sums*blocks*int64(unsafe.Sizeof(C(0))), WorkspaceAlignment)
	results := func(c *call) []C { return valuesIn[C](c.workspace, sums*blocks) }
	part := func(c *call, w *worker, number int64) {
		gradGrid := &c.args[affineGradGrid]
		kernel(g.run(w, gradGrid, number/blocks, number%blocks*cpu.StripeBlock, cpu.StripeBlock), results(c)[number*elements:][:elements])
	}
	join := func(c *call, w *worker, image int64) {
		of := results(c)[image*blocks*elements:][:blocks*elements]
		sum := cpu.BlockOf[C](&w.scratch, 0, int(elements))
		if blocks == 1 {
			sum = of
		}
		for e := 0; blocks != 1 && e < len(sum); e++ { // of no block zeros
			tree := cpu.TreeOf[C](&w.scratch, 0)
			for i := e; i < len(of); i += len(sum) {
				tree.Push(of[i])
			}
			sum[e] = tree.Sum()
		}
		gradTheta := &c.args[affineGradTheta]
		size, columns := gradTheta.DType.Size(), g.dims+1
		for row := range g.dims {
			at := image*gradTheta.Stride(0) + int64(row)*gradTheta.Stride(1)
			to := cpu.Span{P: unsafe.Add(gradTheta.Data, at*size), Stride: gradTheta.Stride(2) * size, DType: gradTheta.DType}
			cpu.Store(to, sum[row*columns:][:columns])
		}
	}
	pl.keepAlikeCalls()
	pl.run = func(c *call) error {
		c.parallel(g.batch*blocks, g.cost(), part)
		c.parallel(g.batch, 0, join)
		return nil
	}
	return nil
}
