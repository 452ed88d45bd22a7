package cuda

import "github.com/isobit-ml/isobit/tensor"

// samplerKernel is a kernel that takes any tensors and, where there is one, one
// that takes flat images (kernels/flat.cuh); else that is the same.
type samplerKernel struct {
	any, flat int
	pair      uint64 // bytes of a grid's two coordinates
}

// kernel adds an op's; flat says which kernels for flat images it has.
func (s *samplerArgs) kernel(prog *Program, op string, flat flatKernels, dims int, image, grid tensor.DType) (k samplerKernel) {
	k.any = prog.kernel("%s_%s%s", op, s.geometry(dims), typeNames(image))
	k.flat, k.pair = k.any, uint64(2*grid.Size())
	how := ""
	switch {
	case dims != 2:
	case s.mode == modeNearest:
		how = flat.nearest
	case s.mode == modeBilinear && s.channels <= fewChannels:
		how = flat.few
	case s.mode == modeBilinear:
		how = flat.many
	}
	if how != "" {
		k.flat = prog.kernel("%s_%s%s", op, how, typeNames(image))
	}
	return k
}

// flatKernels names kernels for flat images, by channels and mode.
type flatKernels struct{ few, many, nearest string }

var (
	flatSamples = flatKernels{"flat", "flat", "nearest"}
	flatOutputs = flatKernels{"flat", "flat", ""}
	flatSums    = flatKernels{"few", "flat", ""}
)

const fewChannels = 4

// maxFlat is the largest extent of a flat image: f32 tells a pixel from the next.
const maxFlat = 1 << 24

// pick is the kernel for what is bound and covered: images like the input, and grids.
func (k samplerKernel) pick(s *samplerArgs, g geometry, groups int64, images []imageArg, grids []gridArg) int {
	flat := max(s.size[0], s.size[1]) <= maxFlat && s.atOnce(g, groups)
	for _, m := range images {
		flat = flat && m.axis[0] == 1 && m.within32(s, s.size)
	}
	for _, g := range grids {
		strides := imageArg{image: g.image, axis: g.axis}
		flat = flat && g.coordinate == 1 && (g.image|g.axis[0]|g.axis[1])%2 == 0 && g.data%k.pair == 0 && strides.within32(s, s.out)
	}
	if flat && s.output.within32(s, s.out) {
		return k.flat
	}
	return k.any
}

// atOnce reports whether a thread has one position at most.
func (s *samplerArgs) atOnce(g geometry, groups int64) bool {
	if s.logWidth < 0 {
		return groups == 1 && s.positions() <= int64(g.grid[0]*g.block[0])
	}
	return s.out[1] <= int64(g.grid[1])<<s.logHeight && s.images*groups <= int64(g.grid[2])
}

const limit31 = 1<<31 - 1

// within32 reports whether i32 offsets reach all elements, and one step beyond.
func (m *imageArg) within32(s *samplerArgs, size [3]int64) bool {
	left := int64(limit31)
	for _, d := range [][2]int64{{s.images, m.image}, {s.channels, m.channel}, {size[0], m.axis[0]}, {size[1], m.axis[1]}} {
		extent, stride := max(1, d[0]), d[1]
		if stride < 0 || stride > left/extent {
			return false
		}
		left -= stride * extent
	}
	return true
}
