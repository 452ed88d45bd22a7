package kernel

import (
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
)

// Rows of detmath's functions.

// function writes a function of each number: of f32 an assembly loop has done the first ones.
func function[T Float](of functionOf, z, x []T, f32 func(float32) float32, f64 func(float64) float64) {
	n := fastFunction(of, z, x, x)
	z, x = z[n:], x[n:]
	if is32[T]() {
		z, x := slice[float32](z), slice[float32](x)
		for i := range z {
			z[i] = f32(x[i])
		}
		return
	}
	for i := range z {
		z[i] = T(f64(float64(x[i])))
	}
}

// Exp writes e to the power x.
func Exp[T Float](z, x, _ []T) { function(expOf, z, x, detmath.Exp32, detmath.Exp) }

// Log writes the natural logarithm.
func Log[T Float](z, x, _ []T) { function(logOf, z, x, log32, detmath.Log) }

// Log1p writes log(1 + x).
func Log1p[T Float](z, x, _ []T) { function(log1pOf, z, x, log1p32, detmath.Log1p) }

// Tanh writes the hyperbolic tangent.
func Tanh[T Float](z, x, _ []T) { function(tanhOf, z, x, detmath.Tanh32, detmath.Tanh) }

// Sigmoid writes 1 / (1 + exp(-x)).
func Sigmoid[T Float](z, x, _ []T) { function(sigmoidOf, z, x, detmath.Sigmoid32, detmath.Sigmoid) }

// Erf writes the error function.
func Erf[T Float](z, x, _ []T) { function(erfOf, z, x, erf32, detmath.Erf) }

var erf32, log32, log1p32 = In64[float32](detmath.Erf), In64[float32](detmath.Log), In64[float32](detmath.Log1p)

// Sin writes the sine.
func Sin[T Float](z, x, _ []T) { inDouble(z, x, detmath.Sin) }

// Cos writes the cosine.
func Cos[T Float](z, x, _ []T) { inDouble(z, x, detmath.Cos) }

// inDouble writes a function that has no assembly loops: it is computed in float64 and rounded once.
func inDouble[T Float](z, x []T, f func(float64) float64) {
	for i, v := range x[:len(z)] {
		z[i] = T(f(float64(v)))
	}
}

// TanhGrad writes g * (1 - y*y).
func TanhGrad[T Float](z, g, y []T) {
	g, y = g[:len(z)], y[:len(z)]
	for i := fast(tanhGradXY, z, g, y); i < len(z); i++ {
		z[i] = g[i] * (1 - T(y[i]*y[i]))
	}
}

// SigmoidGrad writes g * (y * (1 - y)).
func SigmoidGrad[T Float](z, g, y []T) {
	g, y = g[:len(z)], y[:len(z)]
	for i := fast(sigmoidGradXY, z, g, y); i < len(z); i++ {
		z[i] = g[i] * T(y[i]*(1-y[i]))
	}
}

// Sqrt writes the square root, correctly rounded.
func Sqrt[T Float](z, x, _ []T) {
	x = x[:len(z)]
	for i := fast(sqrtX, z, x, x); i < len(z); i++ {
		z[i] = T(math.Sqrt(float64(x[i])))
	}
}

// Square writes x*x.
func Square[T Float](z, x, _ []T) { Mul[T]().VV(z, x, x) }

// Reciprocal writes 1/x.
func Reciprocal[T Float](z, x, _ []T) { divSV(z, 1, x) }
