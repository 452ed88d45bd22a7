package plans

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var samplerAttrs = []attr{
	{
		name: "mode", kind: wordAttr, def: "bilinear", words: []string{"bilinear", "nearest", "bicubic"},
		doc: "how the pixels around a place are combined, of volumes too",
	},
	{
		name: "padding_mode", kind: wordAttr, def: "zeros", words: []string{"zeros", "border", "reflection"},
		doc: "what lies outside of the image: zeros, its border, or its reflection",
	},
	alignAttr,
}

// The places of gridSample's arguments.
const (
	sampleInput = iota
	sampleGrid
	sampleOutput
)

// gridSample reads an image (or a volume) at the places that a grid names.
var gridSample = op{
	name: "grid_sample", category: Sampling,
	doc: "Reads images, or volumes, at the places that a grid names.",
	formulas: []string{
		"y = sum(input[tap] * w[tap]) over the taps around x = ((gx + 1) * W - 1) / 2, or ((gx + 1) / 2) * (W - 1) with align_corners, likewise y and z",
	},
	sections: []int{6},
	args: []arg{
		{name: "input", shaped: true, compact: readsMuch, allow: floats, form: "[N, C, H, W] or [N, C, D, H, W]", doc: "the images or volumes"},
		{name: "grid", shaped: true, blocks: 1, allow: floats, form: "[N, H2, W2, 2] or [N, D2, H2, W2, 3]", doc: "the places, x first, -1 to 1; in input's type, or f32 beside 16 bits"},
		{name: "y", out: true, allow: floats, defaultType: same("input"), form: "[N, C, H2, W2] or [N, C, D2, H2, W2]", doc: "what was read, in input's type"},
	},
	attrs: samplerAttrs,
	infer: func(p *Problem) error {
		output, err := inferSampler(p)
		if err != nil {
			return err
		}
		p.setShape("y", output)
		return sameTypeAs("y", "input")(p)
	},
	build: buildGridSample,
	rows:  namesOf(cpu.GridSample),
}

// gridSamples is how one problem runs.
type gridSamples struct {
	*sampler
	cost   int64
	tile   job // of positions
	framed cpu.GridFramed
	small  job // a small image
}

func buildGridSample(pl *plan) error {
	p := &pl.problem
	s, t := samplerOf(p), gridTypes(p)
	g := gridSamples{sampler: s, cost: s.cost(2)}
	var err error
	if g.framed, err = selectRow(pl, cpu.GridFrames, t); err != nil {
		return err
	}
	kernel, err := selectRow(pl, cpu.GridSample, t)
	if err != nil {
		return err
	}
	g.small = sampleFramed(g.framed)
	g.tile = func(c *call, w *worker, number int64) {
		s := &c.sampler
		s.eachBlock(w, number, &c.args[sampleGrid], func(b *gridBlock) {
			b.Input, b.Output = s.image(&c.args[sampleInput], b), s.rows(&c.args[sampleOutput], b)
			s.join(b, &c.args[sampleInput], nil, &c.args[sampleOutput])
		}, func(b *gridBlock) { kernel(&b.GridBlock) })
	}
	pl.keepAlikeCalls()
	pl.run = g.run
	return nil
}

// The ways to sample.
const byTiles, byImages = 0, 1

// choose lays positions out in c.sampler, and returns the best way.
func (g *gridSamples) choose(c *call) (way int) {
	c.sampler = *g.sampler
	c.sampler.order(c.joins(sampleGrid, sampleOutput), c.threads)
	switch {
	case c.readsRows(sampleInput, cpu.SamplesRows):
	case c.framed(g.framed, &c.sampler, g.cost, cpu.GridGradients{}, sampleOutput):
		return byImages
	default:
		c.sampler.joinImages(c, sampleInput, sampleGrid, g.cost)
	}
	return byTiles
}

func (g *gridSamples) run(c *call) error {
	if !c.seen.again { // else it is in c.sampler
		c.seen.way = g.choose(c)
	}
	if c.seen.way == byImages {
		c.parallel(g.batch, g.cost, g.small)
		return nil
	}
	c.parallel(c.sampler.tiles(), g.cost, g.tile)
	return nil
}

func gridTypes(p *Problem) cpu.Types {
	d := p.DType("input")
	return cpu.Types{Compute: d.Compute(), In: cpu.InTypes{d, p.DType("grid")}}
}

// inferSampler checks input and grid and returns the shape of the output.
func inferSampler(p *Problem) ([]int64, error) {
	input, grid := p.Shape("input"), p.Shape("grid")
	dims := len(input) - 2
	switch {
	case dims != 2 && dims != 3:
		return nil, p.errorf("input", "has shape %s; want [N, C, H, W] or [N, C, D, H, W]", tensor.ShapeText(input))
	case len(grid) != dims+2 || grid[0] != input[0] || grid[dims+1] != int64(dims):
		return nil, p.errorf("grid", "has shape %s; want %d dimensions, the first %d, the last %d", tensor.ShapeText(grid), dims+2, input[0], dims)
	case slices.Min(input[2:]) == 0:
		return nil, p.errorf("input", "has shape %s; want spatial extents of at least 1", tensor.ShapeText(input))
	case slices.Max(input[2:]) > 1<<24 && p.DType("input").Compute() == tensor.F32:
		return nil, p.errorf("input", "has shape %s; want spatial extents of at most 16777216, whose pixels %s tells apart", tensor.ShapeText(input), named("f32"))
	}
	if in, g := p.DType("input"), p.DType("grid"); g != in && !(in.Size() == 2 && g == tensor.F32) {
		return nil, p.errorf("grid", "is %s with an input of %s; want %[2]s%s", g, in, map[bool]string{true: " or " + named("f32")}[in.Size() == 2])
	}
	return append(input[:2:2], grid[1:dims+1]...), nil
}

// sampler is the geometry of a grid_sample's plan.
type sampler struct {
	cpu.Sampler
	batch, channels int64
	out             [3]int64 // extents of the output along x, y, z
	imageBytes      int64
	gridOrder
}

func samplerOf(p *Problem) *sampler {
	input, grid := p.Shape("input"), p.Shape("grid")
	s := &sampler{batch: input[0], channels: input[1], out: [3]int64{1, 1, 1}}
	s.Dims = len(input) - 2
	s.Size = [3]int64{1, 1, 1}
	for axis := range s.Dims {
		s.Size[axis] = input[len(input)-1-axis]
		s.out[axis] = grid[len(grid)-2-axis]
	}
	if s.positions() == 0 { // nor rows to go through
		s.out = [3]int64{}
	}
	s.imageBytes = s.channels * s.pixels() * p.DType("input").Size()
	s.Mode = samplerMode(p)
	s.Padding = cpu.Padding(slices.Index(samplerAttrs[1].words, p.word("padding_mode")))
	s.AlignCorners = p.bool("align_corners")
	return s
}

func samplerMode(p *Problem) cpu.Mode {
	return cpu.Mode(slices.Index(samplerAttrs[0].words, p.word("mode")))
}

// readsMuch is readsMost of the forward pass, where kernels do not read channels as they lie. With
// nearest every pixel is read about once, copied or not.
func readsMuch(c *call) bool {
	return samplerMode(&c.problem) != cpu.Nearest && !c.readsRows(sampleInput, cpu.SamplesManyRows) && c.readsMost(sampleInput, sampleOutput)
}

// readsRows reports whether kernels read the channels of a pixel as one row (cpu/grid_rows.go).
func (c *call) readsRows(input int, takes func(d tensor.DType, mode cpu.Mode, channels int64) bool) bool {
	v := &c.args[input]
	return cpu.Allowed() >= cpu.AVX2 && v.Stride(1) == 1 && takes(v.DType, samplerMode(&c.problem), v.Shape[1])
}

// readsMost reports whether there are so many samples (or gradients of them) that
// most of the input is read.
func (c *call) readsMost(input, samples int) bool {
	return c.args[input].NumElements() <= 4*c.args[samples].NumElements()
}

// joins returns how many dimensions of positions lie one after the other in all the given arguments,
// from the last on: of a grid those before its coordinates.
func (c *call) joins(args ...int) (dims int) {
	dims = 3
	for _, i := range args {
		v := &c.args[i]
		if !v.Present() {
			continue
		}
		x, spatial := len(v.Shape)-1, len(v.Shape)-2
		if strings.HasSuffix(c.problem.op.args[i].name, "grid") {
			x--
		}
		n := 1
		for n < spatial && v.Stride(x-n) == v.Stride(x-n+1)*v.Shape[x-n+1] {
			n++
		}
		if n < spatial {
			dims = min(dims, n)
		}
	}
	return dims
}

// pixels returns the number of pixels of the input, positions that of the output.
func (s *sampler) pixels() int64    { return s.Size[0] * s.Size[1] * s.Size[2] }
func (s *sampler) positions() int64 { return s.out[0] * s.out[1] * s.out[2] }

// cost is that of a run in elements of a streaming op, of which each tap of a sample takes as long as so many.
func (s *sampler) cost(each int64) int64 {
	return s.positions() * s.batch * (s.channels + 1) * each * int64(max(4, s.Taps()))
}

// image describes one image of a batch.
func (s *sampler) image(v *tensor.View, b *gridBlock) (m cpu.Image) {
	size := v.DType.Size()
	m.Span = cpu.Span{P: unsafe.Add(v.Data, b.image*batchStep(v)), DType: v.DType}
	m.ChannelStride = v.Stride(1) * size
	for axis := range s.Dims {
		m.AxisStride[axis] = v.Stride(len(v.Shape)-1-axis) * size
	}
	return m
}

// rows describes the block's positions in a tensor [N, C, (D,) H, W]: a row
// per channel.
func (s *sampler) rows(v *tensor.View, b *gridBlock) cpu.Rows {
	m := s.image(v, b)
	for axis := range s.Dims {
		m.P = unsafe.Add(m.P, b.at[axis]*m.AxisStride[axis])
	}
	return cpu.Rows{Span: cpu.Span{P: m.P, Stride: m.AxisStride[0], DType: v.DType}, RowStride: m.ChannelStride}
}

// gridRows describes the block's positions in a grid [N, (D,) H, W, dims]: a
// row per coordinate.
func (s *sampler) gridRows(v *tensor.View, b *gridBlock) cpu.Rows {
	size := v.DType.Size()
	last := len(v.Shape) - 1
	offset := b.image * v.Stride(0)
	for axis := range s.Dims {
		offset += b.at[axis] * v.Stride(last-1-axis)
	}
	return cpu.Rows{
		Span:      cpu.Span{P: unsafe.Add(v.Data, offset*size), Stride: v.Stride(last-1) * size, DType: v.DType},
		RowStride: v.Stride(last) * size,
	}
}
