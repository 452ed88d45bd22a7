package cpu

import "github.com/isobit-ml/isobit/tensor"

// The gradients of grid_sample's gradients (NUMERICS.md, section 6). By the
// input it is a scatter, with derivatives for weights.

// SecondOrder holds the further operands of a GridBlock where grid_sample's gradients are
// differentiated; an absent one has no type.
type SecondOrder struct {
	Input  Image   // the tangent of the input, u
	Coords [3]Span // the tangents of the coordinates, v
	Output Rows    // the gradient of GradOutput: row c is channel c of the positions
}

func (s *SecondOrder) hasInput() bool  { return s.Input.DType != tensor.None }
func (s *SecondOrder) hasCoords() bool { return s.Coords[0].DType != tensor.None }

// GridSampleDouble computes the gradients of the upstream gradient and of the
// grid at the positions of one block; the latter is Output, unless it has no type.
var GridSampleDouble = gridRows(byCompute(gridDoubleGo[float32], gridDoubleGo[float64]),
	func(k *gridKernel, definition func(*GridBlock)) func(*GridBlock) {
		return func(b *GridBlock) { k.doubleBlock(b, definition) }
	})

// The rows of scatters for the input's gradient, by compute type. Add adds
// g * p, p being the derivative of the tap's weight along the grid's tangent.
var (
	GridDoubleScatter32 = gridRows(always(doubleScatterGo[float32]()), doubleScatter32)
	GridDoubleScatter64 = gridRows(always(doubleScatterGo[float64]()), doubleScatter64)
)

func doubleScatterGo[C Compute]() GridScatterKernel[C] {
	k := scatterGo[C]()
	k.Add = (*GridScatter[C]).addSlopes
	return k
}

// shifts loads the coordinates' tangents v, and multiplies them by the
// coordinates' derivatives: q, +0 where there is none.
func shifts[C Compute](b *GridBlock, t *taps[C]) (v, q [3][]C) {
	for axis := range b.Dims {
		v[axis], q[axis] = BlockOf[C](b.Scratch, secondBlocks+axis, b.N), BlockOf[C](b.Scratch, shiftBlocks+axis, b.N)
		Load(v[axis], b.Second.Coords[axis])
		for j, x := range v[axis] {
			if q[axis][j] = 0; !t.isStill(&b.Sampler, axis, j) {
				q[axis][j] = x * t.Derivative[axis][j]
			}
		}
	}
	return v, q
}

func (s *GridScatter[C]) addSlopes(b *GridBlock) {
	if b.Mode == Nearest || !b.Second.hasCoords() {
		return
	}
	t := newTaps[C](s.g, b.N, b.Scratch)
	locate(s.g, b.Coords, &t)
	_, q := shifts(b, &t)
	slope := BlockOf[C](b.Scratch, slopeBlock, b.N)
	for tap := range t.Count {
		clear(t.Weight[tap])
		for axis := range b.Dims {
			t.slopes(slope, s.g, tap, axis)
			addWeighted(t.Weight[tap], slope, q[axis])
		}
	}
	s.addTaps(b, &t)
}

// slopes computes the derivatives of a tap's weights along an axis.
func (t *taps[C]) slopes(dst []C, g *Sampler, tap, axis int) {
	if g.Mode == Bicubic {
		n := cubicTap(tap)
		n[axis] += cubicTaps
		copy(dst, t.Cubic[0][n[0]])
		for other := 1; other < g.Dims; other++ {
			multiplyInto(dst, t.Cubic[other][n[other]])
		}
		return
	}
	for j := range dst {
		dst[j] = C(2*(tap>>axis&1) - 1)
	}
	for other := range g.Dims {
		switch {
		case other == axis:
		case tap>>other&1 == 1:
			multiplyInto(dst, t.Fraction[other])
		default:
			multiplyInto(dst, t.Complement[other])
		}
	}
}

func gridDoubleGo[C Compute](b *GridBlock) {
	t := newTaps[C](&b.Sampler, b.N, b.Scratch)
	locate(&b.Sampler, b.Coords, &t)
	if b.Mode == Bicubic {
		locateBends(b, &t)
	}
	v, q := shifts(b, &t)
	// The same positions in the input's tangent.
	u, ofU := *b, t
	u.Input = b.Second.Input
	for i := range t.Count {
		if b.Second.hasInput() {
			ofU.Pixel[i] = intPart(b.Scratch, &b.Sampler, pixelBlocks, i, b.N)
			u.Input.offsets(ofU.Pixel[i], t.Pixel[i], &b.Sampler)
		}
		b.Input.offsets(t.Pixel[i], t.Pixel[i], &b.Sampler)
	}
	if b.Second.Output.DType != tensor.None {
		tangents(b, &u, &t, &ofU, v)
	}
	if b.Output.DType != tensor.None {
		secondSlopes(b, &u, &t, &ofU, q)
	}
}

// tangents computes the gradient of the upstream gradient, channel by channel:
// the sample of u, then the slopes of the channel times v.
func tangents[C Compute](b, u *GridBlock, t, ofU *taps[C], v [3][]C) {
	y, value := BlockOf[C](b.Scratch, resultBlock, b.N), BlockOf[C](b.Scratch, tapBlocks+1, b.N)
	slope, ones := BlockOf[C](b.Scratch, slopeBlock, b.N), BlockOf[C](b.Scratch, onesBlock, b.N)
	for j := range ones {
		ones[j] = 1
	}
	sums := slopeSums[C](b)
	for c := range b.Channels {
		clear(y)
		if b.Second.hasInput() {
			sampleChannel(u, ofU, c, value)
			addInto(y, y, value)
		}
		if b.Second.hasCoords() {
			sums.setTotals(c, t, ones)
			for axis := range b.Dims {
				sums.combine(slope, axis, t)
				for j, s := range slope {
					y[j] += C(s * v[axis][j])
				}
			}
		}
		Store(b.Second.Output.Row(c, 0), y)
	}
}

// setTotals makes the totals those of a single channel.
func (g *channelSums[C]) setTotals(c int64, t *taps[C], dy []C) {
	if g.b.Mode == Nearest {
		return
	}
	g.terms(c, t, dy)
	for axis, list := range g.lists {
		for i := range list {
			total := g.total(axis, i)
			clear(total)
			addInto(total, total, g.block(axis, i, 0))
		}
	}
}

// secondSlopes computes the gradient of the grid: what the first one would be
// of u, and how the slopes of the input change along q.
func secondSlopes[C Compute](b, u *GridBlock, t, ofU *taps[C], q [3][]C) {
	ofInput, bent := b.Second.hasInput() && b.Mode != Nearest, b.Second.hasCoords() && b.Mode != Nearest
	var slopes [3][]C
	for axis := range b.Dims {
		slopes[axis] = BlockOf[C](b.Scratch, slopeBlocks+axis, b.N)
		clear(slopes[axis])
	}
	if ofInput {
		sums := slopeSums[C](u)
		sums.add(ofU)
		for axis := range b.Dims {
			sums.combine(slopes[axis], axis, ofU)
		}
	}
	if bent {
		sums := channelSums[C]{b: b, lists: bendLists(&b.Sampler), n: b.N}
		sums.add(t)
		for axis := range b.Dims {
			sums.addBends(slopes[axis], axis, t, q)
		}
	}
	for axis := range b.Dims {
		Store(b.Output.Row(int64(axis), 0), slopes[axis])
	}
}

// bends lists the second differences along two axes, the first of which comes
// first: of volumes one on the near side of the third axis, one on the far side.
func bends(dims, first, second int) (d []difference) {
	for near := range 1 << dims {
		if near>>first&1 == 0 && near>>second&1 == 0 {
			d = append(d, difference{far: near | 1<<first, near: near, step: 1 << second})
		}
	}
	return d
}

// The lists of second differences, of x and y, x and z, y and z.
var (
	bends2 = [3][]difference{bends(2, 0, 1)}
	bends3 = [3][]difference{bends(3, 0, 1), bends(3, 0, 2), bends(3, 1, 2)}
)

func bendLists(g *Sampler) *[3][]difference {
	switch {
	case g.Mode == Bicubic:
		return cubicLists(g.Dims, 2)
	case g.Dims == 3:
		return &bends3
	}
	return &bends2
}

// addBends adds, to the gradient of one coordinate, the sum over axes of q times
// the second derivative, times the coordinate's own derivative.
func (g *channelSums[C]) addBends(slopes []C, axis int, t *taps[C], q [3][]C) {
	for j := range slopes {
		if !t.hasTap(j) || t.isStill(&g.b.Sampler, axis, j) {
			continue
		}
		var sum C
		for other := range g.b.Dims {
			if other == axis && g.b.Mode == Bilinear || t.isStill(&g.b.Sampler, other, j) {
				continue
			}
			sum += C(q[other][j] * g.bend(axis, other, j, t))
		}
		slopes[j] += C(sum * t.Derivative[axis][j])
	}
}

// bend returns the second derivative along two axes.
func (g *channelSums[C]) bend(axis, other, j int, t *taps[C]) C {
	switch pair, third := axis+other, g.b.Dims-axis-other; {
	case g.b.Mode == Bicubic:
		return g.total(min(axis, other), max(axis, other)-min(axis, other))[j]
	case g.b.Dims == 3:
		return C(g.total(pair-1, 0)[j]*t.Complement[third][j]) + C(g.total(pair-1, 1)[j]*t.Fraction[third][j])
	}
	return g.total(0, 0)[j]
}

// locateBends computes the second derivatives of Bicubic's weights.
func locateBends[C Compute](b *GridBlock, t *taps[C]) {
	for axis := range b.Dims {
		for tap := range cubicTaps {
			t.Cubic[axis][2*cubicTaps+tap] = part[C](b.Scratch, &b.Sampler, bendBlocks, axis*cubicTaps+tap, b.N)
		}
		for j, f := range t.Fraction[axis] {
			s := 1 - f
			for tap, w := range [...]C{cubicOuterBend(f + 1), cubicInnerBend(f), cubicInnerBend(s), cubicOuterBend(s + 1)} {
				t.Cubic[axis][2*cubicTaps+tap][j] = w
			}
		}
	}
}

func cubicOuterBend[C Compute](u C) C { return C(6*cubicA*u) - 10*cubicA }

func cubicInnerBend[C Compute](u C) C { return C(6*(cubicA+2)*u) - 2*(cubicA+3) }
