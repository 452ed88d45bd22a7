package main

import (
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
)

// support has what goes with kernels: it prepares the parameters of a tile
// (cpu/tile.go), and orders stores.
var support = unit{"support", []func(c *build.Context){expandAVX2, storeFence}}

// storeFence orders stores around the caches before those that come after.
func storeFence(c *build.Context) {
	c.Function("storeFence")
	c.Attributes(attr.NOSPLIT)
	c.SignatureExpr("func()")
	c.SFENCE()
	c.RET()
}

// expandAVX2 fills dst with each f32 of src, run times: whole vectors, of
// which the next ones overwrite what is too much.
func expandAVX2(c *build.Context) {
	c.Function("expandAVX2")
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	pkg := types.NewPackage("cpu", "cpu")
	var params []*types.Var
	add := func(t types.Type, names ...string) {
		for _, n := range names {
			params = append(params, types.NewVar(0, pkg, n, t))
		}
	}
	add(types.NewPointer(types.Typ[types.Float32]), "dst", "src")
	add(types.Typ[types.Int], "count", "run")
	c.Signature(gotypes.NewSignature(pkg, types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), nil, false)))
	dst, src, count, run := param(c, "dst"), param(c, "src"), param(c, "count"), param(c, "run")
	c.SHLQ(operand.Imm(2), run) // bytes
	v, at := c.YMM(), c.GP64()
	c.Label("next")
	c.TESTQ(count, count)
	c.JLE(operand.LabelRef("done"))
	c.VBROADCASTSS(operand.Mem{Base: src}, v)
	c.XORQ(at, at)
	c.Label("more")
	c.VMOVUPS(v, operand.Mem{Base: dst, Index: at, Scale: 1})
	c.ADDQ(operand.Imm(32), at)
	c.CMPQ(at, run)
	c.JLT(operand.LabelRef("more"))
	c.ADDQ(run, dst)
	c.ADDQ(operand.Imm(4), src)
	c.DECQ(count)
	c.JMP(operand.LabelRef("next"))
	c.Label("done")
	c.VZEROUPPER()
	c.RET()
}
