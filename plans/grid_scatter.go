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
	if j.areFew(c, cost) {
		s.fewTiles(c, backwardGradInput, cost)
		c.parallel(s.tiles(), cost, j.few)
		return
	}
	c.parallel(j.perImage*s.batch, cost, j.job)
}

// fewTiles makes a tile of all blocks of an image, or of a block that has several.
func (s *sampler) fewTiles(c *call, input int, cost int64) {
	s.joinImages(c, input, backwardGrid, cost)
	s.wide, s.tall = s.blocksPerRow(), 1
}

// areFew reports whether few is for a call: the positions of an image are one row, and images are no fewer than threads.
func (j *scatterJobs) areFew(c *call, cost int64) bool {
	s := &c.sampler
	return j.few != nil && s.positions() > 0 && s.rowsPerImage() == 1 &&
		s.batch >= int64(c.workers(j.perImage*s.batch, cost)) && j.takesFew(c)
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

// imageScatter is the input's gradient of a problem, from grad_output and grid, which come where they do in
// gridSampleBackward, and from the grid's tangent, if the op has one. One job is a band of rows of some
// channels of one image: it looks at all positions, and keeps the taps in the band.
type imageScatter[C cpu.Compute] struct {
	kernel        cpu.GridScatterKernel[C]
	out, tangent  int   // arguments; tangent may be -1
	perJob        int64 // channels
	groups        int64 // of channels
	rows, bands   int64 // of an image
	contributions int64 // to an image
	bytes         int64 // of workspace for a thread
}

// scatterImages makes the jobs.
func scatterImages[C cpu.Compute](pl *plan, s *sampler, t cpu.Types, table []cpu.Row[cpu.GridScatterKernel[C]]) (scatterJobs, error) {
	kernel, err := selectRow(pl, table, t)
	if err != nil || s.channels == 0 || s.batch == 0 {
		return scatterJobs{threads: 1}, err
	}
	p, threads := &pl.problem, int64(pl.threads())
	g := &imageScatter[C]{
		kernel: kernel, out: p.op.arg("grad_input"), tangent: p.op.arg("grad_grad_grid"), perJob: min(s.channels, cpu.MaxScatterChannels),
		rows: s.pixels() / s.Size[0], contributions: s.positions() * int64(s.Taps()),
	}
	g.groups = ceilDiv(s.channels, g.perJob)
	g.bands = min(ceilDiv(threads, g.groups*s.batch), g.rows)
	threads = min(threads, g.groups*s.batch*g.bands)
	g.bytes = cpu.GridScatterBytes(&s.Sampler, ceilDiv(g.rows, g.bands), g.contributions, g.perJob, int64(unsafe.Sizeof(C(0))))
	pl.workspace = g.bytes * threads
	jobs := scatterJobs{job: g.band, perImage: g.groups * g.bands, threads: int(threads)}
	if kernel.Both != nil && g.tangent < 0 && p.has("grad_grid") && jobs.perImage == 1 && cpu.TakesBoth(&s.Sampler, p.DType("input")) {
		jobs.both = g.both
	}
	if kernel.Few != nil {
		jobs.few, jobs.takesFew = g.few, g.takesFew
	}
	return jobs, nil
}

// band computes one band of the gradient.
func (g *imageScatter[C]) band(c *call, w *worker, number int64) {
	g.scatter(c, w, number, g.kernel.Add, func(*gridBlock) {})
}

// both computes an image's gradient and that of its grid.
func (g *imageScatter[C]) both(c *call, w *worker, image int64) {
	s := &c.sampler
	g.scatter(c, w, image, g.kernel.Both, func(b *gridBlock) {
		b.Input, b.Output = s.image(&c.args[backwardInput], b), s.gridRows(&c.args[backwardGradGrid], b)
	})
}

// scatter computes one band by add, whose blocks more completes.
func (g *imageScatter[C]) scatter(c *call, w *worker, number int64, add func(*cpu.GridScatter[C], *cpu.GridBlock), more func(b *gridBlock)) {
	s, b := &c.sampler, &w.ownArgs().grid
	band, first, image := number%g.bands, number/g.bands%g.groups*g.perJob, number/g.bands/g.groups
	begin, end := g.rows*band/g.bands, g.rows*(band+1)/g.bands
	memory := c.workspace[int64(w.number)*g.bytes:][:g.bytes]
	scatter := scatterOf[C](w)
	*scatter = cpu.NewGridScatter[C](&s.Sampler, cpu.GridBand{First: begin * s.Size[0], Pixels: (end - begin) * s.Size[0]},
		memory, g.contributions, int(min(g.perJob, s.channels-first)))
	b.image = image
	to := s.image(&c.args[g.out], b)
	to.P = to.Channel(first)
	g.kernel.Start(scatter, to)
	rows := s.rowsPerImage()
	if g.tangent >= 0 && s.Mode == cpu.Nearest { // whose derivative is 0
		rows = 0
	}
	for row := range rows {
		s.eachOfRow(w, s.wholeRow(image, row), &c.args[backwardGrid], func(b *gridBlock) {
			b.GradOutput = s.rows(&c.args[backwardGradOutput], b)
			b.GradOutput.P = b.GradOutput.Row(first, 0).P
			if g.tangent >= 0 {
				s.shifts(b, &c.args[g.tangent])
			}
			more(b)
		}, func(b *gridBlock) { add(scatter, &b.GridBlock) })
	}
	scatter.Finish(&w.scratch)
	g.kernel.Store(scatter, to, &w.scratch)
}

// few computes the gradients of the images that a block has all positions of.
func (g *imageScatter[C]) few(c *call, w *worker, number int64) {
	s := &c.sampler
	image, holds := number*s.images, true
	s.eachOfRow(w, s.wholeRow(image, 0), &c.args[backwardGrid], func(b *gridBlock) {
		b.GradOutput, b.Input = s.rows(&c.args[backwardGradOutput], b), s.image(&c.args[g.out], b)
		s.join(b, &c.args[g.out], &c.args[backwardGradOutput], &c.args[g.out])
	}, func(b *gridBlock) { holds = holds && g.kernel.Few(&b.GridBlock, s.positions()) })
	for i := range g.groups * g.bands {
		if !holds {
			g.band(c, w, image*g.groups*g.bands+i)
		}
	}
}

// takesFew reports whether few is for a call's images.
func (g *imageScatter[C]) takesFew(c *call) bool {
	s := &c.sampler
	return cpu.TakesFew[C](&s.Sampler, s.image(&c.args[g.out], &gridBlock{}), s.channels, s.positions())
}

// scatterOf returns the worker's scatter.
func scatterOf[C cpu.Compute](w *worker) *cpu.GridScatter[C] {
	if unsafe.Sizeof(C(0)) == 8 {
		return any(&w.ownArgs().scatter64).(*cpu.GridScatter[C])
	}
	return any(&w.ownArgs().scatter32).(*cpu.GridScatter[C])
}
