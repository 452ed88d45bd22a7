package cpu

import "math"

// Bicubic grid_sample: 16 taps for each position, row by row; of volumes 64,
// plane by plane.

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
// an axis, or outside, and the fraction of the coordinate; finite says whether
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
			at[i] = outside
		}
	}
	return at, c - base, finite
}

func locateCubic[C Compute](g *Sampler, t *taps[C]) {
	for i := range t.Pixel[0] {
		var at [3][cubicTaps]int64 // of an image, plane 0
		for axis := range g.Dims {
			c, k := coordinate(t.Fraction[axis][i], g.Size[axis], g.AlignCorners, Zeros)
			places, f, finite := cubicPlaces(c, g, axis)
			if at[axis], t.Derivative[axis][i] = places, k; !finite {
				t.Derivative[axis][i] = C(math.NaN())
			}
			weights, slopes := cubicWeights(f), cubicSlopes(f)
			t.Fraction[axis][i] = f
			for tap := range weights {
				t.Cubic[axis][tap][i], t.Cubic[axis][cubicTaps+tap][i] = weights[tap], slopes[tap]
			}
		}
		for tap := range t.Count {
			n := cubicTap(tap)
			x, y, z := at[0][n[0]], at[1][n[1]], at[2][n[2]]
			t.Pixel[tap][i], t.Weight[tap][i] = outside, 0
			if x != outside && y != outside && z != outside {
				t.Pixel[tap][i] = (z*g.Size[1]+y)*g.Size[0] + x
				t.Weight[tap][i] = t.Cubic[0][n[0]][i] * t.Cubic[1][n[1]][i]
				if g.Dims == 3 {
					t.Weight[tap][i] *= t.Cubic[2][n[2]][i]
				}
			}
		}
	}
}

// cubicTap returns the numbers of a tap along each axis.
func cubicTap(tap int) [3]int {
	return [...]int{tap % cubicTaps, tap / cubicTaps % cubicTaps, tap / (cubicTaps * cubicTaps)}
}

// mostCubic is the most sums over taps at a time: of volumes' second derivatives.
const mostCubic = 6

// cubicSums sums a channel's pixels times weights, which for each sum are
// differentiated so often along each axis: over each row of taps, then over the
// rows of a plane, then over planes.
func cubicSums[C Compute](b *GridBlock, t *taps[C], c int64, orders [][3]int, sums [][]C) {
	v := BlockOf[C](b.Scratch, cubicSumBlocks, b.N)
	var rows [3][]C // with weights, their derivatives and their second ones
	kinds := 0
	for i, order := range orders {
		kinds = max(kinds, order[0]+1)
		clear(sums[i])
	}
	for i := range kinds {
		rows[i] = BlockOf[C](b.Scratch, cubicSumBlocks+1+i, b.N)
	}
	for row := range t.Count / cubicTaps {
		for _, r := range rows[:kinds] {
			clear(r)
		}
		for tap := range cubicTaps {
			gather(v, b.Input.DType, b.Input.Channel(c), t.Pixel[row*cubicTaps+tap])
			for i, r := range rows[:kinds] {
				for j, w := range t.Cubic[0][i*cubicTaps+tap] {
					r[j] += C(v[j] * w) // a tap outside adds +0: the same as no term
				}
			}
		}
		y, z := row%cubicTaps, row/cubicTaps
		for i, order := range orders {
			r, weights := rows[order[0]], t.Cubic[1][order[1]*cubicTaps+y]
			if b.Dims == 2 {
				addWeighted(sums[i], r, weights)
				continue
			}
			plane := part[C](b.Scratch, &b.Sampler, cubicSumBlocks+4, i, b.N)
			if y == 0 {
				clear(plane)
			}
			if addWeighted(plane, r, weights); y == cubicTaps-1 {
				addWeighted(sums[i], plane, t.Cubic[2][order[2]*cubicTaps+z])
			}
		}
	}
}

// addWeighted adds a * b to sums.
func addWeighted[C Compute](sums, a, b []C) {
	for j, w := range b {
		sums[j] += C(a[j] * w)
	}
}

func multiplyInto[C Compute](dst, x []C) {
	for j, v := range x {
		dst[j] *= v
	}
}

// cubicLists returns one sum for each axis, or for each pair of axes, by how
// often weights are differentiated.
func cubicLists(dims, order int) *[3][]difference { return &cubicDifferences[dims-2][order-1] }

var cubicDifferences = [2][2][3][]difference{{along(2), alongPairs(2)}, {along(3), alongPairs(3)}}

func along(dims int) (lists [3][]difference) {
	for axis := range dims {
		lists[axis] = make([]difference, 1)
		lists[axis][0].orders[axis] = 1
	}
	return lists
}

// alongPairs lists the pairs of an axis with itself and those after it.
func alongPairs(dims int) (lists [3][]difference) {
	for axis := range dims {
		for other := axis; other < dims; other++ {
			var d difference
			d.orders[axis]++
			d.orders[other]++
			lists[axis] = append(lists[axis], d)
		}
	}
	return lists
}

// cubicTerms is terms with Bicubic.
func (g *channelSums[C]) cubicTerms(c int64, t *taps[C], dy []C) {
	var orders [mostCubic][3]int
	var terms [mostCubic][]C
	n := 0
	for axis, list := range g.lists {
		for i, d := range list {
			orders[n], terms[n] = d.orders, g.block(axis, i, 0)
			n++
		}
	}
	cubicSums(g.b, t, c, orders[:n], terms[:n])
	for _, term := range terms[:n] {
		multiplyInto(term, dy)
	}
}
