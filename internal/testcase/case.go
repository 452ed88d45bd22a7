package testcase

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Case is a problem with the values of its tensors.
type Case struct {
	Op      *Op
	Text    string
	Problem plans.Problem
	Args    []Arg // in the order of a run
}

// Arg is one argument of a case.
type Arg struct {
	plans.ArgInfo
	DType    tensor.DType // of the View: bytes where codes are packed
	Packed   bool         // two codes to a byte along the last dimension
	Before   []byte       // compact elements: of an input, or of an output before the run
	Expanded []bool       // by dimension: all its elements are equal, so that it may be laid out with stride 0
}

// In reports whether the argument is a present input.
func (a *Arg) In() bool { return a.Present && a.Direction == "in" }

// Out reports whether the argument is a present output, read first or not.
func (a *Arg) Out() bool { return a.Present && a.Direction != "in" }

// New draws a case of the op.
func (o *Op) New(s *Source) (*Case, error) {
	var t text
	t.WriteString(o.Name)
	o.draw(s, &t)
	return NewCase(s, t.String())
}

// NewCase draws the tensors of a problem.
func NewCase(s *Source, text string) (*Case, error) {
	c, err := Blank(text)
	if err != nil {
		return nil, err
	}
	for i := range c.Args {
		if a := &c.Args[i]; a.Present {
			if draw := s.values(c, a); a.Direction != "out" {
				a.Fill(draw)
			}
		}
	}
	return c, nil
}

// Blank makes a case whose inputs have no values yet. Outputs have some.
func Blank(text string) (*Case, error) {
	p, err := plans.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	plan, err := plans.Select(0, p, plans.Preference{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	name, _, _ := strings.Cut(text, " ")
	c := &Case{Op: Find(name), Text: text, Problem: p}
	for _, info := range plans.Describe(plan).Args {
		a := Arg{ArgInfo: info}
		a.DType, _ = tensor.ParseDType(info.DType)
		if a.Packed = a.DType.Packed(); a.Packed {
			a.DType = tensor.U8
		}
		a.Expanded = make([]bool, len(a.Shape))
		if a.Out() {
			a.Fill(func() float64 { return 77 })
		}
		c.Args = append(c.Args, a)
	}
	return c, nil
}

// Fill gives the elements of a present argument, in row-major order, the values that draw returns.
func (a *Arg) Fill(draw func() float64) {
	if !a.Present {
		return
	}
	n := tensor.NumElements(a.Shape)
	a.Before = make([]byte, 0, n*a.DType.Size())
	for range n {
		a.Before = Encode(a.Before, a.DType, draw())
	}
}

// Arg returns the argument with a name.
func (c *Case) Arg(name string) *Arg { return &c.Args[c.index(name)] }

func (c *Case) index(name string) int {
	for i := range c.Args {
		if c.Args[i].Name == name {
			return i
		}
	}
	panic("testcase: no argument " + name + " of " + c.Op.Name)
}

// Expand makes inputs repeat along some of their dimensions.
func (c *Case) Expand(r *rand.Rand) {
	c.expand(func(*Arg) bool { return true }, func() bool { return r.IntN(2) == 0 })
}

// ExpandWhole makes inputs that are not parameters one number each, but some of them.
func (c *Case) ExpandWhole(r *rand.Rand) {
	c.expand(func(a *Arg) bool { return !a.IsParam() && r.IntN(3) > 0 }, func() bool { return true })
}

// ExpandData makes inputs that are not parameters repeat along some of their dimensions.
func (c *Case) ExpandData(r *rand.Rand) {
	c.expand(func(a *Arg) bool { return !a.IsParam() && r.IntN(3) > 0 }, func() bool { return r.IntN(2) == 0 })
}

// ExpandParams makes groups share scales and zero points, each or both.
func (c *Case) ExpandParams(r *rand.Rand) {
	c.expand((*Arg).IsParam, func() bool { return r.IntN(2) == 0 })
}

// IsParam reports whether the argument has an element for each group.
func (a *Arg) IsParam() bool {
	return strings.HasSuffix(a.Name, "scale") || strings.HasSuffix(a.Name, "zero_point")
}

func (c *Case) expand(which func(a *Arg) bool, along func() bool) {
	for i := range c.Args {
		a := &c.Args[i]
		if !a.In() || len(a.Before) == 0 || !which(a) {
			continue
		}
		inner := int(a.DType.Size()) // bytes of the dimensions after d
		for d := len(a.Shape) - 1; d >= 0; d-- {
			n := int(a.Shape[d]) * inner
			if a.Expanded[d] = along() && !a.Packed; a.Expanded[d] {
				for at := 0; at < len(a.Before); at += n {
					copy(a.Before[at:], bytes.Repeat(a.Before[at:at+inner], int(a.Shape[d])))
				}
			}
			inner = n
		}
	}
}

// Options say how a case is run. The zero value runs it on compact tensors in
// plain memory.
type Options struct {
	Preference plans.Preference
	Layout     Layout
	Params     Layout            // of scales and zero points, where it is another
	Layouts    map[string]Layout // of arguments by name, where it is another
	Memory     Memory
	InPlace    [2]string // an output, and the input whose memory it takes
	Alternate  bool      // give parameters the second shape that they may have
}

// Run runs the case and returns the compact bytes of the present outputs. It
// is an error if anything but the outputs' elements was written.
func (c *Case) Run(o Options) (outputs [][]byte, err error) {
	plan, err := plans.Select(0, c.Problem, o.Preference)
	if err != nil {
		return nil, err
	}
	placed, workspace, free := c.Place(plan, o)
	defer free()
	if err := plan.Run(0, workspace, placed.Views()); err != nil {
		return nil, err
	}
	for i := range c.Args {
		a := &c.Args[i]
		if !a.Present {
			continue
		}
		if err := placed[i].Stray(); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		if a.In() && a.Name != o.InPlace[1] && !placed[i].protected && !bytes.Equal(placed[i].elements(), a.Before) {
			return nil, fmt.Errorf("%s: the input was written", a.Name)
		}
	}
	return placed.Outputs(c), nil
}

// Compare compares the outputs of two runs bit for bit. Any NaN equals any
// other.
func (c *Case) Compare(got, want [][]byte) error {
	k := 0
	for i := range c.Args {
		a := &c.Args[i]
		if !a.Out() {
			continue
		}
		if err := Same(a.DType, got[k], want[k]); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		k++
	}
	return nil
}

// Same compares compact elements bit for bit, any NaN equal to any other.
func Same(dtype tensor.DType, got, want []byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if bytes.Equal(got, want) {
		return nil
	}
	size := int(dtype.Size())
	wrong, first := 0, ""
	for at := 0; at < len(got); at += size {
		g, w := got[at:at+size], want[at:at+size]
		if bytes.Equal(g, w) {
			continue
		}
		x, y := Decode(g, dtype)[0], Decode(w, dtype)[0]
		if x != x && y != y {
			continue
		}
		if wrong++; wrong == 1 {
			first = fmt.Sprintf("element %d is %v (%#x), want %v (%#x)", at/size, x, bitsOf(g), y, bitsOf(w))
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements differ: %s", wrong, len(got)/size, first)
	}
	return nil
}
