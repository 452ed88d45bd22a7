package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

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
