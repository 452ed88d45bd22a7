package cuda

import (
	"fmt"
	"slices"
)

type affineArgs struct {
	stripe          stripeArgs
	n, positions    int64
	size            [3]int64
	theta, grid     tensorArg
	alignCorners, _ int32
}

// The places of affine_grid's arguments.
const (
	affineTheta = iota
	affineGrid
)

// The places of affine_grid_backward's.
const (
	affineGradGrid = iota
	affineGradTheta
)

// affineOf describes an affine_grid; grid is the place of the grid or of its gradient.
func affineOf(p *Problem, grid int) (a affineArgs, dims int) {
	g := p.Shapes[grid]
	dims = len(g) - 2
	a = affineArgs{n: g[0], positions: 1, size: [3]int64{1, 1, 1}, alignCorners: boolArg(p.Bool("align_corners"))}
	for axis := range dims {
		a.size[axis] = g[len(g)-2-axis]
		a.positions *= a.size[axis]
	}
	return a, dims
}

func buildAffineGrid(p *Problem, prog *Program) error {
	prog.Compute = p.Types[affineTheta].Compute()
	a, dims := affineOf(p, affineGrid)
	k := prog.kernel("affine_grid_%dd%s", dims, typeNames(p.Types[affineTheta]))
	prog.run = func(r *run) {
		if a.n*a.positions == 0 {
			return
		}
		a := a
		a.theta, a.grid = r.tensor(affineTheta), r.tensor(affineGrid)
		launch(r, k, threads(a.n*a.positions), &a)
	}
	return nil
}

// affineParts is how many blocks of threads share the lanes of affine_sums.
const affineParts = 4

func buildAffineGridBackward(p *Problem, prog *Program) error {
	prog.Compute = p.Types[affineGradGrid].Compute()
	prog.Accumulator = prog.Compute
	a, dims := affineOf(p, affineGradGrid)
	if most := slices.Max(a.size[:]); most > maxExtent {
		return fmt.Errorf("has an extent of %d; CUDA takes up to %d", most, maxExtent)
	}
	var partial int64
	a.stripe, partial = prog.stripeOf(a.n*int64(dims), a.positions, dims+1, prog.Compute)
	name := fmt.Sprintf("affine_grid_backward_%dd%s", dims, typeNames(p.Types[affineGradGrid]))
	k := prog.suffixed(name, laneKernels, true, a.stripe.blocks > 1, true)
	lanes := prog.columnsOf(&a.stripe, dims+1, prog.Compute)
	prog.run = func(r *run) {
		if a.n == 0 {
			return
		}
		a := a
		a.grid, a.theta = r.tensor(affineGradGrid), r.tensor(affineGradTheta)
		a.stripe.lanes = r.at(lanes)
		a.stripe.locate(r, partial)
		launch(r, k, blocks(a.n*a.stripe.blocks*affineParts, mostBlocks), &a)
		launchLanes(r, k+2, k+1, &a.stripe, &a)
	}
	return nil
}
