package detmath

import (
	"math"
	"testing"
)

// ulps returns |got - want| in units of the last place of want.
func ulps(got, want float64) float64 {
	if got == want || got != got && want != want {
		return 0
	}
	return math.Abs(got-want) / (math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want))
}

func TestAgainstMath(t *testing.T) {
	cases := []struct {
		name      string
		got, want func(float64) float64
		lo, hi    float64
		limit     float64 // ulps
	}{
		{"exp", Exp, math.Exp, -740, 709, 2},
		{"expm1", Expm1, math.Expm1, -3, 3, 4},
		{"log", Log, math.Log, 1e-300, 1e3, 2},
		{"log near 1", Log, math.Log, 0.5, 2, 2},
		{"log1p", Log1p, math.Log1p, -0.9, 5, 4},
		{"tanh", Tanh, math.Tanh, -25, 25, 4},
		{"tanh near 0", Tanh, math.Tanh, -1e-3, 1e-3, 4},
		{"erf", Erf, math.Erf, -7, 7, 4},
		{"erf near 0", Erf, math.Erf, -0.2, 0.2, 4},
		{"cos", CosPi, func(t float64) float64 { return math.Cos(math.Pi * t) }, 0, 0.25, 2},
		{"cos, beyond a right angle", CosPi, func(t float64) float64 { return -math.Cos(math.Pi * (1 - t)) }, 0.75, 1, 2},
		{"cos around a right angle", CosPi, func(t float64) float64 { return math.Sin(math.Pi * (0.5 - t)) }, 0.25, 0.75, 2},
	}
	for _, c := range cases {
		worst, at := 0.0, 0.0
		for i := range 200001 {
			x := c.lo + (c.hi-c.lo)*float64(i)/200000
			if d := ulps(c.got(x), c.want(x)); d > worst || d != d {
				worst, at = d, x
			}
		}
		if !(worst <= c.limit) {
			t.Errorf("%s: off by %.1f ulps at %v: %v, want %v", c.name, worst, at, c.got(at), c.want(at))
		}
	}
}

func TestFloat32(t *testing.T) {
	cases := []struct {
		name string
		got  func(float32) float32
		want func(float64) float64
	}{
		{"exp", Exp32, math.Exp},
		{"tanh", Tanh32, math.Tanh},
		{"sigmoid", Sigmoid32, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }},
	}
	for _, c := range cases {
		for i := range 400001 {
			x := float32(-110 + 220*float64(i)/400000)
			for _, x := range []float32{x, x * 1e-3} {
				got, want := c.got(x), float32(c.want(float64(x)))
				if got != want && got != math.Nextafter32(want, got) {
					t.Fatalf("%s(%v) = %v, want %v", c.name, x, got, want)
				}
			}
		}
	}
}

func TestSpecialValues(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct{ got, want float64 }{
		{Exp(inf), inf}, {Exp(-inf), 0}, {Exp(nan), nan}, {Exp(0), 1}, {Exp(-740), math.Exp(-740)},
		{Log(0), -inf}, {Log(-1), nan}, {Log(inf), inf}, {Log(1), 0}, {Log(5e-324), -744.4400719213812},
		{Log1p(0), 0}, {Log1p(-1), -inf}, {Log1p(inf), inf}, {Log1p(1e308), 709.1962086421661},
		{Tanh(inf), 1}, {Tanh(-inf), -1}, {Tanh(nan), nan},
		{Sigmoid(inf), 1}, {Sigmoid(-inf), 0}, {Sigmoid(nan), nan}, {Sigmoid(0), 0.5},
		{Sin(inf), nan}, {Sin(nan), nan}, {Cos(-inf), nan}, {Cos(nan), nan}, {Cos(0), 1}, {Sin(5e-324), 5e-324},
		{Erf(inf), 1}, {Erf(-inf), -1}, {Erf(nan), nan}, {Erf(0), 0},
		{Pow(2, 10), 1024}, {Pow(-2, 3), -8}, {Pow(-2, 0.5), nan}, {Pow(0, -1), inf}, {Pow(4, -2), 1. / 16},
		{Pow(0, 0.5), 0}, {Pow(inf, 0.5), inf}, {Pow(nan, 0), 1}, {Pow(-2, 65), -math.Pow(2, 65)},
		{float64(Exp32(float32(inf))), inf}, {float64(Exp32(-float32(inf))), 0},
		{float64(Sigmoid32(float32(inf))), 1}, {float64(Sigmoid32(-float32(inf))), 0},
		{float64(Tanh32(float32(inf))), 1},
		{CosPi(0), 1}, {CosPi(0.5), 0}, {CosPi(1), -1},
		{Gelu(inf), inf}, {GeluGrad(inf), 1}, {GeluGrad(-inf), 0}, {GeluGrad(0), 0.5},
	} {
		if ulps(c.got, c.want) > 4 {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}

// Where the normal distribution function is small, 1 + erf has no digits left: all are computed
// elsewhere, to 300 bits.
func TestGeluBelow0(t *testing.T) {
	for _, c := range [][3]float64{
		{-1.0, -0.15865525393145705, -0.0833154705876863},
		{-1.5, -0.1002108019032871, -0.12746919222997952},
		{-2.0, -0.04550026389635842, -0.0852318010781969},
		{-2.7421875, -0.008367989763581806, -0.02242543757297185},
		{-2.75, -0.008194348896400031, -0.022027533644320838},
		{-2.8125, -0.006912847055240684, -0.01903692769002757},
		{-4.3, -3.672159352526479e-05, -0.00015716144051998283},
		{-7.0, -8.958687807200846e-12, -6.266323031466631e-11},
		{-8.40625, -1.7793017053579466e-16, -1.4951648982365943e-15},
		{-12.25, -1.0289750177950936e-33, -1.2603860032218894e-32},
		{-20.0, -5.507248237212468e-88, -1.1014360483133464e-86},
		{-37.0, -2.1184613523340935e-298, -7.838298669418516e-297},
	} {
		if ulps(Gelu(c[0]), c[1]) > 6 || ulps(GeluGrad(c[0]), c[2]) > 6 {
			t.Errorf("gelu(%v) is %v with a gradient of %v; want %v and %v", c[0], Gelu(c[0]), GeluGrad(c[0]), c[1], c[2])
		}
	}
}

// Odd functions keep the sign of a zero.
func TestZeroSigns(t *testing.T) {
	minus := math.Copysign(0, -1)
	for name, f := range map[string]func(float64) float64{
		"tanh": Tanh, "sin": Sin, "erf": Erf, "log1p": Log1p, "gelu": Gelu,
		"tanh32": func(x float64) float64 { return float64(Tanh32(float32(x))) },
	} {
		if got := f(minus); got != 0 || !math.Signbit(got) {
			t.Errorf("%s(-0) is %v", name, got)
		}
		if got := f(0); got != 0 || math.Signbit(got) {
			t.Errorf("%s(0) is %v", name, got)
		}
	}
}

func BenchmarkExp32(b *testing.B) {
	s := float32(0)
	for i := range b.N {
		s += Exp32(float32(i&15) * 0.1)
	}
	sink = s
}

func BenchmarkErf(b *testing.B) {
	s := 0.0
	for i := range b.N {
		s += Erf(float64(i&15) * 0.1)
	}
	sink = float32(s)
}

var sink float32
