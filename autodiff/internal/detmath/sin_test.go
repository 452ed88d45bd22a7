package detmath

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// bigPi is Machin's: pi = 16*arctan(1/5) - 4*arctan(1/239), in units of 2^-1300.
var bigPi = func() *big.Int {
	arctan := func(inverse int64) *big.Int {
		power := new(big.Int).Lsh(big.NewInt(1), 1300)
		power.Quo(power, big.NewInt(inverse))
		sum := new(big.Int)
		for n := int64(1); power.Sign() != 0; n += 2 {
			sum.Add(sum, new(big.Int).Quo(power, big.NewInt(n*(2-n%4))))
			power.Quo(power, big.NewInt(inverse*inverse))
		}
		return sum
	}
	return new(big.Int).Sub(new(big.Int).Lsh(arctan(5), 4), new(big.Int).Lsh(arctan(239), 2))
}()

// bigSin returns the sine of x and, a quarter of a turn on, its cosine, to 200 bits.
func bigSin(x float64) (sin, cos *big.Float) {
	wide := func() *big.Float { return new(big.Float).SetPrec(1300) }
	quarter := wide().SetMantExp(wide().SetInt(bigPi), -1301)
	k, _ := wide().Quo(wide().SetFloat64(x), quarter).Int(nil)
	r := wide().Sub(wide().SetFloat64(x), wide().Mul(wide().SetInt(k), quarter)).SetPrec(200)
	square := new(big.Float).Mul(r, r)
	series := func(term *big.Float, n int64) *big.Float {
		sum := new(big.Float).Set(term)
		for ; n < 60; n += 2 {
			term = new(big.Float).Neg(term.Mul(term, square))
			sum.Add(sum, term.Quo(term, new(big.Float).SetInt64(n*(n+1))))
		}
		return sum
	}
	sin, cos = series(r, 2), series(new(big.Float).SetPrec(200).SetInt64(1), 1)
	for range new(big.Int).And(k, big.NewInt(3)).Int64() {
		sin, cos = cos, new(big.Float).Neg(sin)
	}
	return sin, cos
}

// TestSinAndCos compares with 200 bits: numbers of every size, those beside multiples of pi/4, that of f64 which is
// nearest to a multiple of pi/2, 6381956970095103 * 2^797, and one near to it whose words' sum carries, 0x1.839f85a9a07e6p27.
func TestSinAndCos(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := []float64{6381956970095103 * 0x1p797, 0x1.839f85a9a07e6p27, math.MaxFloat64, 0x1p-1022, 5e-324, 0x1p-27, 22, 99999.99999999999, 1e5, 355, 710, 0x1.921fb54442d18p62}
	for range 500 {
		near := float64(r.IntN(1<<r.IntN(20))) * (math.Pi / 4)
		x = append(x, r.Float64(), r.NormFloat64()*30, r.Float64()*1e5, r.Float64()*1e12, near, math.Nextafter(near, 1e9),
			float64(math.Float32frombits(r.Uint32N(0x7f800000))), math.Float64frombits(r.Uint64N(0x7ff0<<48)))
	}
	for _, x := range x {
		sin, cos := bigSin(x)
		for _, c := range []struct {
			name string
			got  float64
			want *big.Float
		}{{"sin", Sin(x), sin}, {"-sin", -Sin(-x), sin}, {"cos", Cos(x), cos}, {"cos, from below", Cos(-x), cos}} {
			want, _ := c.want.Float64()
			off, _ := new(big.Float).Sub(c.want, new(big.Float).SetFloat64(c.got)).Float64()
			if last := math.Nextafter(math.Abs(want), 2) - math.Abs(want); !(math.Abs(off) < last || off == 0) {
				t.Errorf("%s of %v is %v, want %v", c.name, x, c.got, want)
			}
			if want, _ := c.want.Float32(); float32(c.got) != want {
				t.Errorf("%s of %v is %v in float32, want %v", c.name, x, float32(c.got), want)
			}
		}
	}
}
