package cuda

import (
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

// imageArg is struct Image.
type imageArg struct {
	data           uint64
	image, channel int64
	axis           [3]int64
}

// gridArg is struct Grid.
type gridArg struct {
	data       uint64
	image      int64
	axis       [3]int64
	coordinate int64
}

// samplerArgs is struct Sampler.
type samplerArgs struct {
	images, channels                       int64
	size, out                              [3]int64
	input, output                          imageArg
	grid                                   gridArg
	mode, padding, alignCorners, gridDType int32
	logWidth, logHeight                    int32
}

type gridSampleArgs struct {
	sampler  samplerArgs
	channels int64
}

type gridGradientArgs struct {
	sampler samplerArgs
	out     gridArg
	links   linkArgs
}

// imageOf describes [N, C, (D,) H, W].
func imageOf(v *tensor.View) (m imageArg) {
	m.data, m.image, m.channel = addressOf(v), v.Stride(0), v.Stride(1)
	for axis := range len(v.Shape) - 2 {
		m.axis[axis] = v.Stride(len(v.Shape) - 1 - axis)
	}
	return m
}

// gridOf describes [N, (D,) H, W, dims].
func gridOf(v *tensor.View) (g gridArg) {
	last := len(v.Shape) - 1
	g.data, g.image, g.coordinate = addressOf(v), v.Stride(0), v.Stride(last)
	for axis := range last - 1 {
		g.axis[axis] = v.Stride(last - 1 - axis)
	}
	return g
}

// The places of grid_sample's arguments.
const (
	sampleInput = iota
	sampleGrid
	sampleOutput
)

// The places of grid_sample_backward's.
const (
	backwardGradOutput = iota
	backwardInput
	backwardGrid
	backwardGradInput
	backwardGradGrid
)

// samplerOf describes a grid_sample; input and grid are places of arguments.
func samplerOf(p *Problem, input, grid int) (s samplerArgs, dims int, err error) {
	in, g := p.Shapes[input], p.Shapes[grid]
	dims = len(in) - 2
	s = samplerArgs{images: in[0], channels: in[1], size: [3]int64{1, 1, 1}, out: [3]int64{1, 1, 1}, gridDType: typeCodes[p.Types[grid]]}
	for axis := range dims {
		s.size[axis], s.out[axis] = in[len(in)-1-axis], g[len(g)-2-axis]
		if most := max(s.size[axis], s.out[axis], s.images, s.channels); most > maxExtent {
			return s, dims, fmt.Errorf("has an extent of %d; CUDA takes up to %d", most, maxExtent)
		}
	}
	s.mode = map[string]int32{"bilinear": modeBilinear, "nearest": modeNearest, "bicubic": modeBicubic}[p.Word("mode")]
	s.padding = map[string]int32{"zeros": 0, "border": 1, "reflection": 2}[p.Word("padding_mode")]
	s.alignCorners = boolArg(p.Bool("align_corners"))
	return s, dims, nil
}

// maxExtent is the largest extent whose pixels or positions 32-bit numbers name,
// with one before the first and one behind the last.
const maxExtent = 1<<31 - 3

const (
	modeBilinear = iota
	modeNearest
	modeBicubic
)

// geometry names the kernels for a sampler of so many dimensions.
func (s *samplerArgs) geometry(dims int) string {
	if s.mode == modeBicubic {
		return fmt.Sprintf("bicubic_%dd", dims)
	}
	return fmt.Sprintf("%dd", dims)
}

func (s *samplerArgs) positions() int64 { return s.images * s.out[0] * s.out[1] * s.out[2] }

// bind fills in the tensors of a run, given their places.
func (s *samplerArgs) bind(r *run, input, grid, output int) {
	s.input, s.output, s.grid = imageOf(&r.args[input]), imageOf(&r.args[output]), gridOf(&r.args[grid])
}

// enough is about as many threads as keep a GPU busy.
const enough = 1 << 18

// channelsOfThread is how many channels a thread takes at one position.
func (s *samplerArgs) channelsOfThread() int64 {
	each := int64(16) // groups of channels take turns in caches
	for each > 4 && s.positions()*ceilDiv(s.channels, each) < enough {
		each /= 2
	}
	return each
}

// cover covers all positions, once for each group, by blocks that take so many:
// rectangles of images that fill them, else (with -1) positions in a row.
func (s *samplerArgs) cover(each, groups int64) geometry {
	limit := logOf(each)
	width := min(logOf(s.out[0]), limit, 5)
	height := min(logOf(s.out[1]), limit-width)
	width = min(logOf(s.out[0]), limit-height)
	columns, rows := (s.out[0]+1<<width-1)>>width, (s.out[1]+1<<height-1)>>height
	if s.positions() == 0 || width+height < min(limit, 6) || columns*rows<<(width+height) > 2*s.out[0]*s.out[1] {
		s.logWidth, s.logHeight = -1, -1
		return blocks(ceilDiv(s.positions()*groups, each), mostBlocks).of(each)
	}
	s.logWidth, s.logHeight = width, height
	grid := [3]uint32{uint32(columns), uint32(min(rows, gridYZ)), uint32(min(s.images*s.out[2]*groups, gridYZ))}
	return geometry{grid: grid}.of(1 << (width + height))
}

// eachChannel covers the channels of all positions, so many to a thread.
func (s *samplerArgs) eachChannel(each int64) geometry {
	return s.cover(blockThreads, ceilDiv(s.channels, each))
}

func buildGridSample(p *Problem, prog *Program) error {
	prog.Compute = p.Types[sampleInput].Compute()
	s, dims, err := samplerOf(p, sampleInput, sampleGrid)
	if err != nil {
		return err
	}
	k := s.kernel(prog, "grid_sample", flatSamples, dims, p.Types[sampleInput], p.Types[sampleGrid])
	each := s.channelsOfThread()
	prog.run = func(r *run) {
		if s.positions() == 0 || s.channels == 0 {
			return
		}
		s := s
		s.bind(r, sampleInput, sampleGrid, sampleOutput)
		g := s.eachChannel(each)
		chosen := k.pick(&s, g, ceilDiv(s.channels, each), []imageArg{s.input}, []gridArg{s.grid})
		launch(r, chosen, g, &gridSampleArgs{s, each})
	}
	return nil
}

// buildGridSampleBackward makes the gradients of the grid and of the input,
// each if it is wanted.
func buildGridSampleBackward(p *Problem, prog *Program) error {
	prog.Compute = p.Types[backwardInput].Compute()
	prog.Accumulator = prog.Compute
	var grid gridStep
	if p.Types[backwardGradGrid] != tensor.None {
		var err error
		if grid, err = gridGradientOf(p, prog); err != nil {
			return err
		}
	}
	if p.Types[backwardGradInput] != tensor.None {
		return inputGradient{out: backwardGradInput, grid: grid}.build(p, prog)
	}
	prog.then(func(r *run) { grid.run(r, linkArgs{}) })
	return nil
}

const groupChannels, groupThreads = 16, 128

// groups covers all positions with blocks of threads that sum over channels:
// those that share a position take its groups of channels in turn.
func (s *samplerArgs) groups() geometry {
	positions, share := s.positions(), int64(1)
	for share < 8 && share*groupChannels < s.channels && positions*share < enough {
		share *= 2
	}
	g := s.cover(max(groupThreads/share, 32), 1) // a warp has groups of one number
	g.block[1] = uint32(share)
	return g
}

// gridStep launches the grid's gradient, if it is wanted. It links positions for
// the input's gradient on its way (kernels/link.cuh), if it can: then it reports true.
type gridStep func(r *run, l linkArgs) (linked bool)

func (step gridStep) run(r *run, l linkArgs) (linked bool) { return step != nil && step(r, l) }

func gridGradientOf(p *Problem, prog *Program) (gridStep, error) {
	s, dims, err := samplerOf(p, backwardInput, backwardGrid)
	if err != nil {
		return nil, err
	}
	k := s.kernel(prog, "grid_gradient", flatSums, dims, p.Types[backwardInput], p.Types[backwardGrid])
	return func(r *run, l linkArgs) bool {
		if s.positions() == 0 {
			return false
		}
		s := s
		s.bind(r, backwardInput, backwardGrid, backwardGradOutput)
		g, out := s.groups(), gridOf(&r.args[backwardGradGrid])
		chosen := k.pick(&s, g, 1, []imageArg{s.input}, []gridArg{s.grid, out})
		launch(r, chosen, g, &gridGradientArgs{s, out, l})
		return chosen != k.any
	}, nil
}
