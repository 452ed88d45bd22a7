package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// Many parameters that are chosen at a time are those that the definition chooses for
// each range.
func TestChooseParams(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	bound := func() float32 {
		v := float32(math.Abs(special[r.IntN(len(special))]))
		if r.IntN(4) > 0 {
			v = float32(math.Ldexp(r.Float64(), r.IntN(60)-30))
		}
		return v
	}
	choose := cpu.ChooseParamsRows[float32]()
	definition, _ := choose[len(choose)-1].Pick(cpu.Types{})
	for _, row := range choose[:len(choose)-1] {
		if row.Needs > cpu.Best() {
			continue
		}
		kernel, _ := row.Pick(cpu.Types{})
		for range 5000 {
			n := r.IntN(40)
			var want, got [2][]float32
			for range n {
				lo, hi := 0-bound(), bound()
				cpu.MergeMinMax(&lo, &hi, 0, 0) // NaN in both
				if lo != lo {
					hi = lo
				}
				want[0], want[1] = append(want[0], lo), append(want[1], hi)
			}
			for i := range got {
				got[i] = append(got[i], want[i]...)
			}
			codes := cpu.Codes[float32]{QMin: float32(-r.IntN(256)), QMax: float32(1 + r.IntN(255)), Symmetric: r.IntN(2) == 0}
			if r.IntN(2) == 0 {
				codes.Eps = float32(math.Ldexp(r.Float64(), r.IntN(60)-30))
			}
			definition(want, codes)
			kernel(got, codes)
			for i := range want {
				require.Equal(t, canonical(want[i]), canonical(got[i]), "%s: %+v", row.Name, codes)
			}
		}
	}
}

// canonical returns bits, those of NaN being the same.
func canonical(v []float32) (bits []uint32) {
	for _, x := range v {
		if x != x {
			x = float32(math.NaN())
		}
		bits = append(bits, math.Float32bits(x))
	}
	return bits
}
