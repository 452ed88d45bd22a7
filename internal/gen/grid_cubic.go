package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// The kernels of bicubic grid_sample (cpu/grid_cubic_cells.go). A position's four
// taps in a row of the image are a window of four elements. Where the padding
// has other taps than the window's elements, Go has said which they are.

// The planes of a block of cells, as cpu/grid_cubic_cells.go names them.
const (
	cubicPlace   = planeImages      // the element that the window begins at, of each row of taps
	cubicSelect  = cubicPlace + 4   // the taps' elements in the window, of each column of taps
	cubicControl = cubicSelect + 4  // the same, by positions: as VPERMILPS wants it
	cubicColumns = cubicControl + 4 // whether a column of taps is inside
	cubicRows    = cubicColumns + 4
	cubicLive    = cubicRows + 4    // whether there is a gradient along x, y
	cubicWeight  = cubicLive + 2    // of the columns, then their derivatives; of the rows
	cubicPixel   = cubicWeight + 16 // of each tap its number in the band, or -1
	cubicProduct = cubicPixel + 16  // of each tap its weight
	cubicSums    = planeSums        // x, y

	cubicTaps = 4     // along an axis
	cubicA    = -0.75 // see cpu/grid_cubic.go
)

// cubicKernels emits those of every type, on every instruction set.
func cubicKernels(c *build.Context) {
	globals := newTables()
	for _, isa := range isas {
		begin := gridFunctions(c, globals, isa)
		begin("gridCubicLocate"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicLocate"+isa.name+" fills cells from the coordinates of n positions and the parameters.").locateCubic(true)
		begin("gridCubicPlace"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicPlace"+isa.name+" is gridCubicLocate without what only the grid's gradient needs.").locateCubic(false)
		begin("gridCubicPixels"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicPixels"+isa.name+" numbers the taps' pixels within a band of the image, and multiplies weights.").cubicPixels()
		begin("gridCubicCombine"+isa.name, f32, "func(cells *byte, n int)",
			"gridCubicCombine"+isa.name+" turns the cells' sums into gradients.").combineCubic()
		for _, t := range []*storage{f32, bf16, f16} {
			name := "gridCubicSample" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, y *byte)",
				name+" samples one channel at n positions.",
				"The last vector of cells is that of the last positions.").sampleCubic()
			name = "gridCubicTerms" + isa.name + t.name
			begin(name, t, "func(cells *byte, n int, input *byte, channelStride int, dy *byte, dyStride int, channels int, terms *byte)",
				name+" adds one group's terms of the grid's gradient, of up to 16 channels, to the",
				"cells' sums. terms is room for 16 times 4 vectors.").termsCubic()
		}
	}
}

// locateCubic fills cells. planeEdge has two words for each vector: of which
// positions taps are not a window's elements in order, and of which of them Go
// has to say what they are.
func (k *gridKernel) locateCubic(gradient bool) {
	k.forVectors(func() {
		var plain mask
		var first [2]value
		for axis := range 2 {
			mapped := k.add(k.loadPlane(planeCoord+axis), k.float(1))
			mapped = k.sub(k.mul(mapped, k.parameter(paramScale+axis)), k.parameter(paramShift+axis))
			c := k.mul(mapped, k.parameter(paramFactor+axis))
			k.storePlane(planeCoord+axis, c)
			floor := k.floor(c)
			k.weights(axis, k.sub(c, floor), gradient)
			low, high := k.sub(floor, k.float(1)), k.add(floor, k.float(2))
			inside := k.both(k.compare(low, greaterEqual, k.zero()), k.compare(high, less, k.parameter(paramSize+axis)))
			if axis == 1 {
				inside = k.both(plain, inside)
			}
			plain, first[axis] = inside, k.apply("VCVTTPS2DQ", low)
		}
		pitch := k.integer(paramPitch)
		place := k.apply("VPADDD", k.apply("VPMULLD", pitch, first[1]), first[0])
		all, control := k.number(math.MaxUint32), value{k.vector()}
		k.emit("VMOVUPS", k.table("window", operand.U32(0), operand.U32(1), operand.U32(2), operand.U32(3)), control[0])
		for tap := range cubicTaps {
			k.storePlane(cubicPlace+tap, place)
			if tap < cubicTaps-1 {
				place = k.apply("VPADDD", pitch, place)
			}
			k.storePlane(cubicSelect+tap, k.number(uint32(tap)))
			k.storePlane(cubicControl+tap, control)
			k.storePlane(cubicColumns+tap, all)
			k.storePlane(cubicRows+tap, all)
		}
		k.storePlane(cubicLive, all)
		k.storePlane(cubicLive+1, all)
		within := k.newLabel("within")
		bits := k.storeBits(plain, k.plane(planeEdge))
		k.c.TESTL(bits, bits)
		k.c.JEQ(operand.LabelRef(within))
		k.moveTaps(bits)
		k.c.Label(within)
	})
}

// weights stores the weights of the taps along an axis, and their derivatives.
func (k *gridKernel) weights(axis int, t value, slopes bool) {
	k.weightsOf(t, slopes, func(i int, v value) { k.storePlane(cubicWeight+2*cubicTaps*axis+i, v) })
}

// weightsOf computes the weights of four taps from the coordinates' fractions,
// and their derivatives, numbers 4 to 7.
func (k *gridKernel) weightsOf(t value, slopes bool, store func(i int, v value)) {
	const a = cubicA
	s := k.sub(k.float(1), t)
	far := [2]value{k.add(t, k.float(1)), k.add(s, k.float(1))}
	near := [2]value{t, s}
	for side := range 2 {
		u := far[side]
		v := k.sub(k.mul(u, k.float(a)), k.float(5*a))
		v = k.add(k.mul(v, u), k.float(8*a))
		store(3*side, k.sub(k.mul(v, u), k.float(4*a)))
		u = near[side]
		v = k.mul(k.sub(k.mul(u, k.float(a+2)), k.float(a+3)), u)
		store(1+side, k.add(k.mul(v, u), k.float(1)))
		if !slopes {
			continue
		}
		u = far[side]
		outer := k.add(k.mul(k.sub(k.mul(u, k.float(3*a)), k.float(10*a)), u), k.float(8*a))
		u = near[side]
		inner := k.mul(k.sub(k.mul(u, k.float(3*(a+2))), k.float(2*(a+3))), u)
		for i, v := range []value{outer, inner} {
			if side == 1 {
				v = k.apply(k.bits("VPXOR"), k.float(math.Copysign(0, -1)), v)
			}
			store(cubicTaps+[2][2]int{{0, 1}, {3, 2}}[side][i], v)
		}
	}
}
