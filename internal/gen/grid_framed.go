package main

import "github.com/mmcloughlin/avo/operand"

// The kernels of grid_sample on small images, which lie within a frame of
// zeros (cpu/grid_framed.go): every tap of a position has a place there, so
// that one number says where all four are. planePair holds it.

// framedKernels emits those that begin makes, for an instruction set.
func framedKernels(isa *isa, begin func(name string, t *storage, signature string, doc ...string) *gridKernel) {
	name := "gridFramedLocate" + isa.name
	begin(name, f32, "func(cells *byte, n int)",
		name+" is gridLocate"+isa.name+" for images with a frame.").locateFramed()
	name = "gridFramedSample" + isa.name
	begin(name, f32, "func(cells *byte, n int, input *byte, row int, y *byte)",
		name+" samples one channel, whose rows lie row bytes apart, at n positions.",
		"The last vector of cells is that of the last positions.").sample((*gridKernel).pairs32)
	name = "gridFramedSlope" + isa.name
	begin(name, f32, "func(cells *byte, n int, input *byte, row int, channelStride int, dy *byte, dyStride int, channels int, terms *byte)",
		name+" makes the grid's gradient, of up to 16 channels. terms is room for 16 times 4 vectors.").slopeFramed()
}

// locateFramed fills cells; a position without a tap is at place 0, and has
// weights of 0.
func (k *gridKernel) locateFramed() {
	k.forVectors(func() {
		var near, far, number [2]value
		var inside mask
		for axis := range 2 {
			var floor, next value
			floor, next, near[axis], far[axis] = k.distances(axis, false)
			some := k.within(floor, k.parameter(paramLow+axis), k.parameter(paramHigh+axis))
			if axis == 1 {
				some = k.both(inside, some)
			}
			inside, number[axis] = some, k.apply("VCVTTPS2DQ", next)
		}
		place := k.apply("VPADDD", k.apply("VPMULLD", k.integer(paramPitch), number[1]), k.apply("VPADDD", k.integer(paramOrigin), number[0]))
		k.storePlane(planePair, k.keep(inside, place))
		for tap := range 4 {
			weight := k.mul([]value{near[0], far[0]}[tap&1], []value{near[1], far[1]}[tap>>1])
			k.storePlane(planeWeight+tap, k.keep(inside, weight))
		}
		k.slopes(false, func() { k.storeMask(planeInside, inside) })
	})
}

// slopeFramed emits what terms and combineSums do, for a single group.
func (k *gridKernel) slopeFramed() {
	c := k.c
	row, stride, dyStride := param(c, "row"), param(c, "channelStride"), param(c, "dyStride")
	k.clearTerms(param(c, "terms"))
	k.input, k.below = c.GP64(), c.GP64()
	k.forVectors(func() {
		one, combine := k.newLabel("one"), k.newLabel("combine")
		from := param(c, "dy")
		c.LEAQ(operand.Mem{Base: from, Index: k.position(), Scale: 4}, from)
		c.Load(c.Param("input"), k.input)
		// of differences along x, of the top and the bottom row, and along y
		differences := func() (d [4]value) {
			c.LEAQ(operand.Mem{Base: k.input, Index: row, Scale: 1}, k.below)
			v := k.pairs32()
			g := value{loadWhole(k.kernel, memory{operand.Mem{Base: from}})}
			for sum, pair := range tapDifferences {
				d[sum] = k.mul(g, k.sub(v[pair[0]], v[pair[1]]))
			}
			return d
		}
		var sums [4]value
		for i := range sums {
			sums[i] = value{k.vector()}
		}
		set := func(sum int, v value) { k.emit("VADDPS", k.zero()[0], v[0], sums[sum][0]) }
		left := param(c, "channels")
		branch(c.CMPQ, left, operand.Imm(1), c.JEQ, one)
		loop, few := k.newLabel("channel"), k.newLabel("few")
		to := param(c, "terms")
		c.Label(loop)
		for sum, d := range differences() {
			k.emit("VMOVUPS", d[0], operand.Mem{Base: to, Disp: sum * k.isa.bytes})
		}
		c.ADDQ(operand.U32(4*k.isa.bytes), to)
		c.ADDQ(stride, k.input)
		c.ADDQ(dyStride, from)
		c.DECQ(left)
		c.JNE(operand.LabelRef(loop))
		terms := param(c, "terms")
		branch(c.CMPQ, param(c, "channels"), operand.Imm(4), c.JLE, few)
		for sum := range sums {
			set(sum, k.foldTerms(terms, groupChannels, sum))
		}
		c.JMP(operand.LabelRef(combine))
		c.Label(few)
		for sum := range sums {
			set(sum, k.foldTerms(terms, 4, sum))
		}
		c.JMP(operand.LabelRef(combine))
		c.Label(one)
		for sum, d := range differences() {
			set(sum, d)
		}
		c.Label(combine)
		k.combine2(k.maskPlane(planeInside), sums)
	})
}
