package main

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// op describes an operation on elements of one or two data inputs and the
// parameters of their groups.
type op struct {
	name   string // of the table in cpu, in lower case
	doc    string // what a kernel does to element i
	docF8  string // where codes are 8-bit floats, if it differs
	params int    // 2: scale and zero point, 1: scale, 0: none
	bounds bool   // reads lo and hi
	// relative says that it reads first and last, the bounds less the zero point.
	relative bool
	sums     int // sets of accumulators
	// chooses says that scale and zero point are made of a run's extremes. Such
	// kernels take runs only, and need masks.
	chooses bool
	group   int // vectors side by side on AVX-512, where fewer than usual
	types   []variant
	onAVX2  []variant // types there, where they differ
	body    func(k *kernel)
	quick   func(k *kernel) // body without divisions, see quick, or nil
	held    *heldOp         // instead of body while accumulators are in registers, or nil
}

// typeNames lists the types in a function's name.
func (v variant) typeNames() (name string) {
	for _, t := range append(v.in[:len(v.in):len(v.in)], v.out) {
		if t != nil {
			name += t.name
		}
	}
	if v.code != nil && v.code != v.out {
		name += v.code.name
	}
	return name
}

// kernelCall is what kernels are called with.
var kernelCall = newStruct("kernelCall", "is what a call of a generated kernel reads: operands and how to run.", []field{
	{"in0", "unsafe.Pointer", "the data inputs, contiguous"},
	{"in1", "unsafe.Pointer", ""},
	{"out", "unsafe.Pointer", "the data output, contiguous"},
	{"scale", "unsafe.Pointer", "scales in the compute type: one for each element (scales), or one for all"},
	{"zero", "unsafe.Pointer", "zero points, likewise (zeros)"},
	{"sum0", "unsafe.Pointer", "accumulators in the compute type: one for each element (wide), or 64 that elements take in turn"},
	{"sum1", "unsafe.Pointer", "those of the second sum"},
	{"lo", "uint64", "bounds of codes: the bits of a number of the compute type"},
	{"hi", "uint64", ""},
	{"scales", "bool", "there is a scale for each element"},
	{"zeros", "bool", "there is a zero point for each element"},
	{"wide", "bool", "there are accumulators for each element"},
	{"reciprocal", "bool", "multiply by 1/scale"},
	{"stream", "bool", "store around the caches; out is aligned to a register"},
	{"quick", "bool", "params hold what quick codes are made of"},
	{"heads", "bool", "runs do not begin at a cache line of the output"},
	{"symmetric", "bool", "chosen scales are for a symmetric range, without zero points"},
	{"ahead", "int", "prefetch distance of data inputs in bytes, or 0"},
	{"steps", "int", "how many runs each strand has; 0: there is one run, with the parameters above"},
	{"strands", "int", "how many strands there are"},
	{"visit", "int", "how many elements of each strand are taken in turn, a multiple of the kernel's block"},
	{"params", "unsafe.Pointer", "parameters of every run: by step, then by strand"},
	{"paramsStep", "int", "bytes from a step's parameters to the next step's"},
	{"in0Visit", "int", "bytes of a visit of in0; in1 and out have the same fields"},
	{"in0Apart", "int", "bytes from the end of a visit to the next strand's visit"},
	{"in0Turn", "int", "bytes, backwards, from what follows the last strand to the first strand's next visit"},
	{"in0Step", "int", "bytes from a run's begin to that of the next run of its strand"},
	{"in1Visit", "int", ""},
	{"in1Apart", "int", ""},
	{"in1Turn", "int", ""},
	{"in1Step", "int", ""},
	{"outVisit", "int", ""},
	{"outApart", "int", ""},
	{"outTurn", "int", ""},
	{"outStep", "int", ""},
	{"sumStep", "int", "bytes from where a run leaves sum0 and sum1 to the accumulators of the next run"},
	{"in0Row", "int", "the kernel's own: where a run, or a row, of in0 begins"},
	{"in1Row", "int", ""},
	{"outRow", "int", ""},
	{"free", "int", "and how many elements are missing to the end of a line"},
	{"small", "bool", "bounds and lengths allow quick codes where scales are chosen"},
	{"rows", "int", "how many rows of elements, a Step apart, have the same parameters; 0: there is one row"},
	{"kind", "uint8", "which of the types of codes that the kernel reads"},
	{"half", "uint8", "which of the 16-bit types that the kernel takes"},
	{"replaces", "bool", "results take the place of elements, and runs end within a step"},
	{"shares", "bool", "runs have heads, but follow one another: a line that two share is put together"},
	{"joins", "bool", "or in registers"},
	{"begun", "bool", "the kernel's own: the first part of such a line waits for the other"},
	{"held", "bool", "sums of runs stay in registers; runs begin in lane 0"},
	{"fresh", "bool", "then: they begin with 0, whatever the accumulators are"},
	{"folds", "bool", "and are folded: to total0 and total1, one of each run"},
	{"turn", "uint32", "or left so that one of the first vector's lanes, this one, comes first, and that vector"},
	{"turnTo", "int", "so many bytes behind the first accumulators"},
	{"total0", "unsafe.Pointer", ""},
	{"total1", "unsafe.Pointer", ""},
	{"float8", "unsafe.Pointer", "what codes are rounded to 8-bit floats with: vectors of words of the compute type's size"},
	{"columns", "unsafe.Pointer", "of rows: what quick codes are made of, for each element of a row; or nil"},
	{"eps", "float32", "no scale is chosen below it"},
})

func (o *op) functionName(isa *isa, v variant) string {
	return strings.ToLower(o.name[:1]) + o.name[1:] + isa.name + v.typeNames()
}

// block returns how many vectors a kernel handles side by side, and how many
// elements one turn of its main loop handles.
func (o *op) block(isa *isa, v variant) (group, elements int) {
	group = isa.group
	if o.group > 0 {
		group = min(group, o.group)
	}
	elements = group * isa.bytes / v.compute.size
	switch {
	case o.sums > 0:
		elements = stripeLanes
	case !isa.masks:
		elements *= 4 // or the loop's own steps take longer than a product
	}
	return group, elements
}

// step returns what the number of elements of a call must be a multiple of.
func (o *op) step(isa *isa, v variant) int {
	if isa.masks {
		return 1
	}
	group, _ := o.block(isa, v)
	return group * isa.bytes / v.compute.size
}

// hasStrands reports whether kernels for some types take strands. Without masks those that round to 8-bit floats do not.
func (o *op) hasStrands(isa *isa, v variant) bool { return v.code == nil || isa.masks }

// repeats reports whether the last step of a run may begin with elements that were handled before, where there are no
// masks. Extremes of them would be those of other lanes, too, which accumulators beside them may be.
func (o *op) repeats(isa *isa) bool { return !isa.masks && o.held == nil }

// hasRows reports whether kernels take many rows whose elements have parameters of
// their own, the same in each row.
func (o *op) hasRows() bool { return o.sums == 0 && !o.chooses }

// strandBlock returns how many elements of a strand are taken at a time: whole
// cache lines of the output, at least.
func (o *op) strandBlock(isa *isa, v variant) int {
	if v.compute == f64 && o.sums == 0 {
		group, _ := o.block(isa, v)
		return group * isa.bytes / f64.size
	}
	return stripeLanes
}

// variants returns what an instruction set has kernels for.
func (o *op) variants(isa *isa) []variant {
	return either(isa == avx2 && o.onAVX2 != nil, o.onAVX2, o.types)
}

// assembly generates all kernels of an op.
func (o *op) assembly() ([]byte, error) {
	c := build.NewContext()
	c.ConstraintExpr("amd64")
	globals := newTables()
	for _, isa := range isas {
		for _, v := range o.variants(isa) {
			o.function(c, globals, isa, v, o.pins(globals, isa, v))
		}
	}
	file, err := c.Result()
	if err != nil {
		return nil, err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	for _, f := range file.Functions() {
		if err := checkFeatures(f); err != nil {
			return nil, err
		}
	}
	text, err := printer.NewGoAsm(printer.Config{Name: "internal/gen", Pkg: "cpu"}).Print(file)
	return text, err
}

// signature returns that of all kernels: func(n int, call *kernelCall).
func signature() *gotypes.Signature {
	pkg := types.NewPackage("cpu", "cpu")
	call := types.NewNamed(types.NewTypeName(token.NoPos, pkg, "kernelCall", nil), types.NewStruct(nil, nil), nil)
	params := types.NewTuple(
		types.NewVar(token.NoPos, pkg, "n", types.Typ[types.Int]),
		types.NewVar(token.NoPos, pkg, "call", types.NewPointer(call)))
	return gotypes.NewSignature(pkg, types.NewSignatureType(nil, nil, nil, params, nil, false))
}

// function generates one kernel: parameters that are the same for all
// elements are loaded, then blocks are handled, then what is left. It returns
// the constants that it would like to have in registers beside the pinned ones.
func (o *op) function(c *build.Context, globals *tables, isa *isa, v variant, pinned []string) (wanted []string) {
	c.Function(o.functionName(isa, v))
	c.Attributes(attr.NOSPLIT)
	c.Signature(signature())
	k := &kernel{c: c, globals: globals, op: o, isa: isa, compute: v.compute, in: v.in, out: v.out, codes: v.code,
		lanes: isa.bytes / v.compute.size, ptr: map[string]reg.GPVirtual{}, param: map[string]value{}, ends: map[string]operand.Mem{}}
	n := c.GP64()
	c.Load(c.Param("n"), n)
	k.call = c.GP64()
	c.Load(c.Param("call"), k.call)
	k.halfKind, k.kind = k.field("half"), k.field("kind")
	group, block := o.block(isa, v)
	k.group = group
	k.pointers()
	k.pin(pinned)
	if o.hasStrands(isa, v) {
		k.strands(n, o.strandBlock(isa, v), o.hasQuick(v), o.hasHeads(isa, v))
	}
	if o.chooses {
		c.RET()
		return k.pins.wanted
	}
	k.uniform()
	if o.hasRows() {
		k.row()
	}

	rest := k.newLabel("rest")
	body := func(k *kernel) {
		k.parameters()
		k.op.body(k)
	}
	if k.holds() {
		wide := k.newLabel("wide")
		k.jumpIf("wide", wide)
		branch(c.CMPQ, n, operand.U32(block), c.JLT, rest)
		k.holding(body, func(body func(k *kernel)) { k.loop(n, block, body) })
		c.JMP(operand.LabelRef(rest))
		c.Label(wide)
	}
	if o.hasQuick(v) {
		if o.hasColumns(isa, v) {
			k.columnBlocks(n)
		}
		k.quickBlocks(n)
	}
	k.loop(n, block, body)
	c.Label(rest)
	k.rest(n, block)
	if o.hasRows() {
		k.nextRow(n)
	}
	endFunction(c)
	return k.pins.wanted
}
