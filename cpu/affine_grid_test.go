package cpu

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What other ops left in a worker's memory, and what lies behind the base
// coordinates, is not taken for positions behind the last.
func TestAffineRowsStartAfresh(t *testing.T) {
	for _, size := range [][3]int64{{7, 9, 1}, {65, 1, 1}, {13, 100, 1}, {5, 7, 3}, {600, 2, 2}, {1, 700, 1}, {1, 30, 40}, {1, 1, 70}} {
		dims := 2
		if size[2] > 1 {
			dims = 3
		}
		n := size[0] * size[1] * size[2]
		grid, bases := make([]float32, int(n)*dims), new(AffineBases)
		for i := range bases.memory {
			bases.memory[i] = math.Float64frombits(math.MaxUint64)
		}
		for i := range bases.chunks {
			for j := range bases.chunks[i].planes {
				bases.chunks[i].planes[j] = math.Float64frombits(math.MaxUint64)
			}
		}
		for i := range grid {
			grid[i] = float32(math.Sin(float64(i)))
		}
		types := Types{Compute: tensor.F32, In: InTypes{tensor.F32}}
		step := int64(4 * dims)
		run := func(row Row[func(*AffineRun, []float32)]) []float32 {
			s := new(Scratch)
			for i := range s.blocks {
				for j := range s.blocks[i] {
					s.blocks[i][j] = math.Float64frombits(math.MaxUint64) // NaN in both types
				}
			}
			to := make([]float32, dims*(dims+1))
			kernel, _ := row.Pick(types)
			kernel(&AffineRun{
				Dims: dims, Size: size, Stop: n, Bases: bases, Scratch: s,
				Grid:   Rows{Span{unsafe.Pointer(&grid[0]), step, tensor.F32}, 4},
				Stride: [3]int64{step, step * size[0], step * size[0] * size[1]},
			}, to)
			return to
		}
		rows := AffineGridBackward[float32]()
		want := run(rows[len(rows)-1])
		for _, row := range rows {
			if row.Needs > Best() {
				continue
			}
			if got := run(row); !slices.Equal(got, want) {
				t.Errorf("%v, row %s: %v; want %v", size, row.Name, got, want)
			}
		}
	}
}
