package autodiff

import (
	"fmt"
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The CPU's loops that move elements.

func permuteOf[T kernel.Bits](k *call) error {
	kernel.Permute(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.in[0].shape, k.at.Axes)
	return nil
}

func expandOf[T kernel.Bits](k *call) error {
	kernel.Expand(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.out[0].shape, k.in[0].shape)
	return nil
}

func sliceOf[T kernel.Bits](k *call) error {
	kernel.Slice(elements[T](k.out[0]), elements[T](k.in[0]), k.out[0].shape, k.in[0].shape, k.at.Starts, k.at.Steps, false)
	return nil
}

func sliceInto[T kernel.Bits](k *call) error {
	z, part := elements[T](k.out[0]), k.in[1]
	copy(z, elements[T](k.in[0]))
	kernel.Slice(elements[T](part), z, part.shape, k.out[0].shape, k.at.Starts, k.at.Steps, true)
	return nil
}

func catOf[T kernel.Bits](k *call) error {
	_, total, inner := split(k.out[0].shape, k.at.Axis)
	at := 0
	for _, x := range k.in {
		outer, n, _ := split(x.shape, k.at.Axis)
		kernel.Cat(elements[T](k.out[0]), elements[T](x), outer, n, inner, at, total)
		at += n
	}
	return nil
}

// reader returns a function that reads indices.
func reader(t *cpuTensor) func(i int) int {
	if t.dtype == tensor.I32 {
		return func(i int) int { return int(elements[int32](t)[i]) }
	}
	return func(i int) int { return int(elements[int64](t)[i]) }
}

// checkIndices asks every index to lie in [0, n).
func checkIndices(t *cpuTensor, n int) error {
	bad := -1
	if t.dtype == tensor.I32 {
		bad = kernel.CheckIndex(elements[int32](t), n)
	} else {
		bad = kernel.CheckIndex(elements[int64](t), n)
	}
	if bad >= 0 {
		return notAnIndex(bad, int64(reader(t)(bad)), n)
	}
	return nil
}

// notAnIndex is the error of an index that does not lie in [0, n).
func notAnIndex(at int, index int64, n int) error {
	if n == 0 {
		return fmt.Errorf("index %d is %d; want none: there are no elements to choose from", at, index)
	}
	return fmt.Errorf("index %d is %d; want 0 to %d", at, index, n-1)
}

func gatherOf[T kernel.Bits](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	m := int(k.in[1].shape[k.at.Axis])
	z, x := elements[T](k.out[0]), elements[T](k.in[0])
	if k.in[1].dtype == tensor.I32 {
		kernel.Gather(k.t, z, x, elements[int32](k.in[1]), outer, n, m, inner)
	} else {
		kernel.Gather(k.t, z, x, elements[int64](k.in[1]), outer, n, m, inner)
	}
	return nil
}

func scatterAdd[T kernel.Float](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	m := int(k.in[1].shape[k.at.Axis])
	dst, done := scratch[int64](k.c)(k.in[1].n)
	defer done()
	if k.in[1].dtype == tensor.I32 {
		kernel.FlatIndex(dst, elements[int32](k.in[1]), outer, n, m, inner)
	} else {
		kernel.FlatIndex(dst, elements[int64](k.in[1]), outer, n, m, inner)
	}
	z := elements[T](k.out[0])
	copy(z, elements[T](k.in[0]))
	kernel.ScatterAdd(z, elements[T](k.in[2]), dst, len(z), 1)
	return nil
}

func selectOf[T kernel.Bits](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	z, x := elements[T](k.out[0]), elements[T](k.in[0])
	if k.in[1].dtype == tensor.I32 {
		kernel.Select(k.t, z, x, elements[int32](k.in[1]), outer, n, inner)
	} else {
		kernel.Select(k.t, z, x, elements[int64](k.in[1]), outer, n, inner)
	}
	return nil
}

func selectAddOf[T kernel.Float](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	z, y := elements[T](k.out[0]), elements[T](k.in[2])
	copy(z, elements[T](k.in[0]))
	m := k.in[1].n
	for o := range outer {
		zo, yo := z[o*n*inner:(o+1)*n*inner], y[o*m*inner:(o+1)*m*inner]
		if k.in[1].dtype == tensor.I32 {
			kernel.ScatterAdd(zo, yo, elements[int32](k.in[1]), n, inner)
		} else {
			kernel.ScatterAdd(zo, yo, elements[int64](k.in[1]), n, inner)
		}
	}
	return nil
}

// convert casts elements. Floats round to nearest, ties to even; to whole
// numbers they are cut towards zero, limited to what the type holds, NaN
// becoming 0. Wider whole numbers keep their lower bits.
func convert(t kernel.Threads, z, x *cpuTensor) {
	switch x.dtype {
	case tensor.F32:
		convertFrom(t, z, elements[float32](x), func(v float32) float64 { return float64(v) }, fromFloat)
	case tensor.F64:
		convertFrom(t, z, elements[float64](x), func(v float64) float64 { return v }, fromFloat)
	case tensor.F16:
		convertFrom(t, z, elements[tensor.F16Bits](x), func(v tensor.F16Bits) float64 { return float64(v.Float32()) }, fromFloat)
	case tensor.BF16:
		convertFrom(t, z, elements[tensor.BF16Bits](x), func(v tensor.BF16Bits) float64 { return float64(v.Float32()) }, fromFloat)
	case tensor.S8:
		convertFrom(t, z, elements[int8](x), func(v int8) int64 { return int64(v) }, fromInt)
	case tensor.I32:
		convertFrom(t, z, elements[int32](x), func(v int32) int64 { return int64(v) }, fromInt)
	case tensor.I64:
		convertFrom(t, z, elements[int64](x), func(v int64) int64 { return v }, fromInt)
	default: // u8 and bool
		convertFrom(t, z, elements[uint8](x), func(v uint8) int64 { return int64(v) }, fromInt)
	}
}

// fromFloat reads a float64 as both a float and a whole number.
func fromFloat(v float64) (float64, int64) {
	switch {
	case v != v:
		return v, 0
	case v >= 1<<63:
		return v, math.MaxInt64
	case v < -1<<63:
		return v, math.MinInt64
	}
	return v, int64(v)
}

// limited returns a whole number within bounds. What Go makes of one beyond its
// type depends on the processor.
func limited(v float64, lo, hi int64) int64 {
	_, whole := fromFloat(v)
	return min(max(whole, lo), hi)
}

func fromInt(v int64) (float64, int64) { return float64(v), v }

func convertFrom[T any, W float64 | int64](t kernel.Threads, z *cpuTensor, x []T, widen func(T) W, read func(W) (float64, int64)) {
	whole := func(v T) int64 { _, i := read(widen(v)); return i }
	float := func(v T) float64 { f, _ := read(widen(v)); return f }
	var zero W
	_, isFloat := any(zero).(float64)
	limit := func(lo, hi int64) func(v T) int64 {
		if !isFloat {
			return whole
		}
		return func(v T) int64 { return min(max(whole(v), lo), hi) }
	}
	switch z.dtype {
	case tensor.F32:
		kernel.Map(t, 4, elements[float32](z), x, func(v T) float32 {
			if isFloat {
				return float32(float(v))
			}
			return float32(whole(v)) // one rounding, not two
		})
	case tensor.F64:
		kernel.Map(t, 4, elements[float64](z), x, float)
	case tensor.F16:
		kernel.Map(t, 8, elements[tensor.F16Bits](z), x, func(v T) tensor.F16Bits { return tensor.ToF16(cpu.ToOdd(float(v))) })
	case tensor.BF16:
		kernel.Map(t, 8, elements[tensor.BF16Bits](z), x, func(v T) tensor.BF16Bits { return tensor.ToBF16(cpu.ToOdd(float(v))) })
	case tensor.S8:
		f := limit(math.MinInt8, math.MaxInt8)
		kernel.Map(t, 4, elements[int8](z), x, func(v T) int8 { return int8(f(v)) })
	case tensor.U8:
		f := limit(0, math.MaxUint8)
		kernel.Map(t, 4, elements[uint8](z), x, func(v T) uint8 { return uint8(f(v)) })
	case tensor.I32:
		f := limit(math.MinInt32, math.MaxInt32)
		kernel.Map(t, 4, elements[int32](z), x, func(v T) int32 { return int32(f(v)) })
	case tensor.I64:
		kernel.Map(t, 4, elements[int64](z), x, whole)
	default:
		kernel.Map(t, 4, elements[uint8](z), x, func(v T) uint8 { return truth(float(v) != 0) })
	}
}
