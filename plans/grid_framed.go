package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Small images of a batch: a job is a whole image (cpu/grid_framed.go).

// framed reports whether a call's images are jobs of their own, of which these gradients are
// wanted. The argument that is shaped like the output is read, or written, in runs along x.
func (c *call) framed(g cpu.GridFramed, s *sampler, cost int64, wanted cpu.GridGradients, output int) bool {
	if v := &c.args[output]; v.Stride(len(v.Shape)-1) != 1 || v.DType != tensor.F32 {
		return false
	}
	workers := int64(c.workers(s.blocks(), cost))
	even := s.batch%workers == 0 || s.batch >= 4*workers
	// To copy an image takes as long as what its positions gain when they are located, and with each channel.
	pixels, worth := s.channels*s.pixels(), s.positions()*(s.channels+5)/2
	if wanted.Grid {
		worth = s.positions() * max(s.channels+4, 8)
	}
	return even && worth >= pixels && g.Takes(&s.Sampler, s.channels, wanted, min(s.out[0], cpu.Block/2))
}

// eachFramed calls f for the blocks of an image in order. Each row of them
// begins with a block that begin completes, the first one before open.
func (s *sampler) eachFramed(w *worker, image int64, grid *tensor.View, begin, open, f func(b *gridBlock)) {
	for row := range s.rowsPerImage() {
		s.eachOfRow(w, s.wholeRow(image, row), grid, func(b *gridBlock) {
			if begin(b); row == 0 {
				open(b)
			}
		}, f)
	}
}

// sampleFramed makes the job of a forward.
func sampleFramed(g cpu.GridFramed) job {
	return func(c *call, w *worker, image int64) {
		s := &c.sampler
		s.eachFramed(w, image, &c.args[sampleGrid], func(b *gridBlock) {
			b.Input, b.Output = s.image(&c.args[sampleInput], b), s.rows(&c.args[sampleOutput], b)
		}, func(b *gridBlock) { g.Open(&b.GridBlock) }, func(b *gridBlock) { g.Sample(&b.GridBlock) })
	}
}

// gradientsFramed makes the job of the grid's gradient and, with input, of the input's. Images with
// sums in chunks are left to scatter, which has a number of jobs for each.
func gradientsFramed(g cpu.GridFramed, input bool, scatter job, perImage int64) job {
	return func(c *call, w *worker, image int64) {
		s, sums := &c.sampler, input
		s.eachFramed(w, image, &c.args[backwardGrid], func(b *gridBlock) {
			b.GradOutput, b.Input = s.rows(&c.args[backwardGradOutput], b), s.image(&c.args[backwardInput], b)
			b.Output = s.gridRows(&c.args[backwardGradGrid], b)
		}, func(b *gridBlock) {
			g.Open(&b.GridBlock)
			if input {
				g.Clear(&b.GridBlock)
			}
		}, func(b *gridBlock) {
			sums = g.Gradients(&b.GridBlock, sums) && sums
		})
		switch {
		case sums:
			g.Store(&w.ownArgs().grid.GridBlock, s.image(&c.args[backwardGradInput], &w.ownArgs().grid))
		case input:
			for i := range perImage {
				scatter(c, w, image*perImage+i)
			}
		}
	}
}
