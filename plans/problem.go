package plans

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/isobit-ml/isobit/tensor"
)

// Problem is one op with the types, shapes and attributes to run it on. Its
// text is its only spelling: log line, test name, cache key and C argument.
//
//	quantize_per_channel x=f32[64,128,3,3] q=s8 axis=0 qmin=-128 qmax=127
//
// Keys may come in any order. A tensor's value is a type and, where the shape
// does not follow from the rest, a shape; or none for an absent optional
// tensor. What equals its default is left out.
type Problem struct {
	op       *op
	device   tensor.Device
	types    []tensor.DType // by op.args; tensor.None where absent
	shapes   [][]int64      // by op.args; inferred for those without a shape in the text
	attrs    []any          // by op.attrs
	grouping grouping       // of an op over grouped elements
}

// Parse reads a problem's text and checks it. With an error, of the kind
// InvalidProblem, it returns the zero Problem, which Select refuses.
func Parse(text string) (Problem, error) {
	name, rest, more := strings.Cut(text, " ")
	o := opByName(name)
	if o == nil {
		return Problem{}, errorf(InvalidProblem, "", "op", "%s is not known; want %s", quoted(name), wantedOps(name))
	}
	known := 1 + len(o.args) + len(o.attrs) // device, too
	given := make(keys, 0, known+1)
	for more && len(given) <= known { // else one of them is unknown, whatever follows
		var f string
		f, rest, more = strings.Cut(rest, " ")
		key, value, _ := strings.Cut(f, "=") // without a =, there is no value
		if key == "" || value == "" || strings.ContainsFunc(f, unicode.IsControl) || !utf8.ValidString(f) {
			return Problem{}, errorf(InvalidProblem, o.name, "text", "has %s; want key=value, each key once, separated by single spaces", quoted(f))
		}
		if first, twice := given.take(key); twice {
			return Problem{}, errorf(InvalidProblem, o.name, shortened(key), "is %s, and then %s; want each key once", quoted(first), quoted(value))
		}
		given = append(given, [2]string{key, value})
	}
	p := Problem{op: o, types: make([]tensor.DType, len(o.args)), shapes: make([][]int64, len(o.args)), attrs: make([]any, len(o.attrs))}
	if err := p.fill(&given); err != nil {
		return Problem{}, err
	}
	return p, nil
}

// keys are what a text gives, and what is not read of it yet: keys with their values.
type keys [][2]string

// take returns the value of a key, and takes it out.
func (k *keys) take(key string) (value string, ok bool) {
	for i, f := range *k {
		if f[0] == key {
			last := len(*k) - 1
			(*k)[i], *k = (*k)[last], (*k)[:last]
			return f[1], true
		}
	}
	return "", false
}

// fill completes a problem from what the text gives of its keys.
func (p *Problem) fill(given *keys) error {
	if err := p.read(given); err != nil {
		return err
	}
	if len(*given) > 0 {
		first := slices.MinFunc(*given, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		return p.errorf(shortened(first[0]), "is not a key of this op; want %s", p.op.keys())
	}
	if err := p.op.infer(p); err != nil {
		return err
	}
	return p.checkSizes()
}

// maxElements bounds a tensor's elements, an extent of 0 counting as 1: more
// than memory holds, and few enough for sizes and costs to fit 64 bits.
const maxElements = 1 << 48

// atMost says in an error how many elements a shape may have.
func atMost(shape []int64) string {
	if slices.Contains(shape, 0) {
		return "at most 2^48 elements, where an extent of 0 counts as 1"
	}
	return "at most 2^48 elements"
}

func (p *Problem) checkSizes() error {
	for i, shape := range p.shapes {
		n := int64(1)
		for _, d := range shape {
			if d > maxElements/n {
				return p.errorf(p.op.args[i].name, "has shape %s; want %s", tensor.ShapeText(shape), atMost(shape))
			}
			n *= max(d, 1)
		}
	}
	return nil
}

// MustParse is Parse for texts known to be right; it panics on an error.
func MustParse(text string) Problem {
	p, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return p
}

// keys lists the keys of an op in an error.
func (o *op) keys() string {
	var keys []string
	for i := range o.args {
		keys = append(keys, named(o.args[i].name))
	}
	for i := range o.attrs {
		keys = append(keys, named(o.attrs[i].name))
	}
	return strings.Join(append(keys, "device"), ", ")
}

// read takes the keys that the op knows out of given.
func (p *Problem) read(given *keys) error {
	o := p.op
	if v, ok := given.take("device"); ok {
		if err := p.readDevice(v); err != nil {
			return err
		}
	}
	for i := range o.attrs {
		a := &o.attrs[i]
		v, ok := given.take(a.name)
		if !ok {
			if a.def == nil {
				return p.errorf(a.name, "is missing; want %s", a.wants())
			}
			p.attrs[i] = a.def
			continue
		}
		value, err := a.parse(v)
		if err != nil {
			return p.errorf(a.name, "is %s; want %s", quoted(v), a.wanted(err))
		}
		p.attrs[i] = value
	}
	for i := range o.args {
		v, ok := given.take(o.args[i].name)
		if err := p.readTensor(i, v, ok); err != nil {
			return err
		}
	}
	return nil
}

func (p *Problem) readDevice(v string) error {
	index, isCUDA := strings.CutPrefix(v, "cuda:")
	n, _ := strconv.ParseInt(index, 10, 32) // of what is no int32 a number that is spelled otherwise
	switch {
	case v == "cpu":
	case isCUDA && n >= 0 && strconv.FormatInt(n, 10) == index:
		p.device = tensor.Device{Kind: tensor.CUDA, Index: int32(n)}
	default:
		return p.errorf("device", "is %s; want cpu or cuda:N", quoted(v))
	}
	return nil
}

func (p *Problem) readTensor(i int, v string, given bool) error {
	a := &p.op.args[i]
	switch {
	case !given && a.defaultType.of == nil:
		return p.errorf(a.name, "is missing; want %s", a.wants())
	case !given:
		p.types[i] = a.defaultType.of(p)
		return nil
	case v == "none" && !a.optional:
		return p.errorf(a.name, "is none, but it is required")
	case v == "none":
		return nil
	}
	name, shape, hasShape := strings.Cut(v, "[")
	d, ok := tensor.ParseDType(name)
	switch {
	case !ok: // no type at all: what came may lie behind the name
		return p.errorf(a.name, "is %s; want one of %s", quoted(v), typeNames(a.allow))
	case !slices.Contains(a.allow, d):
		return p.errorf(a.name, "is %s; want one of %s", d, typeNames(a.allow))
	case hasShape && !a.shaped:
		return p.errorf(a.name, "is %s; want a type without a shape", quoted(v))
	case a.shaped && !hasShape:
		return p.errorf(a.name, "is %s; want a type with a shape", quoted(v))
	}
	if p.types[i] = d; hasShape {
		return p.readShape(i, v, "["+shape)
	}
	return nil
}

// readShape reads the shape in the value of a tensor.
func (p *Problem) readShape(i int, v, text string) error {
	name := p.op.args[i].name
	shape, err := parseList(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return p.errorf(name, "is %s; want at most 2^48 elements", quoted(v))
	case err != nil || slices.ContainsFunc(shape, func(d int64) bool { return d < 0 }):
		return p.errorf(name, "is %s; want a shape such as [8,64]", quoted(v))
	case len(shape) > tensor.MaxRank:
		return p.errorf(name, "has %d dimensions; want at most %d", len(shape), tensor.MaxRank)
	}
	p.shapes[i] = shape
	return nil
}

// wants says in an error what the text has of an argument.
func (a *arg) wants() string {
	if a.shaped {
		return "a type and a shape, such as f32[8,64]"
	}
	return "a type"
}

// String returns the problem's text, in the op's order and without defaults.
func (p Problem) String() string {
	if p.op == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(p.op.name)
	for i := range p.op.args {
		a := &p.op.args[i]
		isDefault := a.defaultType.of != nil && p.types[i] == a.defaultType.of(&p)
		switch {
		case a.shaped && p.types[i] != tensor.None:
			fmt.Fprintf(&b, " %s=%s%s", a.name, p.types[i], tensor.ShapeString(p.shapes[i]))
		case !isDefault:
			fmt.Fprintf(&b, " %s=%s", a.name, p.types[i])
		}
	}
	for i := range p.op.attrs {
		if a := &p.op.attrs[i]; a.def == nil || fmt.Sprint(p.attrs[i]) != fmt.Sprint(a.def) {
			fmt.Fprintf(&b, " %s=%s", a.name, formatAttr(p.attrs[i]))
		}
	}
	if !p.device.IsCPU() {
		fmt.Fprintf(&b, " device=%s", p.device)
	}
	return b.String()
}

// Op returns the op's name, "" of the zero Problem.
func (p Problem) Op() string {
	if p.op == nil {
		return ""
	}
	return p.op.name
}

// Device returns where the problem runs.
func (p Problem) Device() tensor.Device { return p.device }

// DType returns the type of an argument, tensor.None where it is absent. It
// panics for an argument that the op does not have: Describe lists those.
func (p Problem) DType(name string) tensor.DType { return p.types[p.index(name)] }

// Shape returns a copy of the shape of an argument, in elements (also of
// packed codes), nil where it is absent. It panics for an argument that the op
// does not have.
func (p Problem) Shape(name string) []int64 { return slices.Clone(p.shapes[p.index(name)]) }

// index returns the place of an argument among the op's.
func (p *Problem) index(name string) int {
	if p.op != nil {
		if i := p.op.arg(name); i >= 0 {
			return i
		}
	}
	panic(fmt.Sprintf("plans: the op %q has no argument %q", p.Op(), name))
}

func (p *Problem) has(name string) bool { return p.types[p.index(name)] != tensor.None }

func (p *Problem) setShape(name string, shape []int64) { p.shapes[p.index(name)] = shape }

func (p *Problem) errorf(arg, format string, a ...any) error {
	return errorf(InvalidProblem, p.op.name, arg, format, a...)
}
