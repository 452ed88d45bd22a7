package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var (
	groupSizes  = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 192, 200, 256, 1000}
	groupCounts = []int{1, 2, 3, 4, 15, 17, 100}
)

// Sums of short groups are those of lanes that terms fall to in turn.
func TestGroupSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range groupSizes {
		for _, count := range groupCounts {
			var drawn, want [2][]float32
			for i := range drawn {
				for range n * count { // not -0
					v := float32(r.NormFloat64() * math.Pow(2, float64(r.IntN(20)-10)))
					drawn[i] = append(drawn[i], []float32{v, v, v, 0}[r.IntN(4)])
				}
				drawn[i][r.IntN(n*count)] = []float32{1, float32(math.Inf(1)), float32(math.NaN())}[r.IntN(3)]
				for g := range count {
					lanes := cpu.LanesOf[float32](scratch, i)
					clear(lanes[:])
					cpu.AddStripe(lanes, 0, drawn[i][g*n:][:n])
					want[i] = append(want[i], cpu.FoldLanes(lanes))
				}
			}
			for _, row := range cpu.GroupSumRows[float32]() {
				if fold, ok := row.Pick(cpu.Types{}); ok && row.Needs <= cpu.Best() {
					terms, got := guardedPair(drawn[0], drawn[1]), guardedPair(make([]float32, count), make([]float32, count))
					fold(terms, n, got)
					sameResults(t, got, want, fmt.Sprintf("%s: sums of %d groups of %d", row.Name, count, n))
				}
			}
		}
	}
}

// Sums of groups side by side are those of their lanes, of which the last may not be in use.
func TestColumnFold(t *testing.T) {
	columnFold[float32](t)
	columnFold[float64](t)
}

func columnFold[C cpu.Compute](t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	special := []C{0, C(math.Inf(1)), C(math.Inf(-1)), C(math.NaN())}
	for _, row := range cpu.ColumnFoldRows[C]() {
		fold, ok := row.Pick(cpu.Types{})
		if !ok || row.Needs > cpu.Best() {
			continue
		}
		for _, width := range []int{1, 3, 7, 8, 15, 16, 17, 33, 64, 100, 512} {
			for rows := 1; rows <= cpu.Lanes; rows++ {
				columns := cpu.ColumnsOf[C](scratch, cpu.Lanes, width)
				want := [2][]C{make([]C, width), make([]C, width)}
				for i, sums := range columns.Sums {
					for column := range width {
						var lanes [cpu.Lanes]C
						for lane := range rows {
							lanes[lane] = C(r.NormFloat64() * math.Pow(2, float64(r.IntN(20)-10)))
							if r.IntN(300) == 0 {
								lanes[lane] = special[r.IntN(len(special))]
							}
							sums[lane*width+column] = lanes[lane]
						}
						for lane := rows; lane < cpu.Lanes; lane++ {
							sums[lane*width+column] = C(math.NaN()) // is not read
						}
						want[i][column] = cpu.FoldLanes(&lanes)
					}
				}
				fold(columns, rows)
				got := [2][]C{columns.Sums[0][:width], columns.Sums[1][:width]}
				sameResults(t, got, want, fmt.Sprintf("%s: %d rows of %d", row.Name, rows, width))
			}
		}
	}
}

// Extremes of short groups are the definition's, for elements of any bits.
func TestGroupExtremes(t *testing.T) {
	groupExtremes[float32](t, tensor.F32, tensor.F16, tensor.BF16)
	groupExtremes[float64](t, tensor.F64)
}

func groupExtremes[C cpu.Compute](t *testing.T, types ...tensor.DType) {
	r := rand.New(rand.NewPCG(5, 6))
	table := cpu.GroupExtremeRows[C]()
	definition, _ := table[len(table)-1].Pick(cpu.Types{})
	for _, d := range types {
		for _, n := range groupSizes {
			for _, count := range groupCounts {
				data := values(r, d, n*count, 1, false)
				for i := range n * count {
					if r.IntN(2*n) > 0 { // few NaNs, some groups without a sign
						put(data, d, i, math.Abs(r.NormFloat64())*float64(1-2*(i/n%3/2)))
					}
				}
				x := cpu.Span{Stride: d.Size(), DType: d, P: unsafe.Pointer(&guard(data, true)[0])}
				want := guardedPair(make([]C, count), make([]C, count))
				definition(scratch, x, n, want)
				for _, row := range table {
					if extremes, ok := row.Pick(cpu.Types{In: cpu.InTypes{d}}); ok && row.Needs <= cpu.Best() {
						got := guardedPair(make([]C, count), make([]C, count))
						extremes(scratch, x, n, got)
						sameResults(t, got, want, fmt.Sprintf("%s: extremes of %d groups of %d %s", row.Name, count, n, d))
					}
				}
				releaseGuards()
			}
		}
	}
}

func sameResults[C cpu.Compute](t *testing.T, got, want [2][]C, what string) {
	t.Helper()
	for i := range got {
		for g, a := range got[i] {
			b := want[i][g]
			require.True(t, a == b || a != a && b != b, "%s: result %d of group %d is %v, want %v", what, i, g, a, b)
		}
	}
}

// guardedPair copies to memory that ends where a page ends that is followed by
// none.
func guardedPair[C cpu.Compute](a, b []C) (pair [2][]C) {
	for i, v := range [][]C{a, b} {
		memory := guard(unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), int(unsafe.Sizeof(v[0]))*len(v)), true)
		pair[i] = unsafe.Slice((*C)(unsafe.Pointer(&memory[0])), len(v))
	}
	return pair
}
