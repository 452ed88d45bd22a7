package plans

import "github.com/isobit-ml/isobit/cpu"

// The places of gridSampleBackward's arguments.
const (
	backwardGradOutput = iota
	backwardInput
	backwardGrid
	backwardGradInput
	backwardGradGrid
)

// gridSampleBackward gives the gradients of the input (in Chunk order), of the
// grid (in Group order), or of both.
//
// Workspace: for the input's gradient, one cpu.GridScatter per thread.
var gridSampleBackward = op{
	name: "grid_sample_backward", category: Sampling,
	doc: "The gradients of input and grid; at least one of them is wanted.",
	formulas: []string{
		"grad_input[pixel] = sum(grad_output * w[tap]) over the taps that are this pixel",
		"grad_grid = sum(grad_output * slope of y along an axis) over channels, times W / 2, or (W - 1) / 2 with align_corners, likewise H and D; nearest: 0",
	},
	sections: []int{6, 4},
	args: []arg{
		{name: "grad_output", shaped: true, compact: readsUpstream, blocks: 2, allow: floats, form: "[N, C, H2, W2] or [N, C, D2, H2, W2]", doc: "the gradient of y, in input's type"},
		{name: "input", shaped: true, compact: readsMuchBackward, allow: floats, form: "[N, C, H, W] or [N, C, D, H, W]", doc: "the images or volumes"},
		{name: "grid", shaped: true, blocks: 1, allow: floats, form: "[N, H2, W2, 2] or [N, D2, H2, W2, 3]", doc: "the places; in input's type, or f32 beside 16 bits"},
		{name: "grad_input", out: true, optional: true, allow: floats, defaultType: same("input"), form: "input's", doc: "the gradient of input, in its type"},
		{name: "grad_grid", out: true, optional: true, allow: floats, defaultType: same("grid"), form: "grid's", doc: "the gradient of grid, in its type"},
	},
	attrs: samplerAttrs,
	infer: func(p *Problem) error {
		if _, err := inferUpstream(p); err != nil {
			return err
		}
		if !p.has("grad_input") && !p.has("grad_grid") {
			return p.errorf("grad_input", "is none, and so is %s; want at least one", named("grad_grid"))
		}
		p.setShape("grad_input", p.Shape("input"))
		p.setShape("grad_grid", p.Shape("grid"))
		return all(sameTypeAs("grad_output", "input"), sameTypeAs("grad_input", "input"), sameTypeAs("grad_grid", "grid"))(p)
	},
	build: buildGridSampleBackward,
	rows:  namesOf(cpu.GridSampleBackwardGrid),
}

// gridGradients is how one problem runs.
type gridGradients struct {
	*sampler
	ofInput, ofGrid bool // which gradients are wanted
	cost            int64
	slopes          job // the grid's gradient, of a tile of positions
	scatter         scatterJobs
	framed          cpu.GridFramed
	small           job  // the grid's gradient, of a small image
	together        bool // ... and the input's
	few             job  // both, of images with few positions
}

func buildGridSampleBackward(pl *plan) error {
	p := &pl.problem
	s, t := samplerOf(p), gridTypes(p)
	g := gridGradients{sampler: s, ofInput: p.has("grad_input"), ofGrid: p.has("grad_grid"), cost: s.cost(6)}
	var err error
	if g.framed, err = selectRow(pl, cpu.GridFrames, t); err != nil {
		return err
	}
	kernel, err := selectRow(pl, cpu.GridSampleBackwardGrid, t)
	if err != nil {
		return err
	}
	g.slopes = slopesJob(kernel)
	if g.scatter, err = scatterInput(pl, s, t, cpu.GridScatter32, cpu.GridScatter64); err != nil {
		return err
	}
	// Both gradients of small images are made together, but of many channels by themselves.
	g.together = g.ofGrid && g.ofInput && s.channels <= cpu.MostFramedSums
	g.small = gradientsFramed(g.framed, g.together, g.scatter.job, g.scatter.perImage)
	g.few = func(c *call, w *worker, number int64) {
		g.slopes(c, w, number)
		g.scatter.few(c, w, number)
	}
	pl.keepAlikeCalls()
	pl.run = g.run
	return nil
}

// slopesJob makes the job of the grid's gradient.
func slopesJob(kernel func(*cpu.GridBlock)) job {
	return func(c *call, w *worker, number int64) {
		s := &c.sampler
		s.eachBlock(w, number, &c.args[backwardGrid], func(b *gridBlock) {
			b.GradOutput, b.Input = s.rows(&c.args[backwardGradOutput], b), s.image(&c.args[backwardInput], b)
			b.Output = s.gridRows(&c.args[backwardGradGrid], b)
			s.join(b, &c.args[backwardInput], &c.args[backwardGradOutput], &c.args[backwardGradGrid])
		}, func(b *gridBlock) { kernel(&b.GridBlock) })
	}
}

func (g *gridGradients) run(c *call) error {
	dims, threads := c.joins(backwardGradOutput, backwardGrid, backwardGradGrid), c.threads
	scattering := min(threads, g.scatter.threads)
	switch {
	case !g.ofGrid:
	case g.Mode == cpu.Nearest:
		c.clearOutput(&c.args[backwardGradGrid])
	case g.runGrid(c, dims, scattering):
		return nil
	}
	if !g.ofInput {
		return nil
	}
	c.sampler, c.threads = *g.sampler, scattering
	c.sampler.scanOrder(dims)
	g.scatter.run(c, g.cost)
	return nil
}

// runGrid computes the grid's gradient, and reports whether it computed the input's, too, for
// which there is workspace for so many threads.
func (g *gridGradients) runGrid(c *call, dims, scattering int) (both bool) {
	s, threads := &c.sampler, c.threads
	*s = *g.sampler
	s.order(dims, threads)
	if g.together {
		c.threads = scattering
	}
	byRows := c.readsRows(backwardInput, cpu.SlopesRows)
	switch {
	case !byRows && g.ofInput && g.channels <= joinedChannels && g.scatter.areFew(c, g.cost):
		s.fewTiles(c, backwardInput, g.cost)
		c.parallel(s.tiles(), g.cost, g.few)
		return true
	case !byRows && c.framed(g.framed, s, g.cost, cpu.GridGradients{Grid: true, Input: g.together}, backwardGradOutput):
		c.parallel(g.batch, g.cost, g.small)
		return g.together
	case g.scatter.both != nil && g.positions() >= cpu.Block:
		*s, c.threads = *g.sampler, scattering
		s.scanOrder(dims)
		c.parallel(g.batch, g.cost, g.scatter.both)
		return true
	}
	c.threads = threads
	if !byRows && g.Mode == cpu.Bilinear && g.channels <= joinedChannels {
		s.joinImages(c, backwardInput, backwardGrid, g.cost)
	}
	c.parallel(s.tiles(), g.cost, g.slopes)
	return false
}

// inferUpstream is inferSampler with grad_output, which has the output's shape.
func inferUpstream(p *Problem) (output []int64, err error) {
	if output, err = inferSampler(p); err != nil {
		return nil, err
	}
	return output, hasShape("grad_output", output)(p)
}

// readsUpstream reports whether the upstream gradient is read: nearest has none for the grid.
func readsUpstream(c *call) bool {
	return c.args[backwardGradInput].Present() || samplerMode(&c.problem) != cpu.Nearest
}

// readsMuchBackward is readsMuch: only the grid's gradient reads the input.
func readsMuchBackward(c *call) bool {
	return c.args[backwardGradGrid].Present() && samplerMode(&c.problem) != cpu.Nearest && !c.readsRows(backwardInput, cpu.SlopesRows) && c.readsMost(backwardInput, backwardGradOutput)
}
