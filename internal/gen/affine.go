package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The kernels of affine_grid take positions as they lie in memory, coordinates
// side by side. Base coordinates come in planes, one for each axis, in which
// each is repeated for every coordinate of its position: so nothing is taken
// apart, in two dimensions or three.

// patternElements are the elements of a pattern: whole vectors, after which a
// coordinate comes first again.
const patternElements = 48

func affineKernels(c *build.Context) {
	eachKernel(c, []*storage{f32, f64, bf16, f16}, func(k *kernel) {
		for dims := 2; dims <= 3; dims++ {
			one := *k
			a := &affine{&one, dims}
			a.grid()
			a.sums()
			if k.out == k.compute {
				a.spread()
			}
		}
	})
}

type affine struct {
	*kernel
	dims int
}

func (a *affine) begin(what, signature string, doc ...string) {
	name := fmt.Sprintf("affine%s%d%s%s", what, a.dims, a.isa.name, a.out.name)
	doc[0] = name + " " + doc[0]
	beginFunction(a.c, name, signature, doc...)
}

// bases returns where vector v of an axis' plane is.
func bases(plane, apart reg.GPVirtual, axis, offset int) operand.Mem {
	if axis == 0 {
		return operand.Mem{Base: plane, Disp: offset}
	}
	return operand.Mem{Base: plane, Index: apart, Scale: uint8(axis), Disp: offset}
}

// spread fills planes: whole vectors, of which the next ones overwrite what is
// too much.
func (a *affine) spread() {
	c := a.c
	a.begin("Spread", "func(plane *byte, apart int, n int, x *byte, rest *byte)",
		"copies n elements of x to a plane, and fills the",
		fmt.Sprintf("other planes with those of rest, %d bytes more than n elements at most.", a.isa.bytes-a.compute.size))
	plane, apart, x, rest := param(c, "plane"), param(c, "apart"), param(c, "x"), param(c, "rest")
	fills := make(value, a.dims)
	for axis := range fills {
		fills[axis] = a.vector()
		if axis > 0 {
			a.emit(a.broadcast(), operand.Mem{Base: rest, Disp: (axis - 1) * a.compute.size}, fills[axis])
		}
	}
	inSteps(c, a.lanes, func() {
		a.emit(a.ps("VMOVU"), operand.Mem{Base: x}, fills[0])
		for axis, v := range fills {
			a.emit(a.ps("VMOVU"), v, bases(plane, apart, axis, 0))
		}
		c.ADDQ(operand.U32(a.isa.bytes), x)
		c.ADDQ(operand.U32(a.isa.bytes), plane)
	})
}

// sums adds the products of gradients and base coordinates to lanes, and, last,
// the gradients themselves.
func (a *affine) sums() {
	a.begin("Sums", "func(x *byte, plane *byte, apart int, stripes int, lanes *byte)",
		"adds, for each axis, the products of x and the axis' plane to lanes,",
		"apart bytes from one plane to the next; after them, x.")
	plane, apart := param(a.c, "plane"), param(a.c, "apart")
	s := &stripes{kernel: a.kernel, data: a.out, elements: a.dims, sums: a.dims + 1, plane: plane}
	s.add = func(v int, x reg.VecVirtual, acc []reg.VecVirtual) {
		for axis := range a.dims {
			product := a.vector()
			a.emit(a.ps("VMUL"), bases(s.plane, apart, axis, v*a.isa.bytes), x, product)
			a.emit(a.ps("VADD"), product, acc[axis], acc[axis])
		}
		a.emit(a.ps("VADD"), x, acc[a.dims], acc[a.dims])
	}
	s.function()
}

// grid computes (t0*bx + t1*by) + t2, in volumes ((t0*bx + t1*by) + t2*bz) + t3.
func (a *affine) grid() {
	c := a.c
	a.begin("Grid", "func(plane *byte, apart int, theta *byte, out *byte, stripes int)",
		"computes the coordinates of stripes of 64 positions: theta has",
		fmt.Sprintf("%d elements for each column, in the order of the coordinates.", patternElements))
	plane, apart, theta, out, left := param(c, "plane"), param(c, "apart"), param(c, "theta"), param(c, "out"), param(c, "stripes")
	period, turn := 1, 4 // vectors after which coordinates are as before, and of a turn of the loop
	if a.dims == 3 {
		period, turn = 3, 6
	}
	element := func(column, v int) any {
		return operand.Mem{Base: theta, Disp: (column*patternElements + v%period*a.lanes) * a.compute.size}
	}
	if columns := a.dims + 1; a.isa.masks || a.dims == 2 { // else there are too few registers
		held := make([]value, columns)
		for column := range held {
			for v := range period {
				r := a.vector()
				a.emit(a.ps("VMOVU"), element(column, v), r)
				held[column] = append(held[column], r)
			}
		}
		element = func(column, v int) any { return held[column][v%period] }
	}
	const group = 2
	a.group = group
	c.IMUL3Q(operand.U32(a.dims*stripeLanes/(turn*a.lanes)), left, left)
	while(c, left, 1, "turn", "done", func() {
		for first := 0; first < turn; first += group {
			sums := a.newValue()
			for i := range sums {
				v := first + i
				for axis := range a.dims {
					x := a.vector()
					a.emit(a.ps("VMOVU"), bases(plane, apart, axis, v*a.isa.bytes), x)
					a.emit(a.ps("VMUL"), element(axis, v), x, x)
					if axis == 0 {
						sums[i] = x
					} else {
						a.emit(a.ps("VADD"), x, sums[i], sums[i])
					}
				}
				a.emit(a.ps("VADD"), element(a.dims, v), sums[i], sums[i])
			}
			a.put(a.out.pack(a.kernel, sums), memory{operand.Mem{Base: out, Disp: first * a.lanes * a.out.size}})
		}
		c.ADDQ(operand.U32(turn*a.isa.bytes), plane)
		c.ADDQ(operand.U32(turn*a.lanes*a.out.size), out)
	})
	endFunction(c)
}
