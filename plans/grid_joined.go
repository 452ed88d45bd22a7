package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Images of a batch with few positions each: blocks of several (cpu/grid_joined.go).

const (
	// Images with more samples than this, and enough positions to fill a vector, gain less than
	// copies take.
	mostJoined = 256
	fewJoined  = 8
	// The most channels of images whose gradients go together: there is room for them.
	joinedChannels = 64
)

// joinImages has a block take the positions of several images where kernels can: where the images
// lie within 31 bits of each other, and the coordinates of one image after those of another.
func (s *sampler) joinImages(c *call, input, grid int, cost int64) {
	in, g := &c.args[input], &c.args[grid]
	n, step := s.positions(), in.Stride(0)
	many := n > fewJoined && n*s.channels >= mostJoined
	if c.needs == cpu.Go || many || s.Mode == cpu.Bicubic || s.rowsPerImage() != 1 || n == 0 || step < 0 || g.Stride(0) != n*g.Stride(len(g.Shape)-2) {
		return
	}
	most := min(cpu.Block/n, ceilDiv(s.batch, int64(c.workers(s.batch, cost))))
	far := int64(1)
	for axis, size := range s.Size[:s.Dims] {
		far += (size - 1) * max(0, in.Stride(len(in.Shape)-1-axis))
	}
	if most > 1 && (most-1)*step+far < 1<<31 {
		s.images = most
	}
}

// join notes where a block's images lie.
func (s *sampler) join(b *gridBlock, input, gradOutput, output *tensor.View) {
	if s.images == 1 {
		return
	}
	b.Joined.Input, b.Joined.Output = batchStep(input), batchStep(output)
	if gradOutput != nil {
		b.Joined.GradOutput = batchStep(gradOutput)
	}
}
