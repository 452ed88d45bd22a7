package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// support has what goes with kernels: it prepares the parameters of a tile
// (cpu/tile.go), and orders stores.
var support = unit{"cpu", "support", "amd64", []func(c *build.Context){expand, foldLanes, foldMinMax, sumGroups, groupExtremes, groupExtremesOfDoubles, columnExtremes, addNumbers, storeZeros, storeLines, copyShortRows, storeFence, prefetchLines, quickParams, zeroBytes, amdFamily, loadParameters, chooseParameters}}

// foldLanes adds up 64 lanes by halves: l with l+32, then l+16, ... 1.
func foldLanes(c *build.Context) {
	beginFunction(c, "foldLanesAVX2", "func(lanes *float32) float32",
		"foldLanesAVX2 adds up 64 lanes by halves.")
	lanes := param(c, "lanes")
	v := make([]reg.VecVirtual, 4)
	for i := range v {
		v[i] = c.YMM()
		c.VMOVUPS(operand.Mem{Base: lanes, Disp: 32 * i}, v[i])
		c.VADDPS(operand.Mem{Base: lanes, Disp: 32 * (i + 4)}, v[i], v[i])
	}
	sum := foldHalves(c, v, c.VADDPS, c.VADDSS)
	c.VZEROUPPER()
	c.Store(sum, c.ReturnIndex(0))
	c.RET()
}

// foldHalves folds the elements of registers, a power of 2 of them: the first
// half with the second, until one element is left.
func foldHalves(c *build.Context, v []reg.VecVirtual, vector, scalar func(...operand.Op)) reg.Register {
	for half := len(v) / 2; half > 0; half /= 2 {
		for i := range half {
			vector(v[i+half], v[i], v[i])
		}
	}
	upper, result := c.XMM(), v[0].AsX()
	c.VEXTRACTF128(operand.Imm(1), v[0], upper)
	vector(upper, result, result)
	c.VMOVHLPS(result, result, upper)
	vector(upper, result, result)
	c.VMOVSHDUP(result, upper)
	scalar(upper, result, result)
	return result
}

// storeFence orders stores around the caches before those that come after.
func storeFence(c *build.Context) {
	c.Function("storeFence")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func()")
	c.SFENCE()
	c.RET()
}

// amdFamily asks the processor who made it, and which family it is of.
func amdFamily(c *build.Context) {
	beginFunction(c, "amdFamily", "func() (family uint32)", "amdFamily returns the family of a processor of AMD's, 0 for another.")
	identify := func(leaf uint64) {
		c.MOVL(operand.U32(leaf), reg.EAX)
		c.XORL(reg.ECX, reg.ECX)
		c.CPUID()
	}
	family := c.GP32()
	c.XORL(family, family)
	identify(0)
	c.CMPL(reg.EBX, operand.U32(0x68747541)) // Auth
	c.JNE(operand.LabelRef("other"))
	c.CMPL(reg.ECX, operand.U32(0x444d4163)) // cAMD
	c.JNE(operand.LabelRef("other"))
	identify(1)
	extended := c.GP32()
	c.MOVL(reg.EAX, family)
	c.SHRL(operand.Imm(8), family)
	c.ANDL(operand.Imm(15), family)
	c.MOVL(reg.EAX, extended)
	c.SHRL(operand.Imm(20), extended)
	c.ANDL(operand.Imm(255), extended)
	c.ADDL(extended, family)
	c.Label("other")
	c.Store(family, c.ReturnIndex(0))
	c.RET()
}

// prefetchLines asks for lines of memory without waiting for them.
func prefetchLines(c *build.Context) {
	beginFunction(c, "prefetchLines", "func(from *byte, lines int)", "prefetchLines asks for lines of 64 bytes, one after the other.")
	from, lines := param(c, "from"), param(c, "lines")
	c.Label("line")
	c.PREFETCHT0(operand.Mem{Base: from})
	c.ADDQ(operand.Imm(64), from)
	c.DECQ(lines)
	c.JG(operand.LabelRef("line"))
	c.RET()
}

// foldMinMax returns the smallest and the largest of 64 lanes, and whether
// there is a NaN among the second, from which the largest then may not be.
func foldMinMax(c *build.Context) {
	beginFunction(c, "foldMinMaxAVX2", "func(lo, hi *float32) (least, largest float32, nan int32)",
		"foldMinMaxAVX2 returns the smallest of 64 lanes and the largest of 64 others, of which nan", "tells whether one is a NaN.")
	nan, bits := c.YMM(), c.GP32()
	c.VXORPS(nan, nan, nan)
	for result, side := range []struct {
		name   string
		vector func(...operand.Op)
		scalar func(...operand.Op)
	}{{"lo", c.VMINPS, c.VMINSS}, {"hi", c.VMAXPS, c.VMAXSS}} {
		lanes, v := param(c, side.name), make([]reg.VecVirtual, 8)
		for i := range v {
			v[i] = c.YMM()
			c.VMOVUPS(operand.Mem{Base: lanes, Disp: 32 * i}, v[i])
			if side.name == "hi" {
				m := c.YMM()
				c.VCMPPS(operand.Imm(unordered), v[i], v[i], m)
				c.VORPS(m, nan, nan)
			}
		}
		c.Store(foldHalves(c, v, side.vector, side.scalar), c.ReturnIndex(result))
	}
	c.VMOVMSKPS(nan, bits)
	c.VZEROUPPER()
	c.Store(bits, c.ReturnIndex(2))
	c.RET()
}

// addNumbers adds numbers to as many others.
func addNumbers(c *build.Context) {
	for _, t := range []struct {
		name, element string
		size          int
		add           func(ops ...operand.Op)
	}{{"F32", "float32", 4, c.VADDPS}, {"F64", "float64", 8, c.VADDPD}} {
		beginFunction(c, "addAVX2"+t.name, fmt.Sprintf("func(to, from *%s, n int)", t.element),
			fmt.Sprintf("addAVX2%s adds n numbers to those at to: n is a multiple of %d.", t.name, 64/t.size))
		to, from := param(c, "to"), param(c, "from")
		inSteps(c, 64/t.size, func() {
			for at := 0; at < 64; at += 32 {
				sum := c.YMM()
				c.VMOVUPS(operand.Mem{Base: to, Disp: at}, sum)
				t.add(operand.Mem{Base: from, Disp: at}, sum, sum)
				c.VMOVUPS(sum, operand.Mem{Base: to, Disp: at})
			}
			c.ADDQ(operand.Imm(64), from)
			c.ADDQ(operand.Imm(64), to)
		})
	}
}

// storeZeros clears memory around the caches.
func storeZeros(c *build.Context) {
	beginFunction(c, "storeZerosAVX2", "func(to *byte, n int)",
		"storeZerosAVX2 clears n bytes around the caches: both are multiples of 64.")
	to, zero := param(c, "to"), c.YMM()
	c.VPXOR(zero, zero, zero)
	inSteps(c, 64, func() {
		for half := range 2 {
			c.VMOVNTDQ(zero, operand.Mem{Base: to, Disp: 32 * half})
		}
		c.ADDQ(operand.Imm(64), to)
	})
}

// storeLines copies memory around the caches.
func storeLines(c *build.Context) {
	beginFunction(c, "storeLinesAVX2", "func(to, from *byte, n int)",
		"storeLinesAVX2 copies n bytes around the caches: n, to and from are multiples of 64.")
	to, from, v := param(c, "to"), param(c, "from"), [2]reg.VecVirtual{c.YMM(), c.YMM()}
	inSteps(c, 64, func() {
		for half := range v {
			c.VMOVDQA(operand.Mem{Base: from, Disp: 32 * half}, v[half])
		}
		for half := range v {
			c.VMOVNTDQ(v[half], operand.Mem{Base: to, Disp: 32 * half})
		}
		c.ADDQ(operand.Imm(64), from)
		c.ADDQ(operand.Imm(64), to)
	})
}

// expand fills dst with each element of src, run times: whole vectors, of which the next ones overwrite what is too much.
// Of up to a vector each there are four at a time, so that it matters little where the linker puts the loop.
func expand(c *build.Context) {
	for _, t := range []struct {
		name, compute string
		size          int
		broadcast     func(...operand.Op)
	}{{"F32", "float32", 4, c.VBROADCASTSS}, {"F64", "float64", 8, c.VBROADCASTSD}} {
		name := "expandAVX2" + t.name
		beginFunction(c, name, fmt.Sprintf("func(dst, src *%s, count, run int)", t.compute),
			name+" fills dst with each of count elements of src, run times. It may read 3 more, and write 128 bytes.")
		dst, src, count, run := param(c, "dst"), param(c, "src"), param(c, "count"), param(c, "run")
		c.SHLQ(operand.Imm(uint64(bits.TrailingZeros(uint(t.size)))), run) // bytes
		const vector, few = 32, 4
		branch(c.CMPQ, run, operand.U32(vector), c.JGT, "long")
		while(c, count, few, "few", "done", func() {
			for i := range few {
				v := c.YMM()
				t.broadcast(operand.Mem{Base: src, Disp: t.size * i}, v)
				c.VMOVUPS(v, operand.Mem{Base: dst})
				c.ADDQ(run, dst)
			}
			c.ADDQ(operand.Imm(uint64(few*t.size)), src)
		})
		endFunction(c)
		c.Label("long")
		for _, vectors := range []int{4, 1} {
			label := func(name string) string { return fmt.Sprint(name, vectors) }
			v, at := c.YMM(), c.GP64()
			if vectors > 1 {
				branch(c.TESTQ, operand.U32(vectors*vector-1), run, c.JNE, "next1")
			}
			while(c, count, 1, label("next"), label("done"), func() {
				t.broadcast(operand.Mem{Base: src}, v)
				c.XORQ(at, at)
				c.Label(label("more"))
				for i := range vectors {
					c.VMOVUPS(v, operand.Mem{Base: dst, Index: at, Scale: 1, Disp: i * vector})
				}
				c.ADDQ(operand.U32(vectors*vector), at)
				branch(c.CMPQ, at, run, c.JLT, label("more"))
				c.ADDQ(run, dst)
				c.ADDQ(operand.Imm(uint64(t.size)), src)
			})
			endFunction(c)
		}
	}
}

// copyShortRows copies rows of 16 to 256 bytes, which lie some bytes apart: by so many moves of one size that the last ones, which
// end with the row, overlap those before them by less than all. Of many rows, lines of one some rows on are asked for: a
// processor looks ahead no further than a page along rows.
func copyShortRows(c *build.Context) {
	beginFunction(c, "copyShortRowsAVX2", "func(to *byte, toStep int, from *byte, fromStep, bytes, rows int)",
		"copyShortRowsAVX2 copies rows of 16 to 256 bytes, which lie a step apart.")
	to, toStep, from, fromStep := param(c, "to"), param(c, "toStep"), param(c, "from"), param(c, "fromStep")
	size, rows, later := param(c, "bytes"), param(c, "rows"), c.GP64()
	const ahead, many = 8, 32
	c.MOVQ(from, later)
	branch(c.CMPQ, rows, operand.U32(many), c.JLT, "few")
	c.LEAQ(operand.Mem{Base: from, Index: fromStep, Scale: ahead}, later)
	c.Label("few")
	classes := []struct{ moves, bytes int }{{2, 16}, {2, 32}, {4, 32}, {8, 32}}
	for i, class := range classes {
		most := class.moves * class.bytes
		row := fmt.Sprint("rows", most)
		if i < len(classes)-1 {
			branch(c.CMPQ, size, operand.U32(most), c.JGT, fmt.Sprint("over", most))
		}
		c.Label(row)
		for move := range class.moves {
			v := reg.VecVirtual(c.YMM())
			if class.bytes == 16 {
				v = c.XMM()
			}
			at := func(base reg.Register) operand.Mem {
				if end := move - class.moves; end >= -class.moves/2 {
					return operand.Mem{Base: base, Index: size, Scale: 1, Disp: end * class.bytes}
				}
				return operand.Mem{Base: base, Disp: move * class.bytes}
			}
			c.VMOVUPS(at(from), v)
			c.VMOVUPS(v, at(to))
		}
		for line := 0; line < most; line += 64 {
			c.PREFETCHT0(operand.Mem{Base: later, Disp: line})
		}
		c.ADDQ(fromStep, later)
		c.ADDQ(fromStep, from)
		c.ADDQ(toStep, to)
		c.DECQ(rows)
		c.JG(operand.LabelRef(row))
		if i < len(classes)-1 {
			c.JMP(operand.LabelRef("done"))
			c.Label(fmt.Sprint("over", most))
		}
	}
	c.Label("done")
	endFunction(c)
}
