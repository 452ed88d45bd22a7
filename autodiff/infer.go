package autodiff

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// The rules for types and shapes: see opDef.infer. They run before any work,
// so a backend's loops need no checks.

// maxElements is far beyond any memory, and its bytes still fit an int.
const maxElements = 1 << 42

type infer = func(at *Attr, in []Info) ([3]Info, error)

func one(d tensor.DType, shape []int64) ([3]Info, error) {
	return [3]Info{{d, shape}}, nil
}

func fail(format string, args ...any) ([3]Info, error) {
	return [3]Info{}, fmt.Errorf(format, args...)
}

var granularities = []string{"per_tensor", "per_channel", "per_token", "per_group", "per_block"}

// Infer checks an operation's inputs and returns the types and shapes of its
// outputs. It completes attributes: a negative axis, for example. Nil stands
// for none.
func (o Op) Infer(at *Attr, in []Info) ([3]Info, error) {
	if at == nil {
		at = new(Attr)
	}
	if o >= opCount {
		return fail("autodiff: there is no operation %d", uint8(o))
	}
	for i, x := range in {
		if len(x.Shape) > kernel.MaxRank {
			return fail("autodiff: %v: %s has %d dimensions; want at most %d", o, o.input(i), len(x.Shape), kernel.MaxRank)
		}
	}
	if err := o.want(in); err != nil {
		return fail("autodiff: %v: %w", o, err)
	}
	if ops[o].scheme {
		if at.Scheme == nil {
			return fail("autodiff: %v: has no Scheme", o)
		}
		if !slices.Contains(granularities, at.Scheme.Granularity) {
			return fail("autodiff: %v: the scheme's granularity is %q; want one of %s", o, at.Scheme.Granularity, strings.Join(granularities, ", "))
		}
	}
	out, err := ops[o].infer(at, in)
	if err != nil {
		return out, fmt.Errorf("autodiff: %v: %w", o, err)
	}
	for _, x := range out {
		if err := x.fits(); err != nil {
			return fail("autodiff: %v: the result would %w", o, err)
		}
	}
	return out, nil
}

// fits refuses what no backend could hold; the error follows a "would".
func (i Info) fits() error {
	if len(i.Shape) > kernel.MaxRank {
		return fmt.Errorf("have %d dimensions; want at most %d", len(i.Shape), kernel.MaxRank)
	}
	beyond := slices.ContainsFunc(i.Shape, func(extent int64) bool { return extent > math.MaxInt }) // of 32 bits
	if n := tensor.NumElements(i.Shape); n < 0 || n > maxElements || beyond {
		return fmt.Errorf("be %v; want at most %d elements", i, int64(maxElements))
	}
	return nil
}

// want checks the number of inputs, that only optional ones are absent, and the
// types that floats and inPlace ask for.
func (o Op) want(in []Info) error {
	d := &ops[o]
	many := len(d.in) == 1 && d.in[0] == "..."
	if len(in) != len(d.in) && (!many || len(in) == 0) {
		return fmt.Errorf("has %d inputs; want %d", len(in), len(d.in))
	}
	for i, x := range in {
		first := in[0]
		switch {
		case x.DType == tensor.None:
			if many || !strings.HasSuffix(d.in[i], "?") {
				return fmt.Errorf("%s is absent", o.input(i))
			}
		case d.floats && !x.DType.IsFloat():
			return fmt.Errorf("%s is %v; want a float tensor", o.input(i), x)
		case d.floats && x.DType != first.DType:
			return fmt.Errorf("%s is %v; want %v, the type of %s", o.input(i), x, first.DType, o.input(0))
		case d.inPlace && !d.part && (x.DType != first.DType || !slices.Equal(x.Shape, first.Shape)):
			return fmt.Errorf("%s is %v; want %v, as %s", o.input(i), x, first, o.input(0))
		}
	}
	return nil
}

func computes(d tensor.DType) bool { return d.IsFloat() || d == tensor.I32 || d == tensor.I64 }

func isIndex(x Info) error {
	if x.DType != tensor.I32 && x.DType != tensor.I64 {
		return fmt.Errorf("indices are %v; want i32 or i64", x)
	}
	return nil
}

// broadcast returns the shape that both shapes are broadcast to.
func broadcast(x, y []int64) ([]int64, error) {
	if slices.Equal(x, y) {
		return x, nil
	}
	long, short := x, y
	if len(y) > len(x) {
		long, short = y, x
	}
	out := slices.Clone(long)
	for i, n := range short {
		switch at := len(long) - len(short) + i; {
		case out[at] == n || n == 1:
		case out[at] == 1:
			out[at] = n
		default:
			return nil, fmt.Errorf("shapes %s and %s do not broadcast", tensor.ShapeText(x), tensor.ShapeText(y))
		}
	}
	return out, nil
}

func sameType(in []Info) ([]int64, error) {
	if in[0].DType != in[1].DType {
		return nil, fmt.Errorf("inputs are %v and %v; want one type", in[0], in[1])
	}
	return broadcast(in[0].Shape, in[1].Shape)
}

func arithmetic(_ *Attr, in []Info) ([3]Info, error) {
	shape, err := sameType(in)
	if err == nil && !computes(in[0].DType) {
		err = fmt.Errorf("inputs are %v; want floats, i32 or i64", in[0])
	}
	return [3]Info{{in[0].DType, shape}}, err
}

func comparison(at *Attr, in []Info) ([3]Info, error) {
	out, err := arithmetic(at, in)
	out[0].DType = tensor.Bool
	return out, err
}

func logic(_ *Attr, in []Info) ([3]Info, error) {
	shape := in[0].Shape
	for _, x := range in {
		if x.DType != tensor.Bool {
			return fail("inputs are %v; want bool tensors", in)
		}
		var err error
		if shape, err = broadcast(shape, x.Shape); err != nil {
			return fail("%w", err)
		}
	}
	return one(tensor.Bool, shape)
}

func where(_ *Attr, in []Info) ([3]Info, error) {
	if in[0].DType != tensor.Bool {
		return fail("the condition is %v; want a bool tensor", in[0])
	}
	shape, err := sameType(in[1:])
	if err == nil {
		shape, err = broadcast(in[0].Shape, shape)
	}
	return [3]Info{{in[1].DType, shape}}, err
}

func each(_ *Attr, in []Info) ([3]Info, error) {
	if !computes(in[0].DType) {
		return fail("the input is %v; want floats, i32 or i64", in[0])
	}
	return [3]Info{in[0]}, nil
}

func clamp(at *Attr, in []Info) ([3]Info, error) {
	if !(at.Floats[0] <= at.Floats[1]) {
		return fail("the bounds are %v and %v; want the lower one first", at.Floats[0], at.Floats[1])
	}
	return each(at, in)
}

// pair is the rule of a gradient that is computed from two equal shapes.
func pair(at *Attr, in []Info) ([3]Info, error) {
	out, err := arithmetic(at, in)
	if err == nil && !slices.Equal(in[0].Shape, in[1].Shape) {
		return fail("inputs are %v and %v; want one shape", in[0], in[1])
	}
	return out, err
}

func create(at *Attr, in []Info) ([3]Info, error) {
	if !computes(at.DType) && at.DType != tensor.Bool {
		return fail("makes %v; want floats, i32, i64 or bool", at.DType)
	}
	if err := isShape(at.Shape); err != nil {
		return fail("%w", err)
	}
	return one(at.DType, at.Shape)
}

// isShape checks what a caller gives as a shape.
func isShape(shape []int64) error {
	if slices.ContainsFunc(shape, func(n int64) bool { return n < 0 }) {
		return fmt.Errorf("the shape %s has a negative extent", tensor.ShapeText(shape))
	}
	return nil
}

func createFloats(at *Attr, in []Info) ([3]Info, error) {
	if !at.DType.IsFloat() {
		return fail("makes %v; want floats", at.DType)
	}
	return create(at, in)
}

// uniform asks for bounds in order, with every number between them in the type.
func uniform(at *Attr, in []Info) ([3]Info, error) {
	lo, hi := at.Floats[0], at.Floats[1]
	out, err := createFloats(at, in)
	if err != nil {
		return out, err
	}
	if !(lo <= hi) {
		return fail("the bounds are %g and %g; want the first not above the second", lo, hi)
	}
	if !finite(at.DType, lo) || !finite(at.DType, hi) || !finite(at.DType, hi-lo) {
		return fail("the bounds are %g and %g; want them, and what is between them, finite in %v", lo, hi, at.DType)
	}
	return out, nil
}

func normal(at *Attr, in []Info) ([3]Info, error) {
	mean, std := at.Floats[0], at.Floats[1]
	out, err := createFloats(at, in)
	if err != nil {
		return out, err
	}
	if !(std >= 0) || !finite(at.DType, std) {
		return fail("std is %g; want 0 or more, and finite in %v", std, at.DType)
	}
	if !finite(at.DType, mean) {
		return fail("the mean is %g; want a number that is finite in %v", mean, at.DType)
	}
	return out, nil
}

// largest has the largest number of each type of float.
var largest = map[tensor.DType]float64{
	tensor.F32: math.MaxFloat32, tensor.F64: math.MaxFloat64, tensor.F16: 65504, tensor.BF16: 0x1.fep127,
}

func finite(d tensor.DType, v float64) bool { return math.Abs(v) <= largest[d] }

// inPlace is the rule of operations in place, which have no outputs.
func inPlace(*Attr, []Info) ([3]Info, error) { return [3]Info{}, nil }

// update is inPlace of those that compute.
func update(_ *Attr, in []Info) ([3]Info, error) {
	if d := in[0].DType; d != tensor.F32 && d != tensor.F64 {
		return fail("changes %v; want f32 or f64", in[0])
	}
	return [3]Info{}, nil
}
