package autodiff

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Gradients holds the result of Backward: tensors of the inner backend B, by
// the leaf that they belong to. It does not depend on the graph, which is
// gone; it may be kept, given to another goroutine, and merged with others.
// One goroutine at a time may change it.
type Gradients[B Backend] struct {
	be B
	g  *gradients
}

// gradients is Gradients without its type. Its order is that of the leaves.
type gradients struct {
	byID map[uint64]int
	list []gradient
}

type gradient struct {
	id   uint64
	name string
	v    Value // nil: removed
}

func (g *gradients) add(n *node, v Value) {
	g.byID[n.id] = len(g.list)
	g.list = append(g.list, gradient{n.id, n.String(), v})
}

// of returns what g holds; a nil or zero Gradients holds nothing.
func (g *Gradients[B]) of() *gradients {
	if g.absent() {
		return &gradients{}
	}
	return g.g
}

var errNoGradients = errors.New("autodiff: the gradients are absent (nil): did Backward return an error?")

func (g *gradients) find(id uint64) *gradient {
	if i, ok := g.byID[id]; ok && g.list[i].v != nil {
		return &g.list[i]
	}
	return nil
}

func (g *gradients) release() {
	for i := range g.list {
		if g.list[i].v != nil {
			g.list[i].v.Release()
		}
	}
	clear(g.byID)
	g.list = g.list[:0]
}

// Len returns the number of gradients.
func (g *Gradients[B]) Len() int {
	n := 0
	for _, e := range g.of().list {
		if e.v != nil {
			n++
		}
	}
	return n
}

// Release gives the memory of all gradients back at once.
func (g *Gradients[B]) Release() { g.of().release() }

// Merge adds another pass's gradients to these: what accumulates over several
// batches, or over the goroutines that shared them. The other keeps its own.
func (g *Gradients[B]) Merge(other *Gradients[B]) error {
	if g.absent() || other.absent() {
		return errNoGradients
	}
	for _, e := range other.of().list {
		if e.v == nil {
			continue
		}
		mine := g.g.find(e.id)
		if mine == nil {
			v, err := e.v.Share()
			if err != nil {
				return fmt.Errorf("autodiff: merge: the gradient of %s: %w", e.name, err)
			}
			g.g.byID[e.id] = len(g.g.list)
			g.g.list = append(g.g.list, gradient{e.id, e.name, v})
			continue
		}
		out, err := g.be.Run(OpAdd, &Attr{}, mine.v, e.v)
		if err != nil {
			return fmt.Errorf("autodiff: merge: the gradient of %s: %w", e.name, err)
		}
		mine.v.Release()
		mine.v = out[0]
	}
	return nil
}

// Scale multiplies every gradient, for example by 1 over the number of
// batches that were merged. What Grad gave before is released.
func (g *Gradients[B]) Scale(factor float64) error {
	return g.change(func(x Float[B]) Float[B] { return x.MulScalar(factor) })
}

// ClipValue limits every element to -limit to limit. A NaN or negative limit is an error, and elements of NaN stay. What Grad
// gave before is released.
func (g *Gradients[B]) ClipValue(limit float64) error {
	if !(limit >= 0) {
		return fmt.Errorf("autodiff: clip_value: the limit is %g; want 0 or more", limit)
	}
	return g.change(func(x Float[B]) Float[B] { return x.Clamp(-limit, limit) })
}

// change puts another one in place of every gradient.
func (g *Gradients[B]) change(to func(Float[B]) Float[B]) error {
	list := g.of().list
	for i := range list {
		e := &list[i]
		if e.v == nil {
			continue
		}
		x := to(Float[B]{Tensor[B]{be: g.be, v: e.v}})
		if err := x.Err(); err != nil {
			return err
		}
		e.v.Release()
		e.v = x.v
	}
	return nil
}

// Norm returns the square root of the sum of the squares of all gradients.
func (g *Gradients[B]) Norm() (float64, error) {
	norm, err := g.norm(tensor.F32, 1)
	if err != nil || norm != norm || norm >= 0x1p-40 && !math.IsInf(norm, 1) {
		return norm, err
	}
	// Squares left the range of their type. Powers of two scale without rounding.
	largest := 0.0
	for x := range g.all() {
		if x.Len() == 0 {
			continue
		}
		m, err := x.Abs().MaxAll().Item()
		if err != nil {
			return 0, err
		}
		largest = max(largest, m)
	}
	if largest == 0 || math.IsInf(largest, 1) {
		return largest, nil
	}
	_, exponent := math.Frexp(largest)
	scale := math.Ldexp(1, min(-exponent, 1023))
	norm, err = g.norm(tensor.F64, scale)
	return norm / scale, err
}

// norm returns the norm of the gradients times scale, computed in a type or in
// their own wider one.
func (g *Gradients[B]) norm(d tensor.DType, scale float64) (float64, error) {
	total := 0.0
	for x := range g.all() {
		made := []Float[B]{x}
		last := func() Float[B] { return made[len(made)-1] }
		if x.DType().Size() < d.Size() {
			made = append(made, x.Cast(d))
		}
		if scale != 1 {
			made = append(made, last().MulScalar(scale))
		}
		made = append(made, last().PowScalar(2))
		sum, err := last().Sum().Item()
		for _, y := range made[1:] {
			y.Release()
		}
		if err != nil {
			return 0, err
		}
		total += sum
	}
	return math.Sqrt(total), nil
}

// all goes through the gradients.
func (g *Gradients[B]) all() iter.Seq[Float[B]] {
	return func(yield func(Float[B]) bool) {
		for _, e := range g.of().list {
			if e.v != nil && !yield(Float[B]{Tensor[B]{be: g.be, v: e.v}}) {
				return
			}
		}
	}
}

// ClipNorm scales the gradients so that their Norm is at most a limit, and
// returns the norm before. A NaN or negative limit is an error, and a norm of NaN
// is above no limit.
func (g *Gradients[B]) ClipNorm(limit float64) (float64, error) {
	if !(limit >= 0) {
		return 0, fmt.Errorf("autodiff: clip_norm: the limit is %g; want 0 or more", limit)
	}
	norm, err := g.Norm()
	if err == nil && norm > limit {
		err = g.Scale(limit / norm)
	}
	return norm, err
}

func (g *gradients) replace(n *node, v Value) error {
	info := infoOf(v)
	if info.DType != n.out.DType || !slices.Equal(info.Shape, n.out.Shape) {
		return fmt.Errorf("autodiff: grad_replace: the gradient is %v; want the type and shape of %v", info, n)
	}
	own, err := v.Share()
	if err != nil {
		return fmt.Errorf("autodiff: grad_replace: %w", err)
	}
	switch e := g.find(n.id); {
	case e == nil:
		g.add(n, own)
	case e.v == v: // what Grad gave
		own.Release()
	default:
		e.v.Release()
		e.v = own
	}
	return nil
}
