package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Products of few rows take the columns of a weight where they lie, a square or two
// at a time, from a cache or from memory: in pieces along K, with remainders along K
// and across. Where rows lie one after the other, they take wide panels of those. Zeros make
// rows up to a multiple of four.
func TestProductsOfFewRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, dtype := range []string{"f32", "bf16", "f16", "f64"} {
		for number := range 24 {
			m, k, n, layout := 1+rng.IntN([]int{4, 26}[number/4%2]), 1+rng.IntN(600), 1+rng.IntN(150), testcase.Layout(testcase.Transposed)
			switch number % 4 {
			case 0:
				m, k = 1+rng.IntN([]int{2, 26}[number/4%2]), 500+rng.IntN(3800)
			case 1:
				m, k, n, layout = 1+rng.IntN([]int{7, 50}[number/4%2]), 1+rng.IntN(140), 30+rng.IntN(400), nil
			}
			c, err := testcase.NewCase(testcase.NewSource(rng.Uint64(), testcase.Large), fmt.Sprintf(
				"matmul input=%s[%d,%d] other=%[1]s[%[3]d,%[4]d] bias=%[5]s y=%[1]s", dtype, m, k, n, []string{"none", dtype}[rng.IntN(2)]))
			require.NoError(t, err)
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				for _, far := range []int64{0, 1 << 40} {
					restore := plans.SetStreamFrom(far)
					o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + rng.IntN(3)}, Layout: layout, Memory: testcase.Memory(1 + rng.IntN(2))}
					same(t, c, o, want, fmt.Sprintf("%s, from %d bytes on from memory", row, far))
					restore()
				}
			}
		}
	}
}
