package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// The numbers that a step of Adam reads, by their place (kernel.Adam).
const (
	adamKeep = iota
	adamDecay
	adamOneLessBeta1
	adamBeta2
	adamOneLessBeta2
	adamRate
	adamRoot
	adamEps
	adamNumbers
)

// adamRows emits autodiff's step of Adam, a vector at a time. Each step rounds by itself, as in Go.
func adamRows(c *build.Context, globals *tables) {
	for _, isa := range isas {
		for _, t := range []*storage{f32, f64} {
			k := newKernel(c, globals, isa, t)
			name := "adam" + isa.name + t.name
			element := either(k.double(), "float64", "float32")
			beginFunction(c, name, "func(p, dp, m, v *"+element+", numbers *[8]"+element+", n int)",
				name+" is Adam's step on n elements, a multiple of a vector's, not 0.")
			n, numbers := param(c, "n"), param(c, "numbers")
			var number [adamNumbers]value
			for i := range number {
				v := k.vector()
				k.emit(k.scalar("VBROADCAST"), operand.Mem{Base: numbers, Disp: i * t.size}, v)
				number[i] = value{v}
			}
			at := c.GP64()
			c.XORQ(at, at)
			rows := map[string]operand.Mem{}
			for _, row := range []string{"p", "dp", "m", "v"} {
				rows[row] = operand.Mem{Base: param(c, row), Index: at, Scale: uint8(t.size)}
			}
			c.Label("more")
			load := func(row string) value { return value{loadWhole(k, memory{rows[row]})} }
			p, g, m, v := load("p"), load("dp"), load("m"), load("v")
			d := k.add(g, k.mul(number[adamDecay], p))
			m = k.add(m, k.mul(k.sub(d, m), number[adamOneLessBeta1]))
			v = k.add(k.mul(v, number[adamBeta2]), k.mul(k.mul(d, d), number[adamOneLessBeta2]))
			root := k.add(k.div(k.apply(k.ps("VSQRT"), v), number[adamRoot]), number[adamEps])
			p = k.sub(k.mul(p, number[adamKeep]), k.div(k.mul(number[adamRate], m), root))
			for i, x := range []value{p, m, v} {
				k.emit(k.ps("VMOVU"), x[0], rows[[]string{"p", "m", "v"}[i]])
			}
			c.ADDQ(operand.Imm(uint64(k.lanes)), at)
			branch(c.CMPQ, at, n, c.JLT, "more")
			endFunction(c)
		}
	}
}
