package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every row finds the first index that names none, wherever it is, and no other.
func TestFirstOutside(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, row := range FirstOutside {
		if row.Needs > Best() {
			continue
		}
		f, _ := row.Pick(Types{})
		for range 2000 {
			last := []int64{-1, 0, 1, 5, math.MaxInt32 - 1, math.MaxInt32}[r.IntN(6)]
			wide, narrow := make([]int64, r.IntN(200)), []int32{}
			want := int64(-1)
			for i := range wide {
				wide[i] = []int64{-1, math.MinInt32, min(last+1, math.MaxInt32), math.MaxInt32}[r.IntN(4)]
				if last >= 0 && r.IntN(100) > 0 {
					wide[i] = r.Int64N(last + 1)
				}
				if want < 0 && (wide[i] < 0 || wide[i] > last) {
					want = int64(i)
				}
				narrow = append(narrow, int32(wide[i]))
			}
			require.Equal(t, want, f.I64(wide, last), "%s %v %d", row.Name, wide, last)
			require.Equal(t, want, f.I32(narrow, int32(last)), "%s %v %d", row.Name, narrow, last)
		}
		for _, v := range []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64, 1 << 32} {
			long := make([]int64, 2*indicesPart+70)
			for _, at := range []int{0, 63, indicesPart - 1, indicesPart, 2*indicesPart + 64, 2*indicesPart + 69} {
				long[at] = v
				require.Equal(t, int64(at), f.I64(long, 7), row.Name)
				require.Equal(t, int64(-1), f.I64(long[:at], 7), row.Name)
				long[at] = 7
			}
		}
	}
}

// Every row finds a leap, wherever it is, and none where there is none.
func TestLeaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, row := range FirstOutside {
		if row.Needs > Best() {
			continue
		}
		f, _ := row.Pick(Types{})
		for range 4000 {
			n, most := r.IntN(200), r.Int64N(5)
			wide, narrow := make([]int64, n), []int32{}
			for i := range wide {
				if wide[i] = math.MaxInt32 - 1000; i > 0 {
					wide[i] = wide[i-1] + r.Int64N(most+1)
				}
				if r.IntN(300) == 0 {
					wide[i] += []int64{-1, 1, most + 1, math.MinInt32, -math.MaxInt32}[r.IntN(5)]
				}
				wide[i] = int64(int32(wide[i]))
				narrow = append(narrow, int32(wide[i]))
			}
			require.Equal(t, leaps(wide, most), f.LeapsI64(wide, most), "%s %v %d", row.Name, wide, most)
			require.Equal(t, leaps(narrow, int32(most)), f.LeapsI32(narrow, int32(most)), "%s %v %d", row.Name, narrow, most)
		}
		for _, v := range []int64{-1, 6, 16, math.MinInt64, math.MaxInt64} {
			long := make([]int64, 2*indicesPart+70)
			for i := range long {
				long[i] = 7
			}
			for _, at := range []int{1, 31, 32, 33, 64, indicesPart - 1, indicesPart, indicesPart + 1, 2*indicesPart + 64, 2*indicesPart + 69} {
				long[at] = v
				require.True(t, f.LeapsI64(long[:at+1], 8), "%s %d %d", row.Name, at, v)
				require.False(t, f.LeapsI64(long[:at], 8), row.Name)
				long[at] = 7
			}
		}
	}
}

// Every row widens all indices, and writes nothing behind them.
func TestWiden(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, row := range Widen {
		if row.Needs > Best() {
			continue
		}
		f, _ := row.Pick(Types{})
		for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 100, indicesPart, indicesPart + 17, 2*indicesPart + 16} {
			from, to := make([]int32, n+3), make([]int64, n+1)
			for i := range from {
				from[i] = int32(r.Uint32())
			}
			to[n] = 7
			f(to[:n], from)
			for i, v := range from[:n] {
				require.Equal(t, int64(v), to[i], "%s %d of %d", row.Name, i, n)
			}
			require.Equal(t, int64(7), to[n], row.Name)
		}
	}
}
