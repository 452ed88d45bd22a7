package cpu

import (
	"math"
	"unsafe"
)

// Bicubic grid_sample of images: 16 taps for each position, row by row.

// cubicTaps is the number of taps along an axis.
const cubicTaps = 4

// cubicA is the parameter of the weights: their slope at distance 1.
const cubicA = -0.75

// cubicWeights returns the weights of the taps around a coordinate with fraction t.
func cubicWeights[C Compute](t C) [cubicTaps]C {
	s := 1 - t
	return [...]C{cubicOuter(t + 1), cubicInner(t), cubicInner(s), cubicOuter(s + 1)}
}

// cubicSlopes returns the derivatives of the weights.
func cubicSlopes[C Compute](t C) [cubicTaps]C {
	s := 1 - t
	return [...]C{cubicOuterSlope(t + 1), cubicInnerSlope(t), -cubicInnerSlope(s), -cubicOuterSlope(s + 1)}
}

// The weight of a tap at distance u, from 1 to 2 or up to 1, and its derivative.
func cubicOuter[C Compute](u C) C {
	return C(C(C(C(C(cubicA*u)-5*cubicA)*u)+8*cubicA)*u) - 4*cubicA
}

func cubicInner[C Compute](u C) C {
	return C(C((C((cubicA+2)*u)-(cubicA+3))*u)*u) + 1
}

func cubicOuterSlope[C Compute](u C) C {
	return C((C(3*cubicA*u)-10*cubicA)*u) + 8*cubicA
}

func cubicInnerSlope[C Compute](u C) C {
	return (C(3*(cubicA+2)*u) - 2*(cubicA+3)) * u
}

// cubicPlaces returns, for an unpadded coordinate, the places of the taps along
// an axis, or Outside, and the fraction of the coordinate; finite says whether
// it was a finite number.
func cubicPlaces[C Compute](c C, g *Sampler, axis int) (at [cubicTaps]int64, t C, finite bool) {
	size := g.Size[axis]
	if finite = c-c == 0; !finite {
		last := g.Padding == Border && c > 0
		if c = 0; last {
			c = C(size) - 1
		}
	}
	base := C(math.Floor(float64(c)))
	for i := range at {
		p := base + C(i-1)
		if g.Padding != Zeros {
			p, _ = pad(p, 0, C(size), g.AlignCorners, g.Padding)
		}
		place, inside := wholeBelow(p, size)
		if at[i] = place; !inside || (!finite && g.Padding == Zeros) {
			at[i] = Outside
		}
	}
	return at, c - base, finite
}

func locateCubic[C Compute](g *Sampler, t *Taps[C]) {
	for i := range t.Pixel[0] {
		var at [2][cubicTaps]int64
		for axis := range at {
			c, k := coordinate(t.T[axis][i], g.Size[axis], g.AlignCorners, Zeros)
			places, f, finite := cubicPlaces(c, g, axis)
			if at[axis], t.K[axis][i] = places, k; !finite {
				t.K[axis][i] = C(math.NaN())
			}
			weights, slopes := cubicWeights(f), cubicSlopes(f)
			t.S[axis][i] = f
			for tap := range weights {
				t.Cubic[axis][tap][i], t.Cubic[axis][cubicTaps+tap][i] = weights[tap], slopes[tap]
			}
		}
		for tap := range t.Count {
			x, y := tap%cubicTaps, tap/cubicTaps
			t.Pixel[tap][i], t.Weight[tap][i] = Outside, 0
			if at[0][x] != Outside && at[1][y] != Outside {
				t.Pixel[tap][i] = at[1][y]*g.Size[0] + at[0][x]
				t.Weight[tap][i] = t.Cubic[0][x][i] * t.Cubic[1][y][i]
			}
		}
	}
}

// cubicRows calls f for each row of taps with so many sums: of its pixels times
// their weights, times the weights' derivatives, and times their second ones.
func cubicRows[C Compute](b *GridBlock, t *Taps[C], plane unsafe.Pointer, sums int, f func(row int, sums [3][]C)) {
	v := BlockOf[C](b.Scratch, tapBlocks+2, b.N)
	var s [3][]C
	for i := range sums {
		s[i] = BlockOf[C](b.Scratch, tapBlocks+3+i, b.N)
	}
	for row := range cubicTaps {
		for i := range sums {
			clear(s[i])
		}
		for tap := range cubicTaps {
			Gather(v, b.Input.DType, plane, t.Pixel[row*cubicTaps+tap])
			for i := range sums {
				for j, w := range t.Cubic[0][i*cubicTaps+tap] {
					s[i][j] += C(v[j] * w) // a tap outside adds +0: the same as no term
				}
			}
		}
		f(row, s)
	}
}

// cubicSums are one sum for each axis, by how often weights are differentiated.
var cubicSums = [3][]difference{{{orders: [2]int{1, 0}}}, {{orders: [2]int{0, 1}}}}

// cubicTerms is terms with Bicubic.
func (g *groupSums[C]) cubicTerms(c int64, t *Taps[C], dy []C) {
	g.none()
	cubicRows(g.b, t, g.b.Input.Channel(c), g.order+1, func(row int, sums [3][]C) {
		for axis, list := range g.lists {
			for i, d := range list {
				term, weights := g.block(axis, i, 0), t.Cubic[1][d.orders[1]*cubicTaps+row]
				for j, sum := range sums[d.orders[0]] {
					term[j] += C(sum * weights[j])
				}
			}
		}
	})
	for axis, list := range g.lists {
		for i := range list {
			for j, term := 0, g.block(axis, i, 0); j < len(term); j++ {
				term[j] *= dy[j]
			}
		}
	}
}
