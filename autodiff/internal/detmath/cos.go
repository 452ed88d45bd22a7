package detmath

import "math"

// CosPi returns the cosine of pi * t, for t in [0, 1].
func CosPi(t float64) float64 {
	switch {
	case t <= 0.25:
		cos, _ := series(math.Pi * t)
		return cos
	case t < 0.75:
		_, sin := series(math.Pi * (0.5 - t)) // the difference is exact, and so is the next
		return sin
	}
	cos, _ := series(math.Pi * (1 - t))
	return -cos
}

// series returns the cosine and the sine of x in [-pi/4, pi/4].
func series(x float64) (cos, sin float64) {
	square := float64(x * x)
	cos, sin = 1, 1
	for n := 20.0; n > 0; n -= 2 {
		cos = 1 - float64(cos*square)/(n*(n-1))
		sin = 1 - float64(sin*square)/(n*(n+1))
	}
	return cos, float64(sin * x)
}
