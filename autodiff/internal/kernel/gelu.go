package kernel

import "github.com/isobit-ml/isobit/autodiff/internal/detmath"

// Gelu writes x * (1 + erf(x/sqrt(2))) / 2: of f32 an assembly loop has done the first ones, of f64 erf is a row.
func Gelu[T Float](z, x, _ []T) {
	if is32[T]() {
		n := fastFunction(geluOf, z, x, x)
		z, x = z[n:], x[n:]
	}
	var root, erf detmath.Numbers
	for len(x) > 0 {
		n := min(len(x), detmath.Block)
		detmath.GeluParts(&root, nil, x[:n])
		erfs(&erf, &root, n)
		detmath.GeluRow(z[:n], x[:n], &erf)
		z, x = z[n:], x[n:]
	}
}

// GeluGrad writes g times Gelu's derivative.
func GeluGrad[T Float](z, g, x []T) {
	if is32[T]() {
		n := fastFunction(geluGradOf, z, x, g)
		z, g, x = z[n:], g[n:], x[n:]
	}
	var root, power, erf, exp detmath.Numbers
	for len(x) > 0 {
		n := min(len(x), detmath.Block)
		detmath.GeluParts(&root, &power, x[:n])
		erfs(&erf, &root, n)
		exps(&exp, &power, n)
		detmath.GeluGradRow(z[:n], g[:n], x[:n], &erf, &exp)
		z, g, x = z[n:], g[n:], x[n:]
	}
}

// erfs writes erf of the first n numbers of a block.
func erfs(z, x *detmath.Numbers, n int) {
	if !fastErfs(z, x, n) {
		detmath.Erfs(z, x, n)
	}
}

// exps does so with exp.
func exps(z, x *detmath.Numbers, n int) {
	if !fastExps(z, x, n) {
		detmath.Exps(z, x, n)
	}
}
