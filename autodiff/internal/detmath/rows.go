package detmath

import "math"

// Functions of many numbers: the steps of one, taken by four side by side, so that a polynomial's
// next step does not wait for its last.

// Block is how many numbers are taken at a time at most.
const Block = 128

// Numbers are some.
type Numbers [Block]float64

// GeluParts writes what Gelu takes Erf of and, unless power is nil, its gradient Exp.
func GeluParts[T float32 | float64](root, power *Numbers, x []T) {
	for i, v := range x {
		root[i%Block] = float64(v) * halfRoot
	}
	if power == nil {
		return
	}
	for i, v := range x {
		power[i%Block] = -0.5 * float64(v) * float64(v)
	}
}

// GeluRow writes Gelu of each number, from Erf of the parts.
func GeluRow[T float32 | float64](z, x []T, erf *Numbers) {
	var tails Numbers
	has := tailsOf(&tails, x)
	for i, v := range x {
		y := geluOf(float64(v), erf[i%Block])
		if has && float64(v) <= tailEnd && !math.IsInf(float64(v), -1) {
			y = float64(v) * tails[i%Block]
		}
		z[i] = T(y)
	}
}

// GeluGradRow writes g times GeluGrad of each number, from Erf and Exp of the parts.
func GeluGradRow[T float32 | float64](z, g, x []T, erf, exp *Numbers) {
	var tails Numbers
	has := tailsOf(&tails, x)
	for i, v := range x {
		x, erf, exp := float64(v), erf[i%Block], exp[i%Block]
		slope := geluGrad(x, erf, exp)
		if has && hasTail(x) {
			slope = tails[i%Block] + float64(x*density(x, exp))
		}
		z[i] = T(float64(g[i]) * slope)
	}
}

// tailsOf writes tail of those numbers that have one, if they are of f64, and reports whether they are.
func tailsOf[T float32 | float64](y *Numbers, x []T) bool {
	if T(1)+0x1p-52 == 1 {
		return false
	}
	var near [Block + 1]uint8
	nears := 0
	for i, v := range x {
		if v := float64(v); v >= tailTable && v <= tailEnd {
			near[nears] = uint8(i)
			nears++
		} else if v < tailTable {
			y[i] = tail(v)
		}
	}
	at := near[:nears]
	for ; len(at) >= 4; at = at[4:] {
		i, j, k, l := at[0]%Block, at[1]%Block, at[2]%Block, at[3]%Block
		p, a := tailPart(float64(x[i]))
		q, b := tailPart(float64(x[j]))
		r, c := tailPart(float64(x[k]))
		s, d := tailPart(float64(x[l]))
		ga, gb, gc, gd := horner4(a, b, c, d, p.rising[:], q.rising[:], r.rising[:], s.rising[:])
		y[i], y[j] = tailOf(float64(x[i]), p.erfc, float64(ga*a)), tailOf(float64(x[j]), q.erfc, float64(gb*b))
		y[k], y[l] = tailOf(float64(x[k]), r.erfc, float64(gc*c)), tailOf(float64(x[l]), s.erfc, float64(gd*d))
	}
	for _, i := range at {
		y[i] = tail(float64(x[i]))
	}
	return true
}

// Erfs writes Erf of the first n numbers, by what computes it.
func Erfs(y, x *Numbers, n int) {
	var near, far [Block + 1]uint8
	nears, fars, tiny, end, limit := 0, 0, math.Float64bits(erfTiny), math.Float64bits(erfEnd), math.Float64bits(erfNear)
	for i, v := range x[:n] {
		a := math.Float64bits(math.Abs(v))
		if a-tiny >= end-tiny {
			y[i] = Erf(v)
			continue
		}
		near[nears], far[fars] = uint8(i), uint8(i)
		isNear := int((a - limit) >> 63) // without a branch, which nothing foresees
		nears, fars = nears+isNear, fars+1-isNear
	}
	for _, i := range near[:nears] {
		v := x[i%Block]
		y[i%Block] = erfFactor * v * erfSeries(float64(v*v))
	}
	at := far[:fars]
	for ; len(at) >= 4; at = at[4:] {
		i, j, k, l := at[0]%Block, at[1]%Block, at[2]%Block, at[3]%Block
		a, p := erfPart(x[i])
		b, q := erfPart(x[j])
		c, r := erfPart(x[k])
		d, s := erfPart(x[l])
		a, b, c, d = horner4(a, b, c, d, p, q, r, s)
		y[i], y[j], y[k], y[l] = math.Copysign(a, x[i]), math.Copysign(b, x[j]), math.Copysign(c, x[k]), math.Copysign(d, x[l])
	}
	for _, i := range at {
		y[i%Block] = Erf(x[i%Block])
	}
}

// Exps writes Exp of the first n numbers.
func Exps(y, x *Numbers, n int) {
	i := 0
	for ; i+4 <= n; i += 4 {
		x, y := (*[4]float64)(x[i:]), (*[4]float64)(y[i:])
		if !isUsual(x[0]) || !isUsual(x[1]) || !isUsual(x[2]) || !isUsual(x[3]) {
			for j, v := range x {
				y[j] = Exp(v)
			}
			continue
		}
		p := expPartOf(x[0])
		q := expPartOf(x[1])
		r := expPartOf(x[2])
		s := expPartOf(x[3])
		a, b, c, d := horner4(p.r, q.r, r.r, s.r, expTaylor, expTaylor, expTaylor, expTaylor)
		y[0], y[1], y[2], y[3] = p.exp(a), q.exp(b), r.exp(c), s.exp(d)
	}
	for ; i < n; i++ {
		y[i] = Exp(x[i])
	}
}

// isUsual reports whether Exp of x is a normal number.
func isUsual(x float64) bool { return x > -700 && x < 700 }

// horner4 is horner of four numbers, each with its coefficients.
func horner4(x0, x1, x2, x3 float64, c0, c1, c2, c3 []float64) (s0, s1, s2, s3 float64) {
	c1, c2, c3 = c1[:len(c0)], c2[:len(c0)], c3[:len(c0)]
	for i := len(c0) - 1; i >= 0; i-- {
		s0 = float64(s0*x0) + c0[i]
		s1 = float64(s1*x1) + c1[i]
		s2 = float64(s2*x2) + c2[i]
		s3 = float64(s3*x3) + c3[i]
	}
	return
}
