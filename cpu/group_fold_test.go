package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// The folds of short groups give the definition's bits: the sums those of
// lanes, the extremes those of one group at a time.
func TestGroupFolds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 7, 8, 9, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 192, 200, 256} {
		for _, count := range []int{1, 2, 3, 17} {
			for _, table := range []struct {
				rows     []cpu.Row[cpu.GroupFold[float32]]
				extremes bool
			}{{cpu.GroupSumRows32, false}, {cpu.GroupExtremeRows32, true}} {
				terms := drawTerms(r, n*count, table.extremes)
				want := foldOneByOne(terms, n, count, table.extremes)
				for _, row := range table.rows {
					if row.Needs > cpu.Best() {
						continue
					}
					fold, _ := row.Pick(cpu.Types{})
					var in, got [2][]float32
					for i := range in {
						in[i], got[i] = guardedCopy(terms[i]), guardedCopy(make([]float32, count))
					}
					fold(in, n, got)
					for i := range got {
						for g := range got[i] {
							a, b := got[i][g], want[i][g]
							require.True(t, a == b || a != a && b != b, "%s: result %d of group %d of %d: %v, want %v", row.Name, i, g, n, a, b)
							require.False(t, a == 0 && math.Signbit(float64(a)) && !table.extremes, "a sum is -0")
						}
					}
					releaseGuards()
				}
			}
		}
	}
}

// drawTerms draws what kernels leave: no -0, and extremes on their side of 0.
func drawTerms(r *rand.Rand, n int, extremes bool) (terms [2][]float32) {
	for i := range terms {
		for range n {
			v := float32(r.NormFloat64() * math.Pow(2, float64(r.IntN(20)-10)))
			switch p := r.IntN(400); {
			case p == 0:
				v = float32(math.Inf(1 - 2*r.IntN(2)))
			case p == 1 && !extremes || p < 8 && extremes && i == 1:
				v = math.Float32frombits(0x7fc00000 | r.Uint32()&0x803fffff)
			case p < 40:
				v = 0
			}
			if extremes && v == v && (v > 0) == (i == 0) && v != 0 {
				v = -v
			}
			terms[i] = append(terms[i], v)
		}
	}
	return terms
}

func foldOneByOne(terms [2][]float32, n, count int, extremes bool) (results [2][]float32) {
	s := new(cpu.Scratch)
	for g := range count {
		var both [2]float32
		for i := range both {
			lanes := cpu.LanesOf[float32](s, i)
			clear(lanes[:])
			if !extremes {
				cpu.AddStripe(lanes, 0, terms[i][g*n:][:n])
				both[i] = cpu.FoldLanes(lanes)
			}
		}
		for p := g * n; extremes && p < (g+1)*n; p++ {
			cpu.MergeMinMax(&both[0], &both[1], terms[0][p], terms[1][p])
		}
		for i := range both {
			results[i] = append(results[i], both[i])
		}
	}
	return results
}

// guardedCopy copies to memory that ends where a page ends that is followed by
// none.
func guardedCopy(v []float32) []float32 {
	memory := guard(unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v)), true)
	return unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), len(v))
}
