package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// isa is what the instruction sets differ in. Most mnemonics are the same for
// registers of any width.
type isa struct {
	name   string // in tables, as cpu names it
	bytes  int    // of a vector register
	masks  bool   // has mask registers: tails are masked, not left to the caller
	rint   string // rounds to a whole number
	vector func(c *build.Context) reg.VecVirtual
	group  int // vectors that a kernel handles side by side, unless the op says less
	held   int // registers that may hold accumulators
}

var (
	avx512 = &isa{"AVX512", 64, true, "VRNDSCALE", func(c *build.Context) reg.VecVirtual { return c.ZMM() }, 4, 8}
	avx2   = &isa{"AVX2", 32, false, "VROUND", func(c *build.Context) reg.VecVirtual { return c.YMM() }, 2, 0}
)

// isas lists the instruction sets that rows are generated for, best first.
var isas = []*isa{avx512, avx2}

// storage is a type that elements have in memory.
type storage struct {
	name string // of the tensor.DType
	size int    // bytes
	// load emits the load of one vector of elements as compute type. It is
	// masked where the kernel is in its tail.
	load func(k *kernel, from memory) reg.VecVirtual
	// pack emits the rounding of a group of vectors to the type, and returns
	// what is to be stored: registers that hold elements in order.
	pack func(k *kernel, v value) []reg.Register
	// exact is pack for values that are elements of the type.
	exact func(k *kernel, v value) []reg.Register
	// masked emits the masked store of a single vector.
	masked func(k *kernel, v []reg.Register, to memory)
	// of are the types that it stands for, where kernels are those of several.
	of []*storage
}
