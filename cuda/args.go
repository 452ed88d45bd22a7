package cuda

import (
	"math/bits"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// The structs in this package whose names end in Args, and those inside, lie
// in memory as the kernels' (kernels/*.cuh); a test compares their sizes.

// Codes of types, as in dtypes.cuh.
var typeCodes = [tensor.Count]int32{
	tensor.F32: 1, tensor.F64: 2, tensor.F16: 3, tensor.BF16: 4,
	tensor.S8: 5, tensor.U8: 6, tensor.I32: 7, tensor.I64: 8,
	tensor.F8E4M3: 9, tensor.F8E5M2: 10, tensor.S4: 11, tensor.U4: 12, tensor.S16: 13, tensor.U16: 14,
}

// tensorArg is struct Tensor.
type tensorArg struct {
	data            uint64
	dtype, rank     int32
	extent, strides [tensor.MaxRank]int64
}

// packBytes is the largest access to memory that kernels make at once.
const packBytes = 16

// tensorOf describes a view: rank 0 where it is compact and aligned, else by
// its dimensions, as few as will do.
func tensorOf(v *tensor.View) (t tensorArg) {
	if !v.Present() {
		return t
	}
	t.data, t.dtype = uint64(uintptr(v.Data)), typeCodes[v.DType]
	if v.IsContiguous() && uintptr(v.Data)%packBytes == 0 {
		return t
	}
	for d, extent := range v.Shape {
		stride := v.Stride(d)
		switch last := t.rank - 1; {
		case extent == 1:
		case t.rank > 0 && t.strides[last] == stride*extent:
			t.extent[last], t.strides[last] = t.extent[last]*extent, stride
		default:
			t.extent[t.rank], t.strides[t.rank] = extent, stride
			t.rank++
		}
	}
	if t.rank == 0 {
		t.rank, t.extent[0], t.strides[0] = 1, 1, 1
	}
	return t
}

// tensor is tensorOf an argument of the run.
func (r *run) tensor(i int) tensorArg { return tensorOf(&r.args[i]) }

// codesOf is tensorOf for codes of a type; packed ones are in a view of bytes.
func codesOf(v *tensor.View, d tensor.DType) tensorArg {
	t := tensorOf(v)
	t.dtype = typeCodes[d]
	return t
}

// float8Codes say which 8-bit float a type is, as in dtypes.cuh; 0 for others.
var float8Codes = [tensor.Count]int32{tensor.F8E4M3: 1, tensor.F8E5M2: 2}

// compact reports whether elements lie one after the other.
func (t *tensorArg) compact() bool { return t.rank == 0 || (t.rank == 1 && t.strides[0] == 1) }

// step notes how many elements are from one to the next, if that is one small number.
func (t *tensorArg) step(to *int32) bool {
	*to = 1
	if t.rank > 0 {
		*to = int32(t.strides[0])
	}
	return t.rank <= 1 && (t.rank == 0 || int64(*to) == t.strides[0])
}

// logOf is the logarithm of the smallest power of two that is not below n.
func logOf(n int64) int32 { return int32(bits.Len64(uint64(max(n, 1) - 1))) }

// typeNames joins the names of types, for the name of a kernel.
func typeNames(types ...tensor.DType) (name string) {
	for _, d := range types {
		name += "_" + d.String()
	}
	return name
}

// stripeArgs is struct Stripe.
type stripeArgs struct {
	reductions, blocks, longest int64
	block                       int64
	partial                     uint64
	logChannels, plain          int32
	lanes                       uint64
	logThreads, _               int32
}

const (
	stripeBlock    = 65536
	stripeLanes    = 64
	stripeChannels = 32
)

// stripeOf plans reductions of up to longest positions into sums values each.
// It reserves workspace for the results of blocks.
func (prog *Program) stripeOf(reductions, longest int64, sums int, compute tensor.DType) (s stripeArgs, partial int64) {
	return prog.blocksOf(reductions, longest, stripeBlock, sums, compute)
}

// blocksOf is stripeOf with blocks of another size.
func (prog *Program) blocksOf(reductions, longest, block int64, sums int, compute tensor.DType) (s stripeArgs, partial int64) {
	s = stripeArgs{reductions: reductions, longest: longest, block: block, blocks: max(1, ceilDiv(longest, block))}
	tile := tileOf(compute, sums)
	// Short reductions share a tile.
	for 2*max(longest, stripeLanes)<<s.logChannels <= tile && 1<<s.logChannels < stripeChannels {
		s.logChannels++
	}
	if s.blocks > 1 {
		partial = prog.reserve(reductions * s.blocks * int64(sums) * compute.Size())
	}
	return s, partial
}

// tileOf is tile_of: the terms in a tile of each of some sums.
func tileOf(compute tensor.DType, sums int) int64 {
	switch bytes := compute.Size() * int64(sums); {
	case bytes <= 8:
		return 2048
	case bytes <= 16:
		return 1024
	}
	return 512
}

// launchStripe runs a reduction's kernels, which stand one after the other:
// tiles, then if blocks are many, their fold.
func launchStripe[A any](r *run, kernel int, s *stripeArgs, partial int64, args *A) {
	tiles := (s.reductions + 1<<s.logChannels - 1) >> s.logChannels
	launchTiles(r, kernel, kernel+1, tiles, s, partial, args)
}

// launchTiles is launchStripe for a kernel that has tiles of its own.
func launchTiles[A any](r *run, kernel, fold int, tiles int64, s *stripeArgs, partial int64, args *A) {
	if s.reductions == 0 {
		return
	}
	s.locate(r, partial)
	launch(r, kernel, blocks(tiles*s.blocks, mostBlocks), args)
	launchFold(r, fold, s, args)
}

// locate notes where the results of blocks lie, if a reduction has several.
func (s *stripeArgs) locate(r *run, partial int64) {
	if s.blocks > 1 {
		s.partial = r.at(partial)
	}
}

// launchFold folds the results of a reduction's blocks, if it has several.
func launchFold[A any](r *run, fold int, s *stripeArgs, args *A) {
	if s.blocks > 1 {
		launch(r, fold, blocks(s.reductions, 1<<16), args)
	}
}

// addressOf returns the address of a view's first element.
func addressOf(v *tensor.View) uint64 { return uint64(uintptr(unsafe.Pointer(v.Data))) }

func boolArg(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
