package autodiff

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// dyn is a float tensor in a gradient rule: of the inner backend, whatever that
// is, with everything that is made while a rule runs released after it.
type dyn = Float[Backend]

// uses is a set of an operation's inputs and outputs.
type uses uint16

const (
	in0 uses = 1 << iota // the inputs
	in1
	in2
	in3
	in4
	output  uses = 1 << 14 // the result
	further uses = 1 << 15 // the second result: positions
)

// input returns the set of one input. Inputs beyond those that have a name
// (of Cat) are not used by any rule.
func input(i int) uses {
	if i > 4 {
		return 0
	}
	return 1 << i
}

func (u uses) has(v uses) bool { return u&v != 0 }

// rule says how gradients pass an operation: the vector-Jacobian product for
// each input, as operations of the inner backend.
type rule struct {
	// each has a row per input; without a function, the input has no gradient
	// (indices, conditions). A list of one is for every input.
	each []vjp
	// all computes the gradients of all inputs at once, with what it uses.
	all func(c *ctx) []dyn
	use uses
	// broadcasts sums a gradient to the shape of an input that was repeated.
	broadcasts bool
	// constant results carry no gradient, and nothing is recorded.
	constant bool
	// part says that the gradient is that of the part of the input that the operation took. The rest has 0.
	part bool
}

// vjp is the gradient rule of one input, and what it reads.
type vjp struct {
	use uses
	f   func(c *ctx) dyn
}

func (r *rule) input(i int) *vjp {
	if len(r.each) == 1 {
		return &r.each[0]
	}
	return &r.each[i]
}

// defined reports whether the operation has a rule.
func (r *rule) defined() bool { return r.each != nil || r.all != nil }

// needs returns what n's rule reads, given which inputs are tracked.
func (n *node) needs() (u uses) {
	r := &rules[n.op]
	if r.all != nil {
		return r.use
	}
	if !r.defined() {
		return 0
	}
	for i, e := range n.in {
		if e.n != nil {
			u |= r.input(i).use
		}
	}
	return u
}

// ctx is what a rule sees of the operation that it differentiates.
type ctx struct {
	n   *node
	at  *Attr
	g   dyn // the gradient of the result
	run *backward
	sc  *scope
	// wide says that the rule computes 16-bit types in f32, and its gradients are
	// rounded once. A rule that reads nothing but g has one step that rounds.
	wide bool
}

// computesWide reports whether n's rule computes 16-bit types in f32. Plans take every
// type themselves.
func (n *node) computesWide() bool {
	def := &ops[n.op]
	return !def.plan && !def.moves && n.needs()&^further != 0
}

// widened returns t, or a copy in f32 where the rule computes in that.
func (c *ctx) widened(t Tensor[Backend]) Tensor[Backend] {
	if d := t.DType(); c.wide && d.IsFloat() && d.Size() == 2 {
		return t.run(OpCast, &Attr{DType: tensor.F32})
	}
	return t
}

// in returns an input.
func (c *ctx) in(i int) dyn { return dyn{c.tensor(i)} }

// index returns an input of whole numbers.
func (c *ctx) index(i int) Int[Backend] { return Int[Backend]{c.tensor(i)} }

// condition returns an input of truth values.
func (c *ctx) condition(i int) Bool[Backend] { return Bool[Backend]{c.tensor(i)} }

func (c *ctx) tensor(i int) Tensor[Backend] {
	if c.n.in[i].info.DType == tensor.None {
		return Tensor[Backend]{}
	}
	v, err := c.run.edgeValue(&c.n.in[i])
	return c.widened(Tensor[Backend]{be: c.sc, v: v, err: err})
}

// out returns the result.
func (c *ctx) out() dyn {
	v, err := c.run.value(c.n)
	return dyn{c.widened(Tensor[Backend]{be: c.sc, v: v, err: err})}
}

// positions returns the second result.
func (c *ctx) positions() Int[Backend] {
	return Int[Backend]{Tensor[Backend]{be: c.sc, v: c.n.aux}}
}

// shape returns an input's shape.
func (c *ctx) shape(i int) []int64 { return c.n.in[i].info.Shape }

// wants reports whether an input's gradient is asked for.
func (c *ctx) wants(i int) bool { return i < len(c.n.in) && c.n.in[i].n != nil }

// zeros makes a tensor of zeros like an input.
func (c *ctx) zeros(i int) dyn {
	d := c.n.in[i].info.DType
	if !d.IsFloat() || c.wide { // of codes, the float type beside them
		d = c.g.DType()
	}
	return dyn{fill[Backend](c.sc, d, 0, c.shape(i))}
}

// with applies another operation with the attributes of this one.
func (c *ctx) with(op Op, x dyn, rest ...dyn) dyn {
	all := make([]Tensor[Backend], len(rest))
	for i, r := range rest {
		all[i] = r.Tensor
	}
	return dyn{x.run(op, c.at, all...)}
}

// shaped is with, for operations that are told the shape of their result.
func (c *ctx) shaped(op Op, i int, x dyn, rest ...Tensor[Backend]) dyn {
	at := *c.at
	at.Shape = c.shape(i)
	return dyn{x.run(op, &at, rest...)}
}

// sumTo adds up what was broadcast from a shape.
func sumTo(g dyn, shape []int64) dyn {
	from := g.v.Shape()
	if slices.Equal(from, shape) {
		return g
	}
	var axes []int
	extra := len(from) - len(shape)
	for i, n := range from {
		if i < extra || shape[i-extra] == 1 && n != 1 {
			axes = append(axes, i)
		}
	}
	if len(axes) > 0 {
		g = g.SumKeep(axes...)
	}
	return dyn{g.run(OpReshape, &Attr{Shape: shape})}
}

// apply runs n's rule and returns a gradient per input, checked.
func (r *rule) apply(c *ctx) (grads []dyn, err error) {
	grads = make([]dyn, len(c.n.in))
	c.wide = c.n.computesWide()
	c.g = dyn{c.widened(c.g.Tensor)}
	if r.all != nil {
		copy(grads, r.all(c))
	}
	for i, e := range c.n.in {
		if e.n == nil {
			grads[i] = dyn{}
			continue
		}
		if r.all == nil {
			if v := r.input(i); v.f != nil {
				grads[i] = v.f(c)
			}
		}
		g := &grads[i]
		if g.Err() == nil && r.broadcasts {
			*g = sumTo(*g, e.info.Shape)
		}
		if g.Err() == nil && c.wide && g.DType() != e.info.DType {
			*g = g.Cast(e.info.DType)
		}
		if err := g.Err(); err != nil {
			return nil, err
		}
		d := e.info.DType
		if !d.IsFloat() { // codes: their gradient is of the float type beside them
			d = g.DType()
		}
		want := e.info.Shape
		if r.part {
			want = c.n.out.Shape
		}
		if got := infoOf(g.v); got.DType != d || !slices.Equal(got.Shape, want) {
			return nil, fmt.Errorf("autodiff: internal: the gradient rule of %v gave %v for input %d, which is %v", c.n.op, got, i, e.info)
		}
	}
	return grads, nil
}

// scope is a Backend that remembers what was made through it.
type scope struct {
	Backend
	made  []Value // nil: taken
	taken int     // the latest one's place
}

// Run applies an operation.
func (s *scope) Run(op Op, at *Attr, in ...Value) (Outputs, error) {
	out, err := s.Backend.Run(op, at, in...)
	for _, v := range out {
		if v != nil {
			s.made = append(s.made, v)
		}
	}
	return out, err
}

// close releases what was made.
func (s *scope) close() {
	for _, v := range s.made {
		if v != nil {
			v.Release()
		}
	}
	clear(s.made)
	s.made = s.made[:0]
}
