package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// The input's gradient by generated kernels.

// scatterByKernel is GridScatter32 by kernels.
func scatterByKernel(k *gridKernel, definition GridScatterKernel[float32]) GridScatterKernel[float32] {
	framed, t := framedOf(k.needs), typeFor(k.needs, k.dtype)
	start := func(s *GridScatter[float32], out Image) {
		switch {
		case s.startInPlace(out), s.startTouched():
		case s.g.takes(s.g.Size[0]) && s.channels <= maxQuad:
			s.enterFrame()
		default:
			definition.Start(s, out)
		}
	}
	add := func(s *GridScatter[float32], b *GridBlock) {
		switch {
		case s.frame.start != nil:
			k.addFramed(framed.locate, s, b)
		case addGather(k, s, b, noSlopes):
		default:
			definition.Add(s, b)
		}
	}
	store := func(s *GridScatter[float32], out Image, scratch *Scratch) {
		if s.frame.start != nil {
			s.frame.store(t, out, scratch)
		} else {
			s.storeTouched(out, func(s *GridScatter[float32]) { k.storeSums(t, s, out, scratch) })
		}
	}
	few := func(b *GridBlock, positions int64) bool { return addFew[float32](k, b, positions) }
	if k.dtype.Size() == 2 {
		few = func(b *GridBlock, positions int64) bool { return addFewPixels(k, b, positions) }
	}
	return GridScatterKernel[float32]{
		start, add, store, few,
		func(s *GridScatter[float32], b *GridBlock) { addBoth(k, definition, s, b) },
	}
}

// storeSums stores sums of a pixel's channels that lie side by side.
func (k *gridKernel) storeSums(t *gatherType, s *GridScatter[float32], out Image, scratch *Scratch) {
	if s.channels == MaxScatterChannels && out.DType.Size() == 4 && out.compact(s.g.Size, s.g.Dims) {
		k.storeInterleaved(s, out)
	} else {
		s.storeRuns(t, out, scratch)
	}
}

// scatterByGather is GridScatter64 by kernels.
func scatterByGather(k *gridKernel, definition GridScatterKernel[float64]) GridScatterKernel[float64] {
	add := func(s *GridScatter[float64], b *GridBlock) {
		if !addGather(k, s, b, noSlopes) {
			definition.Add(s, b)
		}
	}
	t := typeFor(k.needs, k.dtype)
	start := func(s *GridScatter[float64], out Image) {
		if !s.startInPlace(out) && !s.startTouched() {
			definition.Start(s, out)
		}
	}
	store := func(s *GridScatter[float64], out Image, scratch *Scratch) {
		s.storeTouched(out, func(s *GridScatter[float64]) { s.storeRuns(t, out, scratch) })
	}
	return GridScatterKernel[float64]{
		start, add, store, func(b *GridBlock, positions int64) bool { return addFew[float64](k, b, positions) },
		func(s *GridScatter[float64], b *GridBlock) { addBoth(k, definition, s, b) },
	}
}

// squareSide is the side, in elements, of the squares that kernels transpose.
const squareSide = 16

// transposeGradients puts the upstream gradients of a position's channels side by
// side, as its sums are.
func transposeGradients[C Compute](k *gridKernel, s *GridScatter[C], b *GridBlock) *C {
	t := typeFor(k.needs, k.dtype)
	if first := b.GradOutput.Row(0, 0); s.pitch == 1 && first.Contiguous() && first.DType.Size() == int64(unsafe.Sizeof(C(0))) {
		return (*C)(first.P)
	}
	start := b.Scratch.block(transposedBlocks)
	whole := 0
	if k.transpose != nil && s.channels == squareSide && b.GradOutput.Contiguous() {
		whole = b.N / squareSide
		k.transpose((*byte)(b.GradOutput.P), int(b.GradOutput.RowStride), int(squareSide*b.GradOutput.Stride),
			(*float32)(start), squareSide*4, squareSide*squareSide*4, whole)
	}
	if rest := b.N - whole*squareSide; rest > 0 {
		for c := range s.pitch {
			row := BlockOf[C](b.Scratch, tapBlocks+c, rest)
			if c < s.channels {
				loadRow(t, row, b.GradOutput.Row(int64(c), int64(whole*squareSide)))
			} else {
				clear(row)
			}
		}
		size := int64(unsafe.Sizeof(C(0)))
		to := unsafe.Add(start, int64(whole*squareSide*s.pitch)*size)
		transposeOf[C]()(to, int64(s.pitch)*size, b.Scratch.block(tapBlocks), blockBytes, int64(s.pitch), int64(rest))
	}
	return (*C)(start)
}

// The transpositions of sums and of what is added to them, by the size of elements. Where there
// are kernels of grids, there are those that come first here.
var transposeBySize = [...]Transpose{2: firstTranspose(tensor.BF16), 4: firstTranspose(tensor.F32), 8: firstTranspose(tensor.F64)}

func firstTranspose(d tensor.DType) Transpose {
	f, _ := Transposes[0].Pick(Types{In: InTypes{d}})
	return f
}

func transposeOf[C Compute]() Transpose { return transposeBySize[unsafe.Sizeof(C(0))] }

// storeRuns is Store of runs of pixels, transposed where the sums of a pixel's
// channels lie side by side.
func (s *GridScatter[C]) storeRuns(t *gatherType, out Image, scratch *Scratch) {
	size, width := int64(unsafe.Sizeof(C(0))), s.g.Size[0]
	if out.compact(s.g.Size, s.g.Dims) { // as one row
		out.AxisStride[0], width = out.DType.Size(), s.band.First+s.band.Pixels
	}
	quads := s.pitch == maxQuad && size == 4 && out.DType == tensor.F32 && out.AxisStride[0] == size
	for at := int64(0); at < s.band.Pixels; {
		pixel := s.band.First + at
		x, row := pixel%width, pixel/width
		y, z := row%s.g.Size[1], row/s.g.Size[1]
		n := min(Block, width-x)
		start := x*out.AxisStride[0] + y*out.AxisStride[1] + z*out.AxisStride[2]
		sums := unsafe.Pointer(s.sum(0, at))
		at += n
		if quads {
			transposeQuads(sums, s.channels, (*float32)(unsafe.Add(out.P, start)), out.ChannelStride, int(n))
			continue
		}
		if s.pitch > 1 {
			transposeOf[C]()(scratch.block(0), blockBytes, sums, int64(s.pitch)*size, n, int64(s.pitch))
		}
		for c := range s.channels {
			run := BlockOf[C](scratch, c, int(n))
			if s.pitch == 1 {
				run = unsafe.Slice((*C)(sums), n)
			}
			storeRow(t, Span{unsafe.Add(out.Channel(int64(c)), start), out.AxisStride[0], out.DType}, run)
		}
	}
}

// storeInterleaved transposes the sums into planes.
func (k *gridKernel) storeInterleaved(s *GridScatter[float32], out Image) {
	to := (*float32)(unsafe.Add(out.P, s.band.First*4))
	whole := s.band.Pixels / squareSide
	for at := int64(0); at < whole; at += transposeTiles {
		k.transpose32((*byte)(unsafe.Pointer(s.sum(0, at*squareSide))), squareSide*4, squareSide*squareSide*4,
			(*float32)(unsafe.Add(unsafe.Pointer(to), at*squareSide*4)), int(out.ChannelStride), squareSide*4, int(min(transposeTiles, whole-at)))
	}
	for channel := range squareSide {
		for p := whole * squareSide; p < s.band.Pixels; p++ {
			*(*float32)(unsafe.Add(unsafe.Pointer(to), int64(channel)*out.ChannelStride+p*4)) = *s.sum(channel, p)
		}
	}
}

// transposeTiles bounds the tiles of one call.
const transposeTiles = 1024
