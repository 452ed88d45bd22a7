package cpu_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

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
						(&runs{run: x, length: x.n, steps: 1, strands: 1}).check(t, row)
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
