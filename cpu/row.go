// Package cpu computes on contiguous or strided runs of elements in host
// memory. Each op has a definition in plain Go, which is its specification,
// and a table of rows: ways to run it that give the definition's bits, best
// first, the definition last.
//
// The package has no goroutines and returns no errors: plans checks arguments
// and splits work before it calls here.
//
// Programs import plans. What is exported here is for plans and autodiff, and
// changes as they need it.
package cpu

//go:generate go run -C ../internal/gen .

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// ISA is an instruction set, ordered: a machine that has one has those below.
type ISA int

// The instruction sets that rows are written for.
const (
	Go     ISA = iota // whatever the Go compiler targets
	AVX2              // with BMI2, F16C, FMA3
	AVX512            // F, BW, DQ, VL

	largestISA = AVX512
)

var isaNames = []string{Go: "go", AVX2: "avx2", AVX512: "avx512"}

// String returns the name that ISOBIT_ROWS and a Preference use.
func (i ISA) String() string { return isaNames[i] }

// ISANames lists the instruction sets, the smallest first.
func ISANames() []string { return slices.Clone(isaNames) }

// ParseISA is the inverse of ISA.String.
func ParseISA(name string) (ISA, bool) {
	i := slices.Index(isaNames, name)
	return ISA(max(i, 0)), i >= 0
}

// Types lists the element types of a kernel's operands, in the kernel's
// order, and the type that it computes in (F32 or F64).
type Types struct {
	Compute tensor.DType
	In      InTypes
	Out     OutTypes
	Attrs   Attrs
}

// MaxInputs and MaxOutputs are the most operands of a kernel.
const MaxInputs, MaxOutputs = 4, 3

// InTypes and OutTypes are the types of operands: tensor.None of absent ones.
type (
	InTypes  [MaxInputs]tensor.DType
	OutTypes [MaxOutputs]tensor.DType
)

// Attrs are the attributes that a row may depend on.
type Attrs struct {
	Reciprocal bool         // multiply by 1/scale instead of dividing by scale
	Symmetric  bool         // chosen scales are for a symmetric range, without zero points
	Eps        float64      // the least scale that is chosen
	Code       tensor.DType // codes are rounded to this 8-bit float type; None: to whole numbers
}

// Row is one way to run an op. Pick returns the kernel for the given types,
// or false where the row does not take them.
type Row[F any] struct {
	Name  string
	Needs ISA
	Pick  func(Types) (F, bool)
}

// PickUpTo picks the first row that needs no more than an instruction set.
func PickUpTo[F any](table []Row[F], isa ISA, t Types) (f F, ok bool) {
	for _, r := range table {
		if r.Needs <= isa {
			if f, ok := r.Pick(t); ok {
				return f, true
			}
		}
	}
	return f, false
}

// tableOf makes an op's table: a row for each instruction set that rows are
// written for, best first, then the definition. pick is a row's Pick.
func tableOf[F any](definition func(Types) (F, bool), pick func(ISA, Types) (F, bool)) []Row[F] {
	return withDefinition(fastRows(pick), definition)
}

// fastRows makes the rows of tableOf without the definition.
func fastRows[F any](pick func(ISA, Types) (F, bool)) (rows []Row[F]) {
	for isa := largestISA; isa > Go; isa-- {
		rows = append(rows, Row[F]{isa.String(), isa, func(t Types) (F, bool) { return pick(isa, t) }})
	}
	return rows
}

// withDefinition appends the definition to an op's other rows.
func withDefinition[F any](rows []Row[F], definition func(Types) (F, bool)) []Row[F] {
	return append(rows, Row[F]{"go", Go, definition})
}

// ownRows returns rows of a function type Own as rows of F where the two are the same type, else none: Own is for one
// compute type, F for the one that the caller is instantiated with.
func ownRows[F, Own any](rows []Row[Own]) []Row[F] {
	own, _ := any(rows).([]Row[F])
	return own
}

// float32Before puts rows that exist for float32 alone before the definition.
func float32Before[F, F32 any](rows []Row[F32], definition F) []Row[F] {
	return withDefinition(ownRows[F](rows), always(definition))
}

// ForCompute returns which of two is for a compute type: often one function, instantiated for both.
func ForCompute[F any](compute tensor.DType, f32, f64 F) F {
	if compute == tensor.F64 {
		return f64
	}
	return f32
}

// byCompute makes the Pick of a definition, which exists once per compute type.
func byCompute[F any](f32, f64 F) func(Types) (F, bool) {
	return func(t Types) (F, bool) { return ForCompute(t.Compute, f32, f64), true }
}

// rowsByCompute is byCompute for the rows of tableOf.
func rowsByCompute[F any](f32, f64 func(ISA, Types) (F, bool)) func(ISA, Types) (F, bool) {
	return func(isa ISA, t Types) (F, bool) { return ForCompute(t.Compute, f32, f64)(isa, t) }
}

// always makes the Pick of a row that takes all types.
func always[F any](f F) func(Types) (F, bool) {
	return func(Types) (F, bool) { return f, true }
}
