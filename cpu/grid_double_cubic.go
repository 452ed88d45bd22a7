package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Bicubic's second gradients by the kernels of its first ones: the sums that they
// make are those of other derivatives where other weights lie in the cells.

// The planes of a block's cells that bicubic's kernels leave alone.
const (
	keptCoords  = planeWeight    // the coordinates, while their tangents come in their place
	keptWeights = keptCoords + 3 // those that others stand in for
	keptBends   = planeSums + 3  // the second derivatives: of x and x, y, z, of y and y, z, of z
	cubicV      = planeT         // the tangents of the coordinates
	cubicLive   = planeK         // 1 where a coordinate has a derivative, else 0
	ofAxis      = 2 * cubicTaps  // from an axis to the next one
	_           = uint(planeLive - keptWeights - cubicTaps)
	_           = uint(planeGrad - keptBends - mostCubic)
)

// doubleCubic is a block of them.
type doubleCubic[C Compute] struct {
	b       *GridBlock
	c       *gridCells
	g       *gatherCell
	t       *gatherType
	terms   gridTerms
	combine cellKernel
	n       int // positions of whole vectors
}

// newDoubleCubic completes cells that were located with their slopes.
func newDoubleCubic[C Compute](k *gridKernel, b *GridBlock, c *gridCells, repeats bool) doubleCubic[C] {
	d := doubleCubic[C]{b: b, c: c, g: k.cells(), t: typeFor(k.needs, k.dtype)}
	d.terms, d.combine, _ = d.t.gradient(d.g, b)
	d.n = (b.N + d.g.lanes - 1) / d.g.lanes * d.g.lanes
	scale := planeOf[C](c, planeParams)[paramK : paramK+3 : paramK+3]
	kept := [3]C(scale)
	for axis := range b.Dims {
		scale[axis] = 1
		for i := range d.plane(planeSums + axis) {
			d.plane(planeSums + axis)[i] = 1
		}
	}
	d.combine(c.start(), b.N)
	copy(scale, kept[:])
	for axis := range b.Dims {
		copy(d.plane(cubicLive+axis), d.plane(planeGrad+axis))
	}
	if b.Second.hasCoords() {
		for axis := range b.Dims {
			copy(d.plane(keptCoords+axis), d.plane(planeCoord+axis))
		}
		loadCells[C](d.g, c, b, &b.Second.Coords, repeats)
		for axis := range b.Dims {
			copy(d.plane(cubicV+axis), d.plane(planeCoord+axis))
			copy(d.plane(planeCoord+axis), d.plane(keptCoords+axis))
		}
	}
	return d
}

func (d *doubleCubic[C]) plane(number int) []C { return planeOf[C](d.c, number)[:d.n] }

// replace puts an axis's weights at from in the place of those at to.
func (d *doubleCubic[C]) replace(to, from int) {
	for tap := range cubicTaps {
		copy(d.plane(to+tap), d.plane(from+tap))
	}
}

// sum sums the terms of all channels of b.
func (d *doubleCubic[C]) sum(b *GridBlock) { sumTerms[C](d.c, b, d.terms, b.Dims) }

// tangents computes the gradient of the upstream gradient.
func (d *doubleCubic[C]) tangents() {
	b := d.b
	one, u, size := *b, *b, d.t.dtype.Size()
	one.Channels, u.Channels = 1, 1
	sum, ones := BlockOf[C](b.Scratch, 0, b.N), BlockOf[C](b.Scratch, 1, b.N)
	for i := range sum {
		sum[i] = 1
	}
	one.GradOutput = Rows{Span: Span{unsafe.Pointer(&ones[0]), size, d.t.dtype}}
	u.GradOutput = one.GradOutput
	Store(one.GradOutput.Span, sum)
	for channel := range b.Channels {
		clear(sum)
		if b.Second.hasInput() {
			u.Input = b.Second.Input
			u.Input.P = u.Input.Channel(channel)
			d.replace(keptWeights, cubicWeight+cubicTaps)
			d.replace(cubicWeight+cubicTaps, cubicWeight)
			d.sum(&u)
			d.replace(cubicWeight+cubicTaps, keptWeights)
			addInto(sum, sum, d.inOrder(planeSums))
		}
		if b.Second.hasCoords() {
			one.Input.P = b.Input.Channel(channel)
			d.sum(&one)
			d.combine(d.c.start(), b.N)
			for axis := range b.Dims {
				multiplyInto(d.plane(planeGrad+axis), d.plane(cubicV+axis))
				addInto(sum, sum, d.inOrder(planeGrad+axis))
			}
		}
		storeRow(d.t, b.Second.Output.Row(channel, 0), sum)
	}
}

// inOrder returns a plane's numbers for all positions: the last vector is that of
// the last ones.
func (d *doubleCubic[C]) inOrder(number int) []C {
	n, all := d.b.N, d.plane(number)
	if rest := n % d.g.lanes; rest > 0 {
		copy(all[n-d.g.lanes:n], all[n-rest:])
	}
	return all[:n]
}

// secondSlopes computes the gradient of the grid. It leaves other weights behind.
func (d *doubleCubic[C]) secondSlopes() {
	b, second := d.b, &d.b.Second
	if of := *b; second.hasInput() {
		of.Input = second.Input
		d.sum(&of)
		d.combine(d.c.start(), b.N)
	} else {
		for axis := range b.Dims {
			clear(d.plane(planeGrad + axis))
		}
	}
	if second.hasCoords() {
		for axis := range b.Dims - 1 { // derivatives along the axis and each one behind it
			weights := cubicWeight + ofAxis*axis
			d.replace(keptWeights, weights)
			d.replace(weights, weights+cubicTaps)
			d.sum(b)
			for other := axis + 1; other < b.Dims; other++ {
				copy(d.plane(bendPlane(axis, other)), d.plane(planeSums+other))
			}
			d.replace(weights, keptWeights)
		}
		for axis := range b.Dims {
			d.bendWeights(cubicWeight+ofAxis*axis+cubicTaps, axis)
		}
		d.sum(b)
		for axis := range b.Dims {
			copy(d.plane(bendPlane(axis, axis)), d.plane(planeSums+axis))
		}
		d.addBends()
	}
	storeGradients[C](d.g, d.c, b)
}

// bendPlane is where the second derivatives along two axes are.
func bendPlane(axis, other int) int {
	low, high := min(axis, other), max(axis, other)
	return keptBends + [3]int{0, 2, 3}[low] + high
}

// bendWeights makes the weights' second derivatives along an axis. Those of a
// coordinate that is no finite number are NaNs, which are in no sum that counts.
func (d *doubleCubic[C]) bendWeights(to, axis int) {
	for i, x := range d.plane(planeCoord + axis) {
		f := x - C(math.Floor(float64(x)))
		s := 1 - f
		for tap, w := range [...]C{cubicOuterBend(f + 1), cubicInnerBend(f), cubicInnerBend(s), cubicOuterBend(s + 1)} {
			d.plane(to + tap)[i] = w
		}
	}
}

// shift returns a coordinate's tangent times its derivative, +0 where it has none.
func (d *doubleCubic[C]) shift(axis, i int) C {
	if d.plane(cubicLive + axis)[i] == 0 {
		return 0
	}
	return d.plane(cubicV + axis)[i] * planeOf[C](d.c, planeParams)[paramK+axis]
}

// addBends does what channelSums.addBends does.
func (d *doubleCubic[C]) addBends() {
	for i := range d.n {
		for axis := range d.b.Dims {
			if d.plane(cubicLive + axis)[i] == 0 {
				continue
			}
			var sum C
			for other := range d.b.Dims {
				if d.plane(cubicLive + other)[i] != 0 {
					sum += C(d.shift(other, i) * d.plane(bendPlane(axis, other))[i])
				}
			}
			d.plane(planeGrad + axis)[i] += C(sum * planeOf[C](d.c, planeParams)[paramK+axis])
		}
	}
}

// weights makes taps' weights derivatives along the coordinates' tangents; those of
// a tap lie pitch elements behind those of the one before.
func (d *doubleCubic[C]) weights(to []C, pitch int) {
	var q [3][]C
	for axis := range d.b.Dims {
		q[axis] = d.plane(planeGrad + axis)[:d.b.N]
		for i := range q[axis] {
			q[axis][i] = d.shift(axis, i)
		}
	}
	for tap := range 1 << (2 * d.b.Dims) {
		n, w := cubicTap(tap), to[tap*pitch:][:d.b.N]
		clear(w)
		for along := range d.b.Dims {
			var of [3][]C
			for axis := range d.b.Dims {
				number := cubicWeight + ofAxis*axis + n[axis]
				if axis == along {
					number += cubicTaps
				}
				of[axis] = d.plane(number)[:d.b.N]
			}
			addSlopes(w, of, q[along], d.b.Dims)
		}
	}
}

// addSlopes adds products of an axis's weights each, times q.
func addSlopes[C Compute](w []C, of [3][]C, q []C, dims int) {
	x, y, z := of[0], of[1], of[2]
	if dims == 2 {
		for i := range w {
			w[i] += C(C(x[i]*y[i]) * q[i])
		}
		return
	}
	for i := range w {
		w[i] += C(C(C(x[i]*y[i])*z[i]) * q[i])
	}
}

// double computes what is wanted.
func (d *doubleCubic[C]) double() {
	if d.b.Second.Output.DType != tensor.None {
		d.tangents()
	}
	if d.b.Output.DType != tensor.None {
		d.secondSlopes()
	}
}
