package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// gridSampleBackward gives the gradients of the input (in Chunk order), of the
// grid (in Group order), or of both.
//
// Workspace: for the input's gradient, one cpu.GridScatter per thread.
var gridSampleBackward = op{
	name: "grid_sample_backward", category: Sampling,
	args: []arg{
		{name: "grad_output", shaped: true, allow: floats},
		{name: "input", shaped: true, allow: floats},
		{name: "grid", shaped: true, allow: floats},
		{name: "grad_input", out: true, optional: true, allow: floats, defaultType: same("input")},
		{name: "grad_grid", out: true, optional: true, allow: floats, defaultType: same("grid")},
	},
	attrs: samplerAttrs,
	infer: func(p *Problem) error {
		output, err := inferSampler(p)
		if err != nil {
			return err
		}
		if dy := p.Shape("grad_output"); tensor.ShapeString(dy) != tensor.ShapeString(output) {
			return p.errorf("grad_output", "has shape %s; want %s", tensor.ShapeString(dy), tensor.ShapeString(output))
		}
		if !p.has("grad_input") && !p.has("grad_grid") {
			return p.errorf("grad_input", "is none, and so is grad_grid; want at least one")
		}
		p.setShape("grad_input", p.Shape("input"))
		p.setShape("grad_grid", p.Shape("grid"))
		return all(sameTypeAs("grad_output", "input"), sameTypeAs("grad_input", "input"), sameTypeAs("grad_grid", "grid"))(p)
	},
	build: func(pl *plan) error {
		p := &pl.problem
		t := gridTypes(p)
		kernel, err := selectRow(pl, cpu.GridSampleBackwardGrid, t)
		if err != nil {
			return err
		}
		s := samplerOf(p)
		var dinput func(c *call)
		if p.has("grad_input") {
			if t.Compute == tensor.F64 {
				dinput = scatterImages[float64](pl, s)
			} else {
				dinput = scatterImages[float32](pl, s)
			}
		}
		job := func(c *call, w *worker, number int64) {
			b := s.block(c, w, number, &c.args[2])
			b.GradOutput, b.Input, b.Output = s.rows(&c.args[0], b), s.image(&c.args[1], b), s.gridRows(&c.args[4], b)
			kernel(&b.GridBlock)
		}
		pl.run = func(c *call) error {
			if p.has("grad_grid") {
				c.parallel(s.blocks(), s.positions()*s.batch*s.channels*8, job)
			}
			if dinput != nil {
				dinput(c)
			}
			return nil
		}
		return nil
	},
	rows: namesOf(cpu.GridSampleBackwardGrid),
}

// scatterImages makes the part of a run that computes the input's gradient.
// One job is some channels of one image.
func scatterImages[C cpu.Compute](pl *plan, s *sampler) func(c *call) {
	threads := int64(pl.pref.Threads)
	if threads == 0 {
		threads = int64(GetNumThreads())
	}
	perJob := min(max(s.batch*s.channels/(4*threads), 1), s.channels, cpu.MaxScatterChannels)
	if perJob == 0 {
		return func(*call) {}
	}
	groups := (s.channels + perJob - 1) / perJob
	threads = min(threads, groups*s.batch)
	taps := int64(1)
	if s.Mode == cpu.Bilinear {
		taps = 1 << s.Dims
	}
	contributions := s.positions() * taps
	each := cpu.GridScatterBytes(s.pixels(), contributions, perJob, int64(unsafe.Sizeof(C(0))))
	pl.workspace = each * threads
	job := func(c *call, w *worker, number int64) {
		image, first := number/groups, number%groups*perJob
		var planes [cpu.MaxScatterChannels][]C
		channels := min(perJob, s.channels-first)
		scatter := cpu.NewGridScatter(&s.Sampler, c.workspace[int64(w.number)*each:][:each], contributions, planes[:channels])
		for i := range s.blocksPerImage() {
			b := s.block(c, w, image*s.blocksPerImage()+i, &c.args[2])
			b.GradOutput = s.rows(&c.args[0], b)
			b.GradOutput.P = b.GradOutput.Row(first, 0).P
			scatter.Add(&b.GridBlock)
		}
		scatter.Finish(&w.scratch)
		b := &w.grid
		b.image = image
		out := s.image(&c.args[3], b)
		for k := range channels {
			plane := out
			plane.P = out.Channel(first + k)
			scatter.StorePlane(int(k), plane)
		}
	}
	return func(c *call) {
		c.threads = min(c.threads, int(threads))
		c.parallel(groups*s.batch, s.positions()*s.batch*s.channels*8, job)
	}
}
