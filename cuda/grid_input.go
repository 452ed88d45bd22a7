package cuda

import (
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

type inputGradientArgs struct {
	scatter   scatterArgs
	sampler   samplerArgs
	out       imageArg
	keys      uint64
	positions int64
}

type inputDoubleArgs struct {
	inputGradientArgs
	tangent gridArg
}

// inputGradient is a gradient of grid_sample's input, from grad_output, input
// and grid. With second it is that of the second order, from the grid's tangent, if
// there is one.
type inputGradient struct {
	out, tangent int // places of arguments
	second       bool
	grid         gridStep // what comes first
}

// scattered is what a scatter to pixels sorts, and by what.
type scattered struct {
	what          string // sources are: positions, or every tap of each
	sources       int64
	cells, pixels int64
	taps          int64  // of a source
	job           string // among the kernels
}

func scatteredOf(s *samplerArgs, dims int, positions int64) scattered {
	in := scattered{what: "output positions", sources: positions, cells: s.images, pixels: s.images, taps: 1 << dims, job: s.geometry(dims)}
	for axis := range dims {
		in.pixels *= s.size[axis]
		in.cells *= s.size[axis] + 1
	}
	switch s.mode {
	case modeNearest:
		in.cells, in.taps, in.job = in.pixels, 1, "nearest_"+in.job
	case modeBicubic:
		in.cells, in.taps = in.pixels, 1
		in.what, in.sources = "taps of output positions", positions<<(2*dims)
	}
	return in
}

// build adds the scatter.
func (g inputGradient) build(p *Problem, prog *Program) error {
	s, dims, err := samplerOf(p, backwardInput, backwardGrid)
	if err != nil {
		return err
	}
	positions := s.positions()
	// Without terms every sum is +0: a scatter of no positions.
	if g.second && (s.mode == modeNearest || p.Types[g.tangent] == tensor.None) {
		positions, g.second, s.mode = 0, false, modeNearest
	}
	if dims == 2 && s.mode != modeBicubic {
		return g.buildTiles(p, prog, s, positions/max(1, s.images))
	}
	a, in := inputGradientArgs{sampler: s, positions: positions}, scatteredOf(&s, dims, positions)
	if in.sources > limit32 || in.cells > limit32 {
		return fmt.Errorf("has %d %s and %d pixels; CUDA takes up to %d", in.sources, in.what, in.cells, int64(limit32))
	}
	order := "gradient"
	if g.second {
		order = "double"
	}
	keys := prog.kernel("input_keys_%s%s", s.geometry(dims), typeNames(prog.Compute))
	sc := prog.scatterOf(in.sources, in.cells, in.pixels, s.channels, in.taps, fmt.Sprintf("input_%s_%s%s", order, in.job, typeNames(p.Types[backwardInput])))
	if !g.second && s.mode != modeBicubic {
		sc.width = pixelWidth
	}
	prog.then(func(r *run) {
		g.grid.run(r, linkArgs{})
		if in.pixels == 0 || s.channels == 0 {
			return
		}
		a := a
		a.sampler.bind(r, backwardInput, backwardGrid, backwardGradOutput)
		a.out, a.scatter, a.keys = imageOf(&r.args[g.out]), sc.args(r), sc.keysAt(r)
		if positions > 0 {
			launch(r, keys, threads(a.positions), &a)
		}
		sc.sort(r)
		if g.second {
			launchScatter(r, sc, &inputDoubleArgs{a, gridOf(&r.args[g.tangent])})
			return
		}
		launchScatter(r, sc, &a)
	})
	return nil
}

// inputKernels lists what a gradient of grid_sample's input, "gradient" or
// "double", and zeros in its place take.
func inputKernels(kind string) []string {
	names := append(forTypes("input_tiles_gradient", floats), "input_tiles_place")
	if kind != "gradient" {
		names = append(names, forTypes("input_tiles_"+kind, floats)...)
	}
	for _, order := range []string{"gradient", kind} {
		names = append(names, forTypes("input_links_"+order, floats[:2])...)
		for _, channels := range []string{"3", "4", "8"} {
			names = append(names, forTypes("input_gather"+channels+"_"+order, floats)...)
		}
	}
	names = append(names, forTypes("input_gather_nearest", floats)...)
	var jobs []string
	for _, job := range []string{"gradient_nearest_3d", kind + "_3d", kind + "_bicubic_2d", kind + "_bicubic_3d"} {
		jobs = append(jobs, forTypes("input_"+job, floats)...)
	}
	for _, keys := range []string{"tiles_count", "tiles_fill", "keys_3d", "keys_bicubic_2d", "keys_bicubic_3d"} {
		names = append(names, forTypes("input_"+keys, floats[:2])...)
	}
	return append(names, sortKernels(jobs)...)
}
