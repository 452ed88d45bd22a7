package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Rows that multiply by what they make of the scale give the codes of a
// division: beside every tie, for scales of any size and sign.
func TestRowsBesideTies(t *testing.T) {
	for _, table := range tables {
		if !slices.Contains([]string{"quantize", "quantize to floats", "fake quantize"}, table.name) {
			continue
		}
		t.Run(table.name, func(t *testing.T) {
			for _, types := range table.types {
				forRows(t, &table, types, func(t *testing.T, row *cpu.Row[cpu.Striped], r *rand.Rand) {
					for i := range 64 {
						x := besideTies(&table, types, r, i)
						x.check(t, row)
						x.inPlace = -1
						(&runs{run: x, length: x.n, steps: 1, strands: 1, rounds: 1}).check(t, row)
					}
				})
			}
		})
	}
}

// besideTies draws a run with one scale, the elements of which lie on ties and
// on both sides of them, one and two units in the last place away.
func besideTies(table *tableTest, types [3]tensor.DType, r *rand.Rand, number int) *run {
	x := newRun(table, types, r, 700*5)
	d := table.data
	x.step, x.outStep = [4]int{1}, 1
	x.types.Attrs.Reciprocal = number%16 == 0
	x.types.In[d] = tensor.F32
	exponents := []int{-149, -130, -61, -60, -59, -10, -7, -4, -1, 0, 1, 5, 59, 60, 61, 100, 127}
	significands := []float64{1, 1 + 0x1p-23, 2 - 0x1p-23, 1.5, 1 + r.Float64(), 1 + r.Float64(), 1 + r.Float64()}
	scale := math.Ldexp(significands[r.IntN(len(significands))], exponents[r.IntN(len(exponents))])
	if r.IntN(16) == 0 {
		scale = -scale
	}
	x.in[d] = make([]byte, 4*x.n)
	put(x.in[d], tensor.F32, 0, scale)
	scale = float64(float32(scale))
	for i := range x.n {
		v := float32((float64(i/5) - 350 + 0.5) * scale)
		for range i%5 - 2 {
			v = math.Nextafter32(v, float32(math.Inf(1)))
		}
		for range 2 - i%5 {
			v = math.Nextafter32(v, float32(math.Inf(-1)))
		}
		if r.IntN(50) == 0 {
			v = float32(special[r.IntN(len(special))])
		}
		put(x.in[d-1], types[d-1], i, float64(v))
	}
	return x
}

// So do rows of which each element has a scale, and all have the same ones.
func TestColumnsBesideTies(t *testing.T) {
	for _, table := range tables {
		if !slices.Contains([]string{"quantize", "quantize to floats", "fake quantize"}, table.name) {
			continue
		}
		t.Run(table.name, func(t *testing.T) {
			for _, types := range table.types {
				if compute(types) == tensor.F64 {
					continue
				}
				forRows(t, &table, types, func(t *testing.T, row *cpu.Row[cpu.Striped], r *rand.Rand) {
					for _, n := range []int{63, 64, 79, 80, 200, 1040} {
						columnsBesideTies(t, &table, types, row, r, n)
					}
				})
			}
		})
	}
}

func columnsBesideTies(t *testing.T, table *tableTest, types [3]tensor.DType, row *cpu.Row[cpu.Striped], r *rand.Rand, n int) {
	defer releaseGuards()
	const steps = 33
	x := newRun(table, types, r, n*steps)
	size := int(x.types.Compute.Size())
	scales, zeros := make([]byte, n*size), make([]byte, n*size)
	odd := oneOf(r, -1, -1, r.IntN(n)) // the column that has no quick codes
	for i := range n {
		scale := float64(float32(math.Ldexp(oneOf(r, 1, 1+0x1p-23, 2-0x1p-23, 1.25, 1.375, 1.625, 1.75, 1+r.Float64()), oneOf(r, -60, -10, -1, 0, 5, 59))))
		if i == odd {
			scale = oneOf(r, 0, -scale, math.NaN(), math.Inf(1), 0x1p-61, 0x1p61)
		}
		put(scales, x.types.Compute, i, scale)
		put(zeros, x.types.Compute, i, math.Round(x.lo+r.Float64()*(x.hi-x.lo))+0)
		for step := range steps {
			level := float64(r.IntN(700)-350) + 0.5
			if r.IntN(20) == 0 {
				level = math.Ldexp(level, r.IntN(24)) // beyond what bounds of quick codes are
			}
			v := float32(level * scale)
			for range r.IntN(3) {
				v = math.Nextafter32(v, float32(math.Inf(oneOf(r, -1, 1))))
			}
			if r.IntN(50) == 0 {
				v = float32(special[r.IntN(len(special))])
			}
			put(x.in[0], types[0], step*n+i, float64(v))
		}
	}
	x.types.In[1], x.types.In[2], x.types.Attrs.Reciprocal = x.types.Compute, x.types.Compute, r.IntN(3) == 0
	zeroStride := oneOf(r, int64(size), 0)
	call := func(kernel cpu.Striped, all bool) []byte {
		output := guard(make([]byte, x.n*int(types[2].Size())), true)
		a := &cpu.Args{Lo: x.lo, Hi: x.hi, Attrs: x.types.Attrs, Scratch: scratch, Ready: true, Stream: x.stream && all, Ahead: x.ahead}
		span := func(data []byte, d tensor.DType, stride int64) cpu.Span {
			return cpu.Span{P: unsafe.Pointer(&guard(data, true)[0]), DType: d, Stride: stride}
		}
		a.In[0] = span(x.in[0], types[0], types[0].Size())
		a.In[1], a.In[2] = span(scales, x.types.Compute, int64(size)), span(zeros, x.types.Compute, zeroStride)
		a.Out[0] = cpu.Span{P: unsafe.Pointer(&output[0]), DType: types[2], Stride: types[2].Size()}
		if all {
			a.Runs = cpu.Runs{Steps: steps, Strands: 1}
			a.Runs.Step[0], a.Runs.Step[len(a.In)] = int64(n)*types[0].Size(), int64(n)*types[2].Size()
			kernel(n, 0, a)
			return slices.Clone(output)
		}
		for step := range steps {
			one := *a
			one.In[0], one.Out[0] = a.In[0].At(int64(step*n)), a.Out[0].At(int64(step*n))
			kernel(n, 0, &one)
		}
		return slices.Clone(output)
	}
	definition, _ := table.rows[len(table.rows)-1].Pick(x.types)
	kernel, _ := row.Pick(x.types)
	compareBits(t, types[2], call(kernel, true), call(definition, false), "output", func() string {
		return fmt.Sprintf("n=%d odd=%d zeros %d bytes apart, stream=%v types=%v bounds=[%v, %v]", n, odd, zeroStride, x.stream, x.types, x.lo, x.hi)
	})
}
