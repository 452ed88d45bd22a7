package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// unit is a file of kernels that are not one op's: each function emits some.
type unit struct {
	folder     string
	file       string
	constraint string
	functions  []func(c *build.Context)
}

// units lists them.
var units = []unit{
	{"cpu", "affine_grid", "amd64", []func(c *build.Context){affineKernels}},
	{"cpu", "quantized_linear", "amd64", []func(c *build.Context){dotsVNNI, panels, dotsAVX2, winograd, scaleSums}},
	{"cpu", "linear_groups", "amd64", []func(c *build.Context){linearGroups, linearGroupPacks, linearGroupFew, linearGroupWiden}},
	{"cpu", "embedding", "amd64", []func(c *build.Context){embeddingSums, rowDivisions, rowCopies, narrowCopies, outside, widen}},
	{"cpu", "embedding_codes", "amd64", []func(c *build.Context){codeSums}},
	{"cpu", "grid", "amd64", []func(c *build.Context){gridKernels}},
	{"cpu", "grid_cubic", "amd64", []func(c *build.Context){cubicKernels}},
	{"cpu", "grid_gather", "amd64", []func(c *build.Context){gatherKernels, tapAdds, fewAdds, nearestAdds}},
	{"cpu", "grid_rows", "amd64", []func(c *build.Context){rowTermsKernels}},
	{"cpu", "row_norms", "amd64", []func(c *build.Context){rowNorms}},
	{"cpu", "matmul", "amd64", []func(c *build.Context){matmuls, matmulsTransposed, matmulDots, matmulBatches}},
	{"cpu", "packed", "amd64", []func(c *build.Context){packed}},
	{"cpu", "transpose", "amd64", []func(c *build.Context){forSizes(transposes), forSizes(everySecond), forSizes(repeatEach)}},
	{"cpu", "weight_only_linear", "amd64", []func(c *build.Context){weightStripes, weightTiles, packStripes, foldTiles, dequantizeGroups, weightDoubles}},
	{"autodiff/internal/kernel", "vectors", "amd64,!purego", []func(c *build.Context){autodiffLoops}},
}

// forSizes makes a unit's function of one for elements of some bytes.
func forSizes(f func(c *build.Context, size int)) func(c *build.Context) {
	return func(c *build.Context) {
		for _, size := range []int{1, 2, 4, 8} {
			f(c, size)
		}
	}
}

// write adds the unit's assembly and declarations to files.
func (u unit) write(files map[string][]byte) error {
	c := build.NewContext()
	c.ConstraintExpr(u.constraint)
	for _, f := range u.functions {
		f(c)
	}
	file, err := c.Result()
	if err != nil {
		return err
	}
	freeDestinations(file)
	if err := pass.Compile.Execute(file); err != nil {
		return fmt.Errorf("%s: %w", u.file, err)
	}
	for _, f := range file.Functions() {
		if err := checkFeatures(f); err != nil {
			return err
		}
	}
	if err := pass.FunctionPass(encode).Execute(file); err != nil {
		return err
	}
	config := printer.Config{Name: "internal/gen", Pkg: path.Base(u.folder)}
	name := u.folder + "/z_" + u.file + "_amd64"
	if files[name+".s"], err = printer.NewGoAsm(config).Print(file); err != nil {
		return err
	}
	files[name+".go"], err = printer.NewStubs(config).Print(file)
	return err
}

// freeDestinations says of masked moves that zero, and of blends, that what they
// write they do not read: avo takes it for an input, which would be in use from
// the beginning of a function. So would the upper part of a register be whose
// lower part is written, which makes that 0.
func freeDestinations(file *ir.File) {
	for _, f := range file.Functions() {
		for _, i := range f.Instructions() {
			for n, o := range i.Outputs {
				if v, ok := o.(reg.Vec); ok && strings.HasPrefix(i.Opcode, "V") {
					i.Outputs[n] = v.AsZ()
				}
			}
			if !slices.Contains(i.Suffixes, "Z") && !strings.HasPrefix(i.Opcode, "VBLENDM") {
				continue
			}
			to := i.Operands[len(i.Operands)-1]
			if !slices.Contains(i.Operands[:len(i.Operands)-1], to) {
				i.Inputs = slices.DeleteFunc(i.Inputs, func(o operand.Op) bool { return o == to })
			}
		}
	}
}

// newKernel returns one of elements of a type, a vector at a time.
func newKernel(c *build.Context, globals *tables, isa *isa, t *storage) *kernel {
	compute := computeOf(t)
	return &kernel{c: c, globals: globals, isa: isa, compute: compute, out: t, lanes: isa.bytes / compute.size, group: 1}
}

// eachKernel calls emit with one for each instruction set and type.
func eachKernel(c *build.Context, types []*storage, emit func(k *kernel)) {
	globals := newTables()
	for _, isa := range isas {
		for _, t := range types {
			emit(newKernel(c, globals, isa, t))
		}
	}
}

// beginFunction begins a function that needs no more stack and keeps no pointer.
func beginFunction(c *build.Context, name, signature string, doc ...string) {
	c.Function(name)
	c.Doc(doc...)
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	c.SignatureExpr(signature)
}

// endFunction returns from one that used vectors.
func endFunction(c *build.Context) {
	c.VZEROUPPER()
	c.RET()
}

// branch jumps to a label by the outcome of a comparison.
func branch(compare func(a, b operand.Op), a, b operand.Op, jump func(operand.Op), label string) {
	compare(a, b)
	jump(operand.LabelRef(label))
}
