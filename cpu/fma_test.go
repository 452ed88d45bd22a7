package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFMA holds the fused step of float32 against arithmetic of any precision, most of all where
// the exact result lies beside a tie.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fma := func(x, y, z float32) float32 {
		sum := []float32{z}
		fuseInto(sum, x, []float32{y})
		return sum[0]
	}
	draw := func() float32 {
		switch r.IntN(8) {
		case 0:
			return math.Float32frombits(r.Uint32()) // of any size
		case 1:
			return float32(r.IntN(9) - 4)
		case 2:
			return math.Float32frombits(r.Uint32() & 0x80FFFFFF) // small ones
		}
		return float32(r.IntN(1<<24)-1<<23) * float32(math.Ldexp(1, r.IntN(60)-40))
	}
	for range 300000 {
		x, y, z := draw(), draw(), draw()
		if r.IntN(2) == 0 { // almost cancelled, or half a bit away from it
			z = -x * y * float32(1+math.Ldexp(float64(r.IntN(5)-2), -24))
		}
		got := fma(x, y, z)
		if f := float64(x) * float64(y) * float64(z); f-f != 0 || math.IsInf(float64(x)*float64(y), 0) {
			continue
		}
		exact := new(big.Float).SetPrec(1000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		want, _ := exact.Add(exact, big.NewFloat(float64(z))).Float32()
		require.Equal(t, want, got+0, "fma(%x, %x, %x)", x, y, z)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range [][4]float32{
		{inf, 1, 2, inf}, {1, 2, -inf, -inf}, {inf, 0, 1, nan}, {inf, 1, -inf, nan}, {nan, 0, 0, nan},
		{math.MaxFloat32, math.MaxFloat32, 0, inf}, {math.MaxFloat32, 2, -math.MaxFloat32, math.MaxFloat32},
	} {
		got := fma(c[0], c[1], c[2])
		require.True(t, got == c[3] || got != got && c[3] != c[3], "fma(%v, %v, %v) = %v", c[0], c[1], c[2], got)
	}
}
