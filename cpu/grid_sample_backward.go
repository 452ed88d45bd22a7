package cpu

import "math/bits"

// groupSize is the number of channels whose terms fold by halves (NUMERICS.md,
// section 4, "Group").
const groupSize = 16

// GridSampleBackwardGrid computes the gradient of the grid at the positions of
// one block, with sums over channels in Group order. Nearest's is zeros, which the
// plan stores.
var GridSampleBackwardGrid = gridRows(byCompute(gridGradientGo[float32], gridGradientGo[float64]),
	func(k *gridKernel, definition func(*GridBlock)) func(*GridBlock) {
		return func(b *GridBlock) { k.gradientBlock(b, definition) }
	})

// difference is one term of the gradient along an axis: g * (v[far] - v[near]).
// With a step it is that of the second order: v[far+step] - v[near+step], less
// that. With Bicubic, orders say how often weights along each axis are differentiated.
type difference struct {
	far, near, step int
	orders          [3]int
}

// differences lists, for each axis, the taps whose differences count: for x
// N and S of the top plane, then of the bottom plane; and so on.
func differences(dims, axis int) (d []difference) {
	for near := range 1 << dims {
		if near>>axis&1 == 0 {
			d = append(d, difference{far: near | 1<<axis, near: near})
		}
	}
	return d
}

// The lists of differences, so that running does not allocate.
var (
	differences2 = [3][]difference{differences(2, 0), differences(2, 1)}
	differences3 = [3][]difference{differences(3, 0), differences(3, 1), differences(3, 2)}
)

func gridGradientGo[C Compute](b *GridBlock) {
	if b.Joined.Images > 0 {
		b.eachImage(gridGradientGo[C])
		return
	}
	out := BlockOf[C](b.Scratch, tapBlocks, b.N)
	t := newTaps[C](&b.Sampler, b.N, b.Scratch)
	locate(&b.Sampler, b.Coords, &t)
	for i := range t.Count {
		b.Input.offsets(t.Pixel[i], t.Pixel[i], &b.Sampler)
	}
	sums := slopeSums[C](b)
	sums.add(&t)
	for axis := range b.Dims {
		sums.combine(out, axis, &t)
		Store(b.Output.Row(int64(axis), 0), out)
	}
}

// slopeSums makes the sums of a gradient by the grid.
func slopeSums[C Compute](b *GridBlock) channelSums[C] {
	lists := &differences2
	switch {
	case b.Mode == Bicubic:
		lists = cubicLists(b.Dims, 1)
	case b.Dims == 3:
		lists = &differences3
	}
	return channelSums[C]{b: b, lists: lists, n: b.N}
}

// channelSums sums terms over channels in Group order: per axis and difference it holds
// the total over groups and the partial sums of the group at hand. There are at most 12 sums.
type channelSums[C Compute] struct {
	b     *GridBlock
	lists *[3][]difference
	n     int
}

// levels is the depth of the fold of 16 channels, the terms included.
const levels = 5

func (g *channelSums[C]) block(axis, i, level int) []C {
	return BlockOf[C](g.b.Scratch, sumBlocks+(axis*4+i)*(levels+1)+level, g.n)
}

func (g *channelSums[C]) total(axis, i int) []C { return g.block(axis, i, levels) }

// add sums the terms of all channels: in groups of 16, of which each result is
// added to the totals. The taps' pixels are offsets.
func (g *channelSums[C]) add(t *taps[C]) {
	for axis, list := range g.lists {
		for i := range list {
			clear(g.total(axis, i))
		}
	}
	for c := int64(0); c < g.b.Channels; c += groupSize {
		g.addGroup(c, t)
	}
}

// addGroup folds the channels from c on, at most 16: c with c+8, then +4, +2,
// +1. Visiting them in bit-reversed order makes that a binary tree of
// neighbours, of which one partial sum per level is live.
func (g *channelSums[C]) addGroup(first int64, t *taps[C]) {
	dy := BlockOf[C](g.b.Scratch, tapBlocks+1, g.n)
	for visit := range groupSize {
		c := first + int64(bits.Reverse8(uint8(visit))>>4)
		if c >= g.b.Channels {
			g.clearTerms()
		} else {
			Load(dy, g.b.GradOutput.Row(c, 0))
			g.terms(c, t, dy)
		}
		for axis, list := range g.lists {
			for i := range list {
				g.fold(axis, i, visit)
			}
		}
	}
}

// clearTerms puts terms of +0 there, for a channel that does not exist.
func (g *channelSums[C]) clearTerms() {
	for axis, list := range g.lists {
		for i := range list {
			clear(g.block(axis, i, 0))
		}
	}
}

// terms puts the terms of channel c into the sums' blocks of level 0.
func (g *channelSums[C]) terms(c int64, t *taps[C], dy []C) {
	if g.b.Mode == Bicubic {
		g.cubicTerms(c, t, dy)
		return
	}
	var v [8][]C
	for i := range t.Count {
		v[i] = BlockOf[C](g.b.Scratch, tapBlocks+2+i, g.n)
		gather(v[i], g.b.Input.DType, g.b.Input.Channel(c), t.Pixel[i])
	}
	for axis, list := range g.lists {
		for i, d := range list {
			term := g.block(axis, i, 0)
			for j := range term {
				slope := v[d.far][j] - v[d.near][j]
				if d.step != 0 {
					slope = (v[d.far+d.step][j] - v[d.near+d.step][j]) - slope
				}
				term[j] = dy[j] * slope
			}
		}
	}
}

// fold adds the term of the given visit to the tree; the last visit adds the
// group's result to the total.
func (g *channelSums[C]) fold(axis, i, visit int) {
	term := g.block(axis, i, 0)
	k := 0
	for ; visit>>k&1 == 1; k++ {
		addInto(term, g.block(axis, i, k+1), term)
	}
	if visit == groupSize-1 {
		addInto(g.total(axis, i), g.total(axis, i), term)
		return
	}
	copy(g.block(axis, i, k+1), term)
}

// combine weights the sums of one axis and multiplies by the coordinate's
// derivative. A component whose derivative the padding set aside, or a position
// without a tap, is +0.
func (g *channelSums[C]) combine(out []C, axis int, t *taps[C]) {
	for j := range out {
		out[j] = 0
		switch k := t.Derivative[axis][j]; {
		case !t.hasTap(j) || t.isStill(&g.b.Sampler, axis, j):
		case g.b.Mode == Bicubic:
			out[j] = g.total(axis, 0)[j] * k
		case g.b.Mode == Bilinear:
			out[j] = g.weighted(axis, j, t) * k
		}
	}
}

// hasTap reports whether a position has a tap.
func (t *taps[C]) hasTap(j int) bool {
	for i := range t.Count {
		if t.Pixel[i][j] != outside {
			return true
		}
	}
	return false
}

// isStill reports whether a coordinate has no derivative, because of the padding
// or because it is no number.
func (t *taps[C]) isStill(g *Sampler, axis, j int) bool {
	k := t.Derivative[axis][j]
	return k != k || k == 0 && g.Mode == Bilinear && g.Padding != Zeros
}

// weighted sums the differences along an axis, each weighted by the distances
// along the other axes, the near one first.
func (g *channelSums[C]) weighted(axis, j int, t *taps[C]) C {
	total := func(i int) C { return g.total(axis, i)[j] }
	if g.b.Dims == 2 {
		o := 1 - axis
		return C(total(0)*t.Complement[o][j]) + C(total(1)*t.Fraction[o][j])
	}
	if axis < 2 {
		o := 1 - axis
		top := C(total(0)*t.Complement[o][j]) + C(total(1)*t.Fraction[o][j])
		bottom := C(total(2)*t.Complement[o][j]) + C(total(3)*t.Fraction[o][j])
		return C(top*t.Complement[2][j]) + C(bottom*t.Fraction[2][j])
	}
	var sum C
	for i := range 4 {
		wx, wy := t.Complement[0][j], t.Complement[1][j]
		if i&1 == 1 {
			wx = t.Fraction[0][j]
		}
		if i&2 == 2 {
			wy = t.Fraction[1][j]
		}
		sum += C(total(i) * C(wx*wy))
	}
	return sum
}
