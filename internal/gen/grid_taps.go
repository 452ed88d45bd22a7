package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// taps emits the four taps nw, ne, sw, se of a vector of positions, +0 for one
// outside. Neighbours are loaded as pairs, of which the cell's pair is always
// inside the image; where the cell reaches beyond it, taps are exchanged: at
// the right border the near tap is the pair's second element, at the left one
// the far tap is its first, and so for rows.
func (k *gridKernel) taps() (v [4]value) {
	v = k.pairs()
	within := k.newLabel("within")
	branch(k.c.CMPL, k.plane(planeEdge).Mem, operand.Imm(0), k.c.JEQ, within)
	exchange := func(m mask, a, b int) { // a becomes b where the mask holds
		if k.isa.masks {
			k.emit("VMOVAPS", v[b][0], m[0], v[a][0])
		} else {
			k.emit("VBLENDVPS", m[0], v[b][0], v[a][0], v[a][0])
		}
	}
	// A position is at one of two opposite borders at most, so that what is
	// taken is as it was loaded.
	for axis, pairs := range [2][2][2]int{{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}} {
		near, far := k.maskPlane(planeSwap+2*axis), k.maskPlane(planeSwap+2*axis+1)
		for _, p := range pairs {
			exchange(near, p[0], p[1])
			exchange(far, p[1], p[0])
		}
	}
	for tap := range v {
		m := k.maskPlane(planeInside + tap)
		if k.isa.masks {
			k.emit("VMOVAPS_Z", v[tap][0], m[0], v[tap][0])
		} else {
			k.emit("VANDPS", m[0], v[tap][0], v[tap][0])
		}
	}
	k.c.Label(within)
	return v
}

// pairs loads each position's pairs: the first and the second element of that
// in the cell's upper row, then of that in the lower.
func (k *gridKernel) pairs() (v [4]value) {
	if k.out.size == 4 {
		return k.pairs32()
	}
	return k.pairs16()
}

// elements are the places of a position's pairs, in both rows.
func (k *gridKernel) elements(lane int) (rows [2]operand.Mem) {
	at := k.c.GP64()
	k.c.MOVL(k.plane(planePair).plus(4*lane).Mem, at.As32())
	for row, base := range []reg.GPVirtual{k.input, k.below} {
		rows[row] = operand.Mem{Base: base, Index: at, Scale: uint8(k.out.size)}
	}
	return rows
}

// sampleAhead and termsAhead are how many positions ahead pixels are asked for.
const (
	sampleAhead = 64
	termsAhead  = 32
)

// prefetchAhead asks for the pixels of some of the vector of positions that comes later by so
// many positions. Those past the block's end are of no use and do no harm.
func (k *gridKernel) prefetchAhead(ahead int, lanes []int) {
	for _, lane := range lanes {
		at := k.c.GP64()
		k.c.MOVL(k.plane(planePair).plus(4*(ahead+lane)).Mem, at.As32())
		for _, base := range []reg.GPVirtual{k.input, k.below} {
			k.c.PREFETCHT0(operand.Mem{Base: base, Index: at, Scale: uint8(k.out.size)})
		}
	}
}

func (k *gridKernel) pairs32() (v [4]value) {
	// Two pairs fill a quarter of a register. Even quarters make one register,
	// odd ones another, so that the shuffles leave lanes in order.
	var halves [2][2]reg.VecVirtual
	for odd := range 2 {
		var quarters [2][]reg.VecVirtual
		for lane := 2 * odd; lane < k.lanes; lane += 4 {
			low, high := k.elements(lane), k.elements(lane+1)
			for row := range quarters {
				q := k.c.XMM()
				k.c.VMOVSD(low[row], q)
				k.c.VMOVHPS(high[row], q, q)
				quarters[row] = append(quarters[row], q)
			}
		}
		for row := range quarters {
			halves[row][odd] = k.join(quarters[row])
		}
	}
	for row, h := range halves {
		for second, elements := range []int{0x88, 0xDD} {
			v[2*row+second] = k.newValue()
			k.emit("VSHUFPS", elements, h[1], h[0], v[2*row+second][0])
		}
	}
	return v
}

// join puts quarters of 128 bits into one vector.
func (k *gridKernel) join(quarters []reg.VecVirtual) reg.VecVirtual {
	insert := "VINSERTF128"
	if k.isa.masks {
		insert = "VINSERTF32X4"
	}
	half := func(low, high reg.VecVirtual) reg.VecVirtual {
		y := k.c.YMM()
		k.emit(insert, 1, high, low.AsY(), y)
		return y
	}
	low := half(quarters[0], quarters[1])
	if len(quarters) == 2 {
		return low
	}
	z := k.c.ZMM()
	k.emit("VINSERTF64X4", 1, half(quarters[2], quarters[3]), low.AsZ(), z)
	return z
}

func (k *gridKernel) pairs16() (v [4]value) {
	var quarters [2][]reg.VecVirtual
	for lane := 0; lane < k.lanes; lane += 4 {
		var q [2]reg.VecVirtual
		for i := range 4 {
			for row, from := range k.elements(lane + i) {
				if i == 0 {
					q[row] = k.c.XMM()
					k.c.VMOVD(from, q[row])
				} else {
					k.emit("VPINSRD", i, from, q[row], q[row])
				}
			}
		}
		for row := range q {
			quarters[row] = append(quarters[row], q[row])
		}
	}
	for row := range quarters {
		both := value{k.join(quarters[row])}
		pair := k.ofType(k.out, func(t *storage) value {
			if t == bf16 {
				return append(k.apply("VPSLLD", 16, both), k.apply(k.bits("VPAND"), k.constant(upperHalf), both)...)
			}
			return append(k.widenF16(both), k.widenF16(k.apply("VPSRLD", 16, both))...)
		})
		v[2*row], v[2*row+1] = pair[:1], pair[1:]
	}
	return v
}

// widenF16 converts the lower halves of 32-bit lanes.
func (k *gridKernel) widenF16(v value) value {
	h, to := k.half(), k.newValue()
	if k.isa.masks {
		k.emit("VPMOVDW", v[0], h)
	} else {
		low := k.apply("VPAND", k.constant(uint32(0xFFFF)), v)
		k.emit("VPACKUSDW", low[0], low[0], low[0])
		k.emit("VPERMQ", 0xD8, low[0], low[0])
		h = low[0].AsX().(reg.VecVirtual)
	}
	k.emit("VCVTPH2PS", h, to[0])
	return to
}

// tapsAhead are taps, and asks for those of later positions.
func (k *gridKernel) tapsAhead() [4]value {
	k.prefetchAhead(sampleAhead, []int{0, k.lanes / 2})
	return k.taps()
}

// sample emits the sum of taps times their weights.
func (k *gridKernel) sample(taps func(k *gridKernel) [4]value) {
	k.input, k.below = param(k.c, "input"), param(k.c, "row")
	k.c.ADDQ(k.input, k.below)
	y := param(k.c, "y")
	k.forVectors(func() {
		v := taps(k)
		sum := k.zero()
		for tap := range 4 {
			sum = k.add(sum, k.mul(v[tap], k.loadPlane(planeWeight+tap)))
		}
		k.storeAt(sum, y, k.position())
	})
}

func (k *gridKernel) terms() {
	row := param(k.c, "row")
	k.below = k.c.GP64()
	k.termsOf(nil, func(g func() value, store func(sum int, v value)) {
		k.c.LEAQ(operand.Mem{Base: k.input, Index: row, Scale: 1}, k.below)
		k.prefetchAhead(termsAhead, []int{0})
		v, dy := k.taps(), g()
		for sum, d := range tapDifferences {
			store(sum, k.mul(dy, k.sub(v[d[0]], v[d[1]])))
		}
	})
}

// combineSums weights the sums along each axis by the distances along the other.
func (k *gridKernel) combineSums() {
	k.forVectors(func() {
		any := k.someInside()
		var sums [4]value
		for i := range sums {
			sums[i] = k.loadPlane(planeSums + i)
		}
		k.combine2(any, sums)
	})
}

// someInside returns which cells have a tap inside.
func (k *gridKernel) someInside() mask {
	any := k.maskPlane(planeInside)
	for tap := 1; tap < 4; tap++ {
		any = k.combine("KORW", "VOR", any, k.maskPlane(planeInside+tap))
	}
	return any
}

// combine2 makes the gradients of both coordinates.
func (k *gridKernel) combine2(any mask, sums [4]value) {
	for axis := range 2 {
		near := k.mul(sums[2*axis], k.loadPlane(planeS+1-axis))
		far := k.mul(sums[2*axis+1], k.loadPlane(planeT+1-axis))
		k.storeGradient(axis, any, k.add(near, far))
	}
}

// storeGradient stores the gradient of coordinates, +0 but where some tap is inside.
func (k *gridKernel) storeGradient(axis int, any mask, sum value) {
	slope := k.derivative(axis, sum)
	k.storePlane(planeGrad+axis, k.keep(any, k.mul(sum, slope)))
}

// derivative returns the derivatives of coordinates. Where the padding has set one
// aside, values become +0.
func (k *gridKernel) derivative(axis int, values ...value) value {
	slope, zeros := k.parameter(paramK+axis), k.newLabel("zeros")
	k.jumpMode(modeZeros, zeros)
	k.move(k.loadPlane(planeK+axis), slope)
	there := k.compare(slope, notEqual, k.zero())
	for _, v := range values {
		k.move(k.keep(there, v), v)
	}
	k.c.Label(zeros)
	return slope
}
