package plans_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Products of bf16 are taken two at a time only where no sum can be subnormal:
// factors just above and below where that is, among them subnormal ones, zeros of
// both signs, infinities and NaNs, in every layout, few rows and many, sums that
// cancel, depths that are odd or more than a copy has.
func TestProductsOfPairs(t *testing.T) {
	const together = -126 + 2*(127+7) // the exponents of the least factors, as they are stored
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for number := range 250 {
		m, k, n := 1+rng.IntN(30), rng.IntN(90), 1+rng.IntN(50)
		switch rng.IntN(6) {
		case 0:
			m, n = 280+rng.IntN(60), 1+rng.IntN(20)
		case 1:
			k = 200 + rng.IntN(1400)
		case 2:
			n = 240 + rng.IntN(50)
		}
		c, err := testcase.NewCase(testcase.NewSource(uint64(number), testcase.Large), fmt.Sprintf(
			"matmul input=bf16[%d,%d] other=bf16[%d,%d] bias=%s y=bf16", m, k, k, n, []string{"none", "bf16", "f32"}[rng.IntN(3)]))
		require.NoError(t, err)
		first := 1 + rng.IntN(together-2)
		second := together - first + rng.IntN(3) - 1 // one less is too small
		rare := []int{40, 4000, 1 << 30}[rng.IntN(3)]
		switch rng.IntN(6) {
		case 0, 1:
			first, second = 100+rng.IntN(30), 100+rng.IntN(30)
		case 2: // what is subnormal makes products that are not
			first, second, rare = 1, together+rng.IntN(60), 40
		}
		cancel := rng.IntN(2) == 0 // down to the last bit: few digits, one exponent, few terms
		for i, smallest := range []int{first, second} {
			smallest = min(max(smallest, 1), 250)
			spread, digits, zeros := 1+rng.IntN(min(12, 255-smallest)), 1<<7, 0.2
			if cancel {
				spread, digits, zeros = 1, 3, 1-2/math.Sqrt(float64(max(k, 4)))
			}
			for at := 0; at < len(c.Args[i].Before); at += 2 {
				bits := uint16(rng.IntN(2))<<15 | uint16(smallest+rng.IntN(spread))<<7 | uint16(rng.IntN(digits))
				switch rng.IntN(rare) {
				case 0:
					bits &= 0x807f // subnormal
				case 1:
					bits |= 0x7f80 // a NaN
				case 2:
					bits = bits&0x8000 | 0x7f80
				}
				if rng.Float64() < zeros {
					bits &= 0x8000
				}
				binary.NativeEndian.PutUint16(c.Args[i].Before[at:], bits)
			}
		}
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			layout := layouts[rng.IntN(len(layouts))]
			o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + rng.IntN(3)}, Layout: layout.layout, Memory: testcase.Memory(1 + rng.IntN(2))}
			got, err := c.Run(o)
			require.NoError(t, err)
			require.NoError(t, c.Compare(got, want), "%s\n%s %s, exponents from %d and %d", c.Text, row, layout.name, first, second)
		}
	}
}
