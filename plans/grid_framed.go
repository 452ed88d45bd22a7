package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Small images of a batch: a job is a whole image (cpu/grid_framed.go).

// framed reports whether a call's images are jobs of their own. The arguments
// named by number are the image's input and its gradient, read and written in
// runs along x; sums says whether the input's gradient is wanted.
func (c *call) framed(g cpu.GridFramed, s *sampler, cost int64, sums bool, runs ...int) bool {
	for _, i := range runs {
		if v := &c.args[i]; v.Stride(len(v.Shape)-1) != 1 || v.DType != tensor.F32 {
			return false
		}
	}
	workers := int64(c.workers(s.blocks(), cost))
	even := s.batch%workers == 0 || s.batch >= 4*workers
	return even && s.positions() >= s.pixels()/2 && g.Takes(&s.Sampler, s.channels, sums, min(s.out[0], cpu.Block/2))
}

// eachFramed calls f for the blocks of an image, row by row, after open.
func (s *sampler) eachFramed(w *worker, image int64, grid *tensor.View, open, f func(b *gridBlock)) {
	open(s.block(w, image, 0, 0, grid))
	for row := range s.rowsPerImage() {
		for column := range s.blocksPerRow() {
			f(s.block(w, image, column, row, grid))
		}
	}
}

// sampleFramed makes the job of a forward.
func sampleFramed(g cpu.GridFramed) job {
	return func(c *call, w *worker, image int64) {
		s := &c.sampler
		s.eachFramed(w, image, &c.args[1], func(b *gridBlock) {
			b.Input = s.image(&c.args[0], b)
			g.Open(&b.GridBlock)
		}, func(b *gridBlock) {
			b.Output = s.rows(&c.args[2], b)
			g.Sample(&b.GridBlock)
		})
	}
}

// gradientsFramed makes the job of a backward. Images with sums in chunks are
// left to scatter, which has a number of jobs for each.
func gradientsFramed(g cpu.GridFramed, p *Problem, scatter job, perImage int64) job {
	grid, input := p.has("grad_grid"), p.has("grad_input")
	return func(c *call, w *worker, image int64) {
		s, sums := &c.sampler, input
		s.eachFramed(w, image, &c.args[2], func(b *gridBlock) {
			b.Input = s.image(&c.args[1], b)
			g.Open(&b.GridBlock)
			if input {
				g.Clear(&b.GridBlock)
			}
		}, func(b *gridBlock) {
			b.GradOutput = s.rows(&c.args[0], b)
			if grid {
				b.Output = s.gridRows(&c.args[4], b)
			}
			if grid || sums {
				sums = g.Gradients(&b.GridBlock, grid, sums) && sums
			}
		})
		switch {
		case sums:
			g.Store(&w.grid.GridBlock, s.image(&c.args[3], &w.grid))
		case input:
			for i := range perImage {
				scatter(c, w, image*perImage+i)
			}
		}
	}
}
