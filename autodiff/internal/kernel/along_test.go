package kernel

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// TestAlong holds what goes along a dimension to a sequence by itself, in few elements and in many, side
// by side and one after the other.
func TestAlong(t *testing.T) {
	nan, inf, least := math.NaN(), math.Inf(1), math.Copysign(0, -1)
	t.Run("f32", func(t *testing.T) {
		testAlong(t, 0, float32(least), 1, float32(nan), float32(inf), -float32(inf), -1, 1e-45, math.MaxFloat32)
	})
	t.Run("f64", func(t *testing.T) { testAlong(t, 0, least, 1, nan, inf, -inf, -1, 1e-320, math.MaxFloat64) })
	t.Run("i32", func(t *testing.T) { testAlong[int32](t, 0, 1, -1, 256, math.MaxInt32, math.MinInt32, 7) })
	t.Run("i64", func(t *testing.T) { testAlong[int64](t, 0, 1, -1, 256, math.MaxInt64, math.MinInt64, 1<<40) })
}

func testAlong[T Number](t *testing.T, special ...T) {
	defer cpu.Limit(cpu.Best())
	for round, s := range [][3]int{{1, 1, 1}, {9, 5, 1}, {3, 48, 1}, {2, 49, 2}, {2, 300, 3}, {3, 100, 1}, {1, 9000, 1}, {2, 3, 1500}} {
		outer, n, inner := s[0], s[1], s[2]
		x := make([]T, outer*n*inner)
		for i, v := range uniform[float64](len(x), uint64(round)) {
			x[i] = T(v * 1000)
			if k := i * 7919 % 97; k < 3*len(special) && round%2 == 0 { // many equals
				x[i] = special[k%len(special)]
			}
		}
		for _, rows := range []cpu.ISA{cpu.Go, cpu.Best()} {
			cpu.Limit(rows)
			sorted, at := [2][]T{make([]T, len(x)), make([]T, len(x))}, [2][]int64{make([]int64, len(x)), make([]int64, len(x))}
			best, place := [2][]T{make([]T, outer*inner), make([]T, outer*inner)}, [2][]int64{make([]int64, outer*inner), make([]int64, outer*inner)}
			prod := make([]T, outer*inner)
			for i, reversed := range []bool{false, true} {
				Sort(3, sorted[i], at[i], x, Axis{outer, n, inner}, reversed)
				Best(3, best[i], place[i], x, Axis{outer, n, inner}, reversed)
			}
			Prod(3, prod, x, Axis{outer, n, inner})
			for r := range outer * inner {
				from := r/inner*n*inner + r%inner
				var row []T
				p := T(1)
				for i := range n {
					row = append(row, x[from+i*inner])
					p *= row[i]
				}
				same(t, p, prod[r])
				for i, reversed := range []bool{false, true} {
					k := bestIn(row, reversed)
					require.EqualValues(t, k, place[i][r], "%v, smallest: %v", s, reversed)
					same(t, row[k], best[i][r])
					for k, want := range orderOf(row, reversed) {
						require.EqualValues(t, want, at[i][from+k*inner], "%v, place %d, descending: %v", s, k, reversed)
						same(t, row[want], sorted[i][from+k*inner])
					}
				}
			}
		}
	}
}

// same tells zeros apart, but not NaNs.
func same[T Number](t *testing.T, want, got T) {
	t.Helper()
	if want == want || got == got {
		require.Equal(t, math.Float64bits(float64(want)), math.Float64bits(float64(got)))
	}
}

func bestIn[T Number](row []T, smallest bool) (at int) {
	for i, v := range row {
		if v != v {
			return i
		}
		if v > row[at] && !smallest || v < row[at] && smallest {
			at = i
		}
	}
	return at
}

func orderOf[T Number](row []T, descending bool) []int {
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		c := cmp.Compare(row[a], row[b])
		if row[a] != row[a] || row[b] != row[b] { // cmp puts a NaN first
			c = -c
		}
		if descending {
			return -c
		}
		return c
	})
	return order
}

func TestSumInts(t *testing.T) {
	for _, s := range [][3]int{{3, 1000, 1}, {2, 3, 1}, {2, 300, 2}, {2, 5, 1500}} {
		outer, n, inner := s[0], s[1], s[2]
		x, z := make([]int32, outer*n*inner), make([]int32, outer*inner)
		for i := range x {
			x[i] = int32(uint32(i) * 2654435761)
		}
		SumInts(3, z, x, Axis{outer, n, inner})
		for r := range z {
			var want int32
			for i := range n {
				want += x[r/inner*n*inner+i*inner+r%inner]
			}
			require.Equal(t, want, z[r], "%v", s)
		}
	}
}
