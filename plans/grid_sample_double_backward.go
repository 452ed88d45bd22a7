package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of gridSampleDoubleBackward's arguments; the first three are as in
// gridSampleBackward.
const (
	doubleGradGradInput = backwardGrid + 1 + iota
	doubleGradGradGrid
	doubleGradGradOutput
	doubleGradInput
	doubleGradGrid
)

// gridSampleDoubleBackward gives the gradients of gridSampleBackward's inputs,
// of grad_input, grad_grid or both: those of its results.
//
// Workspace: as gridSampleBackward's.
var gridSampleDoubleBackward = op{
	name: "grid_sample_double_backward", category: Sampling,
	doc: "The gradients of grid_sample_backward's inputs, given those of its results; at least one output is wanted.",
	formulas: []string{
		"grad_grad_output = dL/d(grad_output), L = sum(d_input * grad_grad_input) + sum(d_grid * grad_grad_grid), d_input and d_grid being grid_sample_backward's results",
		"grad_input = dL/d(input)",
		"grad_grid = dL/d(grid)",
	},
	sections: []int{6, 4},
	args: []arg{
		{name: "grad_output", shaped: true, compact: always, blocks: 2, allow: floats, form: "[N, C, H2, W2] or [N, C, D2, H2, W2]", doc: "the gradient of y, in input's type"},
		{name: "input", shaped: true, compact: readsMuchTwice, allow: floats, form: "[N, C, H, W] or [N, C, D, H, W]", doc: "the images or volumes"},
		{name: "grid", shaped: true, blocks: 1, allow: floats, form: "[N, H2, W2, 2] or [N, D2, H2, W2, 3]", doc: "the places; in input's type, or f32 beside 16 bits"},
		{name: "grad_grad_input", optional: true, compact: readsMuchTwice, allow: floats, defaultType: same("input"), form: "input's", doc: "the gradient of grid_sample_backward's grad_input; this or the next is wanted"},
		{name: "grad_grad_grid", optional: true, allow: floats, defaultType: same("grid"), form: "grid's", doc: "the gradient of its grad_grid"},
		{name: "grad_grad_output", out: true, optional: true, allow: floats, defaultType: same("grad_output"), form: "grad_output's", doc: "the gradient of grad_output"},
		{name: "grad_input", out: true, optional: true, allow: floats, defaultType: same("input"), form: "input's", doc: "the gradient of input"},
		{name: "grad_grid", out: true, optional: true, allow: floats, defaultType: same("grid"), form: "grid's", doc: "the gradient of grid"},
	},
	attrs: samplerAttrs,
	infer: inferGridSampleDoubleBackward,
	build: buildGridSampleDoubleBackward,
	rows:  namesOf(cpu.GridSampleDouble),
}

func inferGridSampleDoubleBackward(p *Problem) error {
	output, err := inferUpstream(p)
	if err != nil {
		return err
	}
	switch {
	case !p.has("grad_grad_input") && !p.has("grad_grad_grid"):
		return p.errorf("grad_grad_input", "is none, and so is %s; want at least one", named("grad_grad_grid"))
	case !p.has("grad_grad_output") && !p.has("grad_input") && !p.has("grad_grid"):
		return p.errorf("grad_grad_output", "is none, and so are %s and %s; want at least one", named("grad_input"), named("grad_grid"))
	}
	p.setShape("grad_grad_output", output)
	for _, name := range []string{"grad_grad_input", "grad_input"} {
		p.setShape(name, p.Shape("input"))
	}
	for _, name := range []string{"grad_grad_grid", "grad_grid"} {
		p.setShape(name, p.Shape("grid"))
	}
	return all(
		sameTypeAs("grad_output", "input"), sameTypeAs("grad_grad_input", "input"), sameTypeAs("grad_grad_grid", "grid"),
		sameTypeAs("grad_grad_output", "input"), sameTypeAs("grad_input", "input"), sameTypeAs("grad_grid", "grid"),
	)(p)
}

func buildGridSampleDoubleBackward(pl *plan) error {
	p := &pl.problem
	s, t := samplerOf(p), gridTypes(p)
	kernel, err := selectRow(pl, cpu.GridSampleDouble, t)
	if err != nil {
		return err
	}
	// Every sum and every weight is computed about twice as often as in the backward.
	g := gridSecondGradients{sampler: s, ofRest: p.has("grad_grad_output") || p.has("grad_grid"), ofInput: p.has("grad_input"), cost: s.cost(40)}
	g.rest = func(c *call, w *worker, number int64) {
		s := &c.sampler
		s.eachBlock(w, number, &c.args[backwardGrid],
			func(b *gridBlock) { s.second(c, b) }, func(b *gridBlock) { kernel(&b.GridBlock) })
	}
	g.scatter, err = scatterInput(pl, s, t, cpu.GridDoubleScatter32, cpu.GridDoubleScatter64)
	pl.run = g.run
	return err
}

// gridSecondGradients is how one problem runs.
type gridSecondGradients struct {
	*sampler
	ofRest, ofInput bool // which gradients are wanted: of grad_output or the grid, of the input
	cost            int64
	rest            job // the gradients of grad_output and the grid, of a tile of positions
	scatter         scatterJobs
}

func (g *gridSecondGradients) run(c *call) error {
	dims, threads := c.joins(backwardGradOutput, backwardGrid, doubleGradGradGrid, doubleGradGradOutput, doubleGradGrid), c.threads
	if g.ofRest {
		c.sampler = *g.sampler
		c.sampler.order(dims, threads)
		c.parallel(c.sampler.tiles(), g.cost, g.rest)
	}
	if g.ofInput {
		c.sampler = *g.sampler
		c.sampler.scanOrder(dims)
		c.threads = min(threads, g.scatter.threads)
		c.parallel(g.scatter.perImage*g.batch, g.cost, g.scatter.job)
	}
	return nil
}

// readsMuchTwice is readsMuch: the input's gradient reads neither the input nor its tangent.
func readsMuchTwice(c *call) bool {
	reads := c.args[doubleGradGradOutput].Present() || c.args[doubleGradGrid].Present()
	return reads && c.readsMost(backwardInput, backwardGradOutput)
}

// second completes a block with what the problem has of its arguments.
func (s *sampler) second(c *call, b *gridBlock) {
	b.GradOutput, b.Input = s.rows(&c.args[backwardGradOutput], b), s.image(&c.args[backwardInput], b)
	if v := &c.args[doubleGradGradInput]; v.Present() {
		b.Second.Input = s.image(v, b)
	}
	s.shifts(b, &c.args[doubleGradGradGrid])
	if v := &c.args[doubleGradGradOutput]; v.Present() {
		b.Second.Output = s.rows(v, b)
	}
	if v := &c.args[doubleGradGrid]; v.Present() {
		b.Output = s.gridRows(v, b)
	}
}

// shifts gives a block the grid's tangent at its positions.
func (s *sampler) shifts(b *gridBlock, v *tensor.View) {
	if !v.Present() {
		return
	}
	rows := s.gridRows(v, b)
	for axis := range s.Dims {
		b.Second.Coords[axis] = rows.Row(int64(axis), 0)
	}
}
