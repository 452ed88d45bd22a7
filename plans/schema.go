package plans

import (
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

// op describes one operation: its arguments and attributes, how shapes follow
// from a problem, and how a plan runs. The table of ops is in ops.go.
type op struct {
	name     string
	doc      string   // what it computes, as a sentence
	formulas []string // of each output, in the order of args
	sections []int    // of NUMERICS.md, which says what the formulas leave open: orders of sums, roundings, special values
	category Category
	args     []arg
	attrs    []attr
	inPlace  [][2]int // pairs of an output and an input that may be the same tensor
	// infer checks the problem and fills p.shapes for every present argument, and
	// p.grouping.
	infer func(p *Problem) error
	// build completes a plan whose problem is inferred: it selects a row, and
	// sets the workspace, what Run checks and how it runs.
	build func(p *plan) error
	// Of an op over grouped elements: its name without the granularity, and which
	// elements are a group.
	base, groups string
	// machineDependent reports whether the last bits of a problem depend on the
	// processor, so that those of another are only close; nil: they never do.
	machineDependent func(p *Problem) bool
	// rows names the rows of the op's table, for the support matrix.
	rows func() []string
}

// arg is one tensor argument, in the order in which Run takes them.
type arg struct {
	name     string
	doc      string // what it is, in a line
	form     string // its shape, in words or as a formula
	out      bool
	inout    bool // an output that is read first
	optional bool
	shaped   bool // its shape is part of the problem's text
	param    bool // it has an element for each group of an op over grouped elements
	// compact reports whether a call copies this input where elements of a row are not
	// contiguous; nil: no call does.
	compact func(c *call) bool
	// blocks: kernels read the dimensions from this one on as one, in blocks. Then the input
	// is also copied where its contiguous parts are shorter than a block; 0: never.
	blocks int
	allow  []tensor.DType
	// defaultType is the type where the text leaves the key out: the zero rule
	// means that the key is required. Arguments before this one are known.
	defaultType typeRule
}

// typeRule is how a type follows from the problem, in words and as a function.
type typeRule struct {
	says string
	of   func(p *Problem) tensor.DType
}

var (
	floats   = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	codes    = []tensor.DType{tensor.S8, tensor.U8, tensor.S4, tensor.U4}
	wider    = []tensor.DType{tensor.S16, tensor.U16}
	anyCodes = either(codes, wider, []tensor.DType{tensor.I32}, floats, tensor.Float8s())
	indices  = []tensor.DType{tensor.I32, tensor.I64}
	integers = []tensor.DType{tensor.I32, tensor.I64, tensor.S8, tensor.U8, tensor.S16, tensor.U16}
)

func either(lists ...[]tensor.DType) (all []tensor.DType) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// typeNames lists types in an error.
func typeNames(types []tensor.DType) string {
	all := names(types)
	for i, name := range all {
		all[i] = named(name)
	}
	return strings.Join(all, ", ")
}

// names are the types as problems spell them.
func names(types []tensor.DType) (all []string) {
	for _, d := range types {
		all = append(all, d.String())
	}
	return all
}

// fixed makes a default that does not depend on the problem.
func fixed(d tensor.DType) typeRule {
	return typeRule{d.String(), func(*Problem) tensor.DType { return d }}
}

// same makes a default that is another argument's type.
func same(name string) typeRule {
	return typeRule{name + "'s", func(p *Problem) tensor.DType { return p.DType(name) }}
}

func (o *op) arg(name string) int {
	for i := range o.args {
		if o.args[i].name == name {
			return i
		}
	}
	return -1
}
