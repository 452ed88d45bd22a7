package cpu_test

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Extremes stay, in whichever lane they are, when further elements come: a row
// that went on for zeros behind the last lane took a largest value away.
func TestExtremesOfAnyLaneStay(t *testing.T) {
	table := &tables[len(wholeTables)-1]
	for _, types := range table.types {
		forRows(t, table, types, func(t *testing.T, row *cpu.Row[cpu.Striped], _ *rand.Rand) {
			d := types[0]
			kernel, _ := row.Pick(cpu.Types{Compute: compute(types), In: cpu.InTypes{d}})
			data := make([]byte, 64*d.Size())
			put(data, d, 0, 100)
			add := func(n int, pos int64) {
				a := &cpu.Args{Scratch: scratch}
				a.In[0] = cpu.Span{P: unsafe.Pointer(&data[0]), Stride: d.Size(), DType: d}
				kernel(n, pos, a)
			}
			for _, extreme := range []float64{100, -100} {
				for pos := range int64(64) {
					for lane := range int64(64) {
						for i := range 2 {
							clear(cpu.LanesOf[float64](scratch, i)[:])
						}
						put(data, d, 0, extreme)
						add(1, pos)
						put(data, d, 0, 0)
						add(1+int(lane)%7, lane)
						if got := foldedExtremes(compute(types)); got != [2]float64{min(extreme, 0), max(extreme, 0)} {
							t.Fatalf("%v at lane %d, then zeros from lane %d on: %v", extreme, pos, lane, got)
						}
					}
				}
			}
		})
	}
}

func foldedExtremes(d tensor.DType) [2]float64 {
	if d == tensor.F64 {
		return cpu.FoldMinMax(cpu.BothLanes[float64](scratch))
	}
	e := cpu.FoldMinMax(cpu.BothLanes[float32](scratch))
	return [2]float64{float64(e[0]), float64(e[1])}
}
