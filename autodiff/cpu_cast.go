package autodiff

import (
	"math"
	"sync"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The CPU's casts. Elements go by way of blocks of float64 or int64, so that a
// type is a line of one table.

const castBlock = 256

// castBuffer is where a block lies on its way. What the table's functions are given
// is on the heap, so buffers are used again.
type castBuffer struct {
	floats [castBlock]float64
	ints   [castBlock]int64
}

var castBuffers = sync.Pool{New: func() any { return new(castBuffer) }}

// casting is how elements of one type, n of them from an index on, come and go.
type casting struct {
	isFloat    bool
	floats     func(x *cpuTensor, from int, f []float64) // reads a float type
	ints       func(x *cpuTensor, from int, n []int64)   // ... any other
	fromFloats func(z *cpuTensor, from int, f []float64)
	fromInts   func(z *cpuTensor, from int, n []int64)
}

var castings = map[tensor.DType]casting{
	tensor.F32:  castingFloat(widened[float32], narrowed[float32], toFloat32),
	tensor.F64:  castingFloat(widened[float64], narrowed[float64], func(n int64) float64 { return float64(n) }),
	tensor.F16:  castingFloat(half(tensor.F16Bits.Float32), toHalf(tensor.ToF16), intToHalf(tensor.ToF16)),
	tensor.BF16: castingFloat(half(tensor.BF16Bits.Float32), toHalf(tensor.ToBF16), intToHalf(tensor.ToBF16)),
	tensor.S8:   castingInt[int8](math.MinInt8, math.MaxInt8),
	tensor.U8:   castingInt[uint8](0, math.MaxUint8),
	tensor.I32:  castingInt[int32](math.MinInt32, math.MaxInt32),
	tensor.I64:  castingInt[int64](math.MinInt64, math.MaxInt64),
	tensor.Bool: {
		ints:       reads(func(v uint8) int64 { return int64(v) }),
		fromFloats: writes(func(v float64) uint8 { return kernel.Truth(v != 0) }),
		fromInts:   writes(func(v int64) uint8 { return kernel.Truth(v != 0) }),
	},
}

func castingFloat[T any](read func(T) float64, ofFloat func(float64) T, ofInt func(int64) T) casting {
	return casting{isFloat: true, floats: reads(read), fromFloats: writes(ofFloat), fromInts: writes(ofInt)}
}

// castingInt cuts floats towards zero, within the type, NaN becoming 0. Of wider
// whole numbers the lower bits stay.
func castingInt[T int8 | uint8 | int32 | int64](lo, hi int64) casting {
	return casting{
		ints:       reads(func(v T) int64 { return int64(v) }),
		fromFloats: writes(func(v float64) T { return T(min(max(whole(v), lo), hi)) }),
		fromInts:   writes(func(v int64) T { return T(v) }),
	}
}

func reads[T, W any](f func(T) W) func(x *cpuTensor, from int, w []W) {
	return func(x *cpuTensor, from int, w []W) {
		for i, v := range elements[T](x)[from : from+len(w)] {
			w[i] = f(v)
		}
	}
}

func writes[T, W any](f func(W) T) func(z *cpuTensor, from int, w []W) {
	return func(z *cpuTensor, from int, w []W) {
		for i, z := 0, elements[T](z)[from:from+len(w)]; i < len(z); i++ {
			z[i] = f(w[i])
		}
	}
}

func widened[T kernel.Float](v T) float64  { return float64(v) }
func narrowed[T kernel.Float](v float64) T { return T(v) }
func half[H any](f func(H) float32) func(H) float64 {
	return func(h H) float64 { return float64(f(h)) }
}
func toHalf[H any](f func(float32) H) func(float64) H {
	return func(v float64) H { return f(cpu.ToOdd(v)) }
}

func intToHalf[H any](f func(float32) H) func(int64) H {
	return func(n int64) H { return f(cpu.ToOdd(cpu.FewerBits(n))) }
}

func toFloat32(n int64) float32 { return float32(cpu.FewerBits(n)) } // as cpu's own loads do

// whole cuts towards zero. What Go makes of a number beyond int64 depends on the processor.
func whole(v float64) int64 {
	switch {
	case v != v:
		return 0
	case v >= 1<<63:
		return math.MaxInt64
	case v < -1<<63:
		return math.MinInt64
	}
	return int64(v)
}

// convert casts elements, each rounded once.
func convert(t kernel.Threads, z, x *cpuTensor) {
	if direct := directCasts[[2]tensor.DType{x.dtype, z.dtype}]; direct != nil {
		t.For(z.n, 1, castBlock, func(lo, hi int) { direct(z, x, lo, hi) })
	} else {
		convertBlocks(t, z, x)
	}
}

func convertBlocks(t kernel.Threads, z, x *cpuTensor) {
	to, of := castings[z.dtype], castings[x.dtype]
	t.For(z.n, 8, castBlock, func(lo, hi int) {
		b := castBuffers.Get().(*castBuffer)
		defer castBuffers.Put(b)
		for ; lo < hi; lo += castBlock {
			size := min(castBlock, hi-lo)
			if of.isFloat {
				of.floats(x, lo, b.floats[:size])
				to.fromFloats(z, lo, b.floats[:size])
			} else {
				of.ints(x, lo, b.ints[:size])
				to.fromInts(z, lo, b.ints[:size])
			}
		}
	})
}

func fillOf(k *call) error {
	z := k.out[0]
	to, ok := castings[z.dtype]
	if !ok {
		return unsupported(k)
	}
	b := castBuffers.Get().(*castBuffer)
	defer castBuffers.Put(b)
	head := min(z.n, castBlock)
	for i := range head {
		b.floats[i] = k.at.Floats[0]
	}
	to.fromFloats(z, 0, b.floats[:head])
	if head == z.n {
		return nil
	}
	size := int(z.dtype.Size())
	k.t.For(z.n-head, 1, castBlock, func(lo, hi int) {
		for at := lo; at < hi; at += castBlock {
			copy(z.buf.mem[(at+head)*size:(hi+head)*size], z.buf.mem[:head*size])
		}
	})
	return nil
}

func arange(k *call) error {
	start, step := k.at.Floats[0], k.at.Floats[1]
	if len(k.at.Starts) == 1 && len(k.at.Steps) == 1 && k.out[0].dtype == tensor.I64 {
		for i, z := 0, elements[int64](k.out[0]); i < len(z); i++ { // whole numbers that float64 need not hold
			z[i] = int64(k.at.Starts[0]) + int64(i)*int64(k.at.Steps[0])
		}
		return nil
	}
	return generate(k, func(from int, f []float64) {
		for i := range f {
			f[i] = start + float64(float64(from+i)*step)
		}
	})
}

// generate makes a tensor of blocks that f fills, each from an index on.
func generate(k *call, f func(from int, block []float64)) error {
	z := k.out[0]
	to, ok := castings[z.dtype]
	if !ok {
		return unsupported(k)
	}
	k.t.For(z.n, 4, castBlock, func(lo, hi int) {
		b := castBuffers.Get().(*castBuffer)
		defer castBuffers.Put(b)
		for ; lo < hi; lo += castBlock {
			part := b.floats[:min(castBlock, hi-lo)]
			f(lo, part)
			to.fromFloats(z, lo, part)
		}
	})
	return nil
}
