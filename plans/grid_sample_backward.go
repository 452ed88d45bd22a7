package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

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
		{name: "grad_output", shaped: true, compact: readsUpstream, allow: floats, form: "[N, C, H2, W2] or [N, C, D2, H2, W2]", doc: "the gradient of y, in input's type"},
		{name: "input", shaped: true, compact: readsMuchBackward, allow: floats, form: "[N, C, H, W] or [N, C, D, H, W]", doc: "the images or volumes"},
		{name: "grid", shaped: true, allow: floats, form: "[N, H2, W2, 2] or [N, D2, H2, W2, 3]", doc: "the places; in input's type, or f32 beside 16 bits"},
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
	build: func(pl *plan) error {
		p := &pl.problem
		t := gridTypes(p)
		framed, err := selectRow(pl, cpu.GridFrames, t)
		if err != nil {
			return err
		}
		kernel, err := selectRow(pl, cpu.GridSampleBackwardGrid, t)
		if err != nil {
			return err
		}
		s := samplerOf(p)
		scatter, err := scatterInput(pl, s, t, cpu.GridScatter32, cpu.GridScatter64)
		if err != nil {
			return err
		}
		job := func(c *call, w *worker, number int64) {
			s := &c.sampler
			s.eachBlock(w, number, &c.args[backwardGrid], func(b *gridBlock) {
				b.GradOutput, b.Input = s.rows(&c.args[backwardGradOutput], b), s.image(&c.args[backwardInput], b)
				b.Output = s.gridRows(&c.args[backwardGradGrid], b)
				s.join(b, &c.args[backwardInput], &c.args[backwardGradOutput], &c.args[backwardGradGrid])
			}, func(b *gridBlock) { kernel(&b.GridBlock) })
		}
		// In small images both gradients are made together, but those of more channels by themselves.
		together := p.has("grad_grid") && p.has("grad_input") && s.channels <= cpu.MostFramedSums
		small := gradientsFramed(framed, together, scatter.job, scatter.perImage)
		cost := s.cost(6)
		pl.keepsFew()
		pl.run = func(c *call) error {
			c.sampler = *s
			dims, threads := c.joins(backwardGradOutput, backwardGrid, backwardGradGrid), c.threads
			scattering := min(threads, scatter.threads)
			c.sampler.order(dims, threads)
			if together {
				c.threads = scattering
			}
			byRows := p.has("grad_grid") && c.readsRows(backwardInput, cpu.SlopesRows)
			switch {
			case !p.has("grad_grid"):
			case !byRows && c.framed(framed, &c.sampler, cost, true, together, backwardGradOutput):
				c.parallel(s.batch, cost, small)
				if together {
					return nil
				}
			case scatter.both != nil && s.positions() >= cpu.Block:
				c.sampler, c.threads = *s, scattering
				c.sampler.scanOrder(dims)
				c.parallel(s.batch, cost, scatter.both)
				return nil
			default:
				c.threads = threads
				if !byRows && s.Mode == cpu.Bilinear && s.channels <= joinedChannels {
					c.sampler.joinImages(c, backwardInput, backwardGrid, cost)
				}
				c.parallel(c.sampler.tiles(), cost, job)
			}
			if p.has("grad_input") {
				c.sampler, c.threads = *s, scattering
				c.sampler.scanOrder(dims)
				scatter.run(c, cost)
			}
			return nil
		}
		return nil
	},
	rows: namesOf(cpu.GridSampleBackwardGrid),
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

// scatterJobs are the jobs that compute the input's gradient.
type scatterJobs struct {
	job      job
	perImage int64
	threads  int // that there is workspace for
	few      job // where positions are few: of a block that has those of several images
	takesFew func(c *call) bool
	both     job // the grid's gradient, too, where images are jobs, and these faster
}

// run computes the input's gradient.
func (j *scatterJobs) run(c *call, cost int64) {
	s := &c.sampler
	if j.few != nil && s.rowsPerImage() == 1 && s.blocksPerRow() == 1 && j.takesFew(c) {
		s.joinImages(c, backwardGradInput, backwardGrid, cost)
		c.parallel(ceilDiv(s.batch, s.images), cost, j.few)
		return
	}
	c.parallel(j.perImage*s.batch, cost, j.job)
}

// scatterInput is scatterImages by the compute type's rows, of a problem that wants grad_input.
func scatterInput(pl *plan, s *sampler, t cpu.Types, f32 []cpu.Row[cpu.GridScatterKernel[float32]],
	f64 []cpu.Row[cpu.GridScatterKernel[float64]],
) (scatterJobs, error) {
	switch {
	case !pl.problem.has("grad_input"):
		return scatterJobs{threads: MaxThreads}, nil
	case t.Compute == tensor.F64:
		return scatterImages(pl, s, t, f64)
	}
	return scatterImages(pl, s, t, f32)
}

// scatterImages makes the part of a run that computes the input's gradient from
// grad_output and grid, which come where they do here, and from the grid's tangent,
// if the op has one.
// One job is a band of rows of some channels of one image: it looks at all
// positions, and keeps the taps in the band.
func scatterImages[C cpu.Compute](pl *plan, s *sampler, t cpu.Types, table []cpu.Row[cpu.GridScatterKernel[C]]) (scatterJobs, error) {
	out, tangent := pl.problem.op.arg("grad_input"), pl.problem.op.arg("grad_grad_grid")
	kernel, err := selectRow(pl, table, t)
	if err != nil || s.channels == 0 || s.batch == 0 {
		return scatterJobs{threads: 1}, err
	}
	threads := int64(pl.threads())
	perJob := min(s.channels, cpu.MaxScatterChannels)
	groups := ceilDiv(s.channels, perJob)
	rows := s.pixels() / s.Size[0]
	bands := min(ceilDiv(threads, groups*s.batch), rows)
	threads = min(threads, groups*s.batch*bands)
	contributions := s.positions() * int64(s.Taps())
	each := cpu.GridScatterBytes(&s.Sampler, ceilDiv(rows, bands), contributions, perJob, int64(unsafe.Sizeof(C(0))))
	pl.workspace = each * threads
	run := func(c *call, w *worker, number int64, slopes bool, add func(*cpu.GridScatter[C], *cpu.GridBlock)) {
		s, b := &c.sampler, &w.ownArgs().grid
		band, first := number%bands, number/bands%groups*perJob
		image := number / bands / groups
		begin, end := rows*band/bands, rows*(band+1)/bands
		memory := c.workspace[int64(w.number)*each:][:each]
		scatter := scatterOf[C](w)
		*scatter = cpu.NewGridScatter[C](&s.Sampler, cpu.GridBand{First: begin * s.Size[0], Pixels: (end - begin) * s.Size[0]},
			memory, contributions, int(min(perJob, s.channels-first)))
		b.image = image
		to := s.image(&c.args[out], b)
		to.P = to.Channel(first)
		kernel.Start(scatter, to)
		for row := range s.rowsPerImage() {
			s.eachOfRow(w, image, row, 0, s.blocksPerRow(), &c.args[backwardGrid], func(b *gridBlock) {
				b.GradOutput = s.rows(&c.args[backwardGradOutput], b)
				b.GradOutput.P = b.GradOutput.Row(first, 0).P
				if tangent >= 0 {
					s.shifts(b, &c.args[tangent])
				}
				if slopes {
					b.Input, b.Output = s.image(&c.args[backwardInput], b), s.gridRows(&c.args[backwardGradGrid], b)
				}
			}, func(b *gridBlock) { add(scatter, &b.GridBlock) })
		}
		scatter.Finish(&w.scratch)
		kernel.Store(scatter, to, &w.scratch)
	}
	job := func(c *call, w *worker, number int64) { run(c, w, number, false, kernel.Add) }
	jobs := scatterJobs{job: job, perImage: groups * bands, threads: int(threads)}
	if kernel.Both != nil && tangent < 0 && pl.problem.has("grad_grid") && jobs.perImage == 1 && cpu.TakesBoth(&s.Sampler, pl.problem.DType("input")) {
		jobs.both = func(c *call, w *worker, number int64) { run(c, w, number, true, kernel.Both) }
	}
	if kernel.Few != nil {
		jobs.few = func(c *call, w *worker, number int64) {
			s := &c.sampler
			s.eachOfRow(w, number*s.images, 0, 0, 1, &c.args[backwardGrid], func(b *gridBlock) {
				b.GradOutput, b.Input = s.rows(&c.args[backwardGradOutput], b), s.image(&c.args[out], b)
				s.join(b, &c.args[out], &c.args[backwardGradOutput], &c.args[out])
			}, func(b *gridBlock) { kernel.Few(&b.GridBlock) })
		}
		jobs.takesFew = func(c *call) bool {
			s := &c.sampler
			return cpu.TakesFew[C](&s.Sampler, s.image(&c.args[out], &gridBlock{}), s.channels, s.positions())
		}
	}
	return jobs, nil
}

// scatterOf returns the worker's scatter.
func scatterOf[C cpu.Compute](w *worker) *cpu.GridScatter[C] {
	if unsafe.Sizeof(C(0)) == 8 {
		return any(&w.ownArgs().scatter64).(*cpu.GridScatter[C])
	}
	return any(&w.ownArgs().scatter32).(*cpu.GridScatter[C])
}
