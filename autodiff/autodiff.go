package autodiff

import "fmt"

// Autodiff decorates a backend B with gradients: it is a Backend itself, whose
// float tensors may be tracked, and remembers for those what was computed from
// what. C decides what is kept for the backward pass: None, Balanced, Budget,
// or any other Strategy.
//
// Only float tensors are wrapped; Int, Bool and untracked Quantized ones are
// the inner backend's own. Decorating twice gives second derivatives, but for those
// of Dequantize and FakeQuantize: differentiating their gradients is an error. A network's
// Params are then over the outer Autodiff: its gradients are what the inner one differentiates by the same Params. What else
// gradients of gradients are wanted by, such as the input, is tracked by both: outer.Track(outer.FromInner(inner.Track(x))).
type Autodiff[B Backend, C Strategy] struct {
	*engine
	b B
}

// New decorates a backend. A nil strategy, of whatever type, is None.
func New[B Backend, C Strategy](inner B, strategy C) *Autodiff[B, C] {
	return &Autodiff[B, C]{newEngine(inner, strategy), inner}
}

// AutodiffBackend is the contract of a backend S with gradients over an inner
// backend B (its associated types are Float[B] and so on, and Gradients[B]).
// A *Autodiff[B, C] is one.
type AutodiffBackend[S, B Backend] interface {
	Backend
	// InnerBackend returns the backend that is decorated.
	InnerBackend() B
	// Backward differentiates a tensor of one element with respect to every
	// tracked leaf that it was computed from, and frees the graph.
	Backward(x Float[S], options ...BackwardOption) (*Gradients[B], error)
	// Grad returns a tensor's gradient, and whether there is one.
	Grad(x Float[S], g *Gradients[B]) (Float[B], bool)
	// GradRemove is Grad that takes the gradient out.
	GradRemove(x Float[S], g *Gradients[B]) (Float[B], bool)
	// GradReplace puts another gradient in its place, or the first one.
	GradReplace(x Float[S], g *Gradients[B], grad Float[B]) error
	// Inner returns the elements without the graph.
	Inner(x Float[S]) Float[B]
	// IntInner returns the same tensor of the inner backend.
	IntInner(x Int[S]) Int[B]
	// BoolInner returns the same tensor of the inner backend.
	BoolInner(x Bool[S]) Bool[B]
	// QInner returns the codes and their parameters without the graph.
	QInner(x Quantized[S]) Quantized[B]
	// FromInner returns an untracked tensor of this backend.
	FromInner(x Float[B]) Float[S]
	// IntFromInner returns the same tensor of this backend.
	IntFromInner(x Int[B]) Int[S]
	// BoolFromInner returns the same tensor of this backend.
	BoolFromInner(x Bool[B]) Bool[S]
	// QFromInner returns the codes and their parameters, untracked.
	QFromInner(x Quantized[B]) Quantized[S]
}

var _ AutodiffBackend[*Autodiff[*CPU, None], *CPU] = (*Autodiff[*CPU, None])(nil)

// BackwardOption changes what Backward does.
type BackwardOption func(*backwardOptions)

// WithSum differentiates the sum of a tensor of several elements.
func WithSum() BackwardOption { return func(o *backwardOptions) { o.sum = true } }

// WithSeed starts from a gradient of the tensor, of its type and shape.
func WithSeed[B Backend](seed Float[B]) BackwardOption {
	return func(o *backwardOptions) { o.seed, o.seedErr = seed.v, seed.Err() }
}

// KeepGraph leaves the graph for another Backward.
func KeepGraph() BackwardOption { return func(o *backwardOptions) { o.keep = true } }

// Backward differentiates x, which must have one element unless WithSum or
// WithSeed is given, and returns the gradients of the tracked leaves.
//
// It consumes the graph, unless KeepGraph is given: the results between the
// leaves and x are freed, and their memory is used again. Reading one of them
// afterwards, or differentiating through it, is an error that names it; x
// itself, and what was marked with Keep, can still be read.
func (a *Autodiff[B, C]) Backward(x Float[*Autodiff[B, C]], options ...BackwardOption) (*Gradients[B], error) {
	var o backwardOptions
	for i, option := range options {
		if option == nil {
			return nil, fmt.Errorf("autodiff: backward: option %d is nil; want WithSum, WithSeed or KeepGraph", i)
		}
		option(&o)
	}
	if err := x.Err(); err != nil {
		return nil, err
	}
	if o.seedErr != nil {
		return nil, o.seedErr
	}
	g, err := a.made().backward(x.v, o)
	if err != nil {
		return nil, err
	}
	return &Gradients[B]{a.InnerBackend(), g}, nil
}

// nodeOf returns a tracked tensor's node, or nil.
func nodeOf(v Value) *node {
	if x, ok := v.(*variable); ok {
		return x.node
	}
	return nil
}

// Grad returns the gradient of a leaf, or of a tensor that was marked with
// Keep; false where there is none.
func (a *Autodiff[B, C]) Grad(x Float[*Autodiff[B, C]], g *Gradients[B]) (Float[B], bool) {
	n := nodeOf(x.v)
	if n == nil {
		return Float[B]{}, false
	}
	e := g.of().find(n.id)
	if e == nil {
		return Float[B]{}, false
	}
	return Float[B]{Tensor[B]{be: a.InnerBackend(), v: e.v}}, true
}

// GradRemove is Grad that takes the gradient out, so that the caller alone
// holds it.
func (a *Autodiff[B, C]) GradRemove(x Float[*Autodiff[B, C]], g *Gradients[B]) (Float[B], bool) {
	grad, ok := a.Grad(x, g)
	if ok {
		id := nodeOf(x.v).id
		g.g.find(id).v = nil
		delete(g.g.byID, id)
	}
	return grad, ok
}

// GradReplace puts another gradient in place of x's, or the first one. Its
// type and shape must be x's. What Grad gave before is released.
func (a *Autodiff[B, C]) GradReplace(x Float[*Autodiff[B, C]], g *Gradients[B], grad Float[B]) error {
	if err := x.Err(); err != nil {
		return err
	}
	if err := grad.Err(); err != nil {
		return err
	}
	n := nodeOf(x.v)
	switch {
	case g.absent():
		return errNoGradients
	case n == nil:
		return fmt.Errorf("autodiff: grad_replace: %v is not tracked", x)
	case !a.made().orAbsent().inner.Owns(grad.v):
		return fmt.Errorf("autodiff: grad_replace: the gradient %v belongs to another backend than %s", grad, a.made().orAbsent().inner.Name())
	}
	return g.g.replace(n, grad.v)
}

// innerOf returns a tensor of the inner backend that shares the elements.
func innerOf[S, B Backend](e *engine, be B, x Tensor[S]) Tensor[B] {
	out := Tensor[B]{be: be, err: x.err}
	if x.v == nil {
		return out
	}
	if e == nil {
		return Tensor[B]{be: be, err: errNoBackend}
	}
	v, err := e.hold(x.v)
	if err == nil {
		v, err = v.Share()
		e.letGo(x.v)
	}
	if err != nil {
		return Tensor[B]{be: be, err: fmt.Errorf("autodiff: inner: %w", err)}
	}
	out.v = v
	return out
}

// fromInner returns an untracked tensor that shares the elements.
func fromInner[S, B Backend](e *engine, be S, x Tensor[B]) Tensor[S] {
	out := Tensor[S]{be: be, err: x.err}
	if x.v == nil {
		return out
	}
	if e == nil {
		return Tensor[S]{be: be, err: errNoBackend}
	}
	v, err := x.v.Share()
	if err == nil && !e.inner.Owns(v) {
		err = fmt.Errorf("autodiff: from_inner: %v does not belong to %s", x, e.inner.Name())
	}
	if err != nil {
		return Tensor[S]{be: be, err: err}
	}
	out.v = e.wrap(v)
	return out
}

// Inner returns x's elements as a tensor of the inner backend. They are shared:
// those of a parameter change with it.
func (a *Autodiff[B, C]) Inner(x Float[*Autodiff[B, C]]) Float[B] {
	return Float[B]{innerOf(a.made(), a.InnerBackend(), x.Tensor)}
}

// IntInner returns the same tensor of the inner backend.
func (a *Autodiff[B, C]) IntInner(x Int[*Autodiff[B, C]]) Int[B] {
	return Int[B]{innerOf(a.made(), a.InnerBackend(), x.Tensor)}
}

// BoolInner returns the same tensor of the inner backend.
func (a *Autodiff[B, C]) BoolInner(x Bool[*Autodiff[B, C]]) Bool[B] {
	return Bool[B]{innerOf(a.made(), a.InnerBackend(), x.Tensor)}
}

// QInner returns the codes and their parameters in the inner backend.
func (a *Autodiff[B, C]) QInner(x Quantized[*Autodiff[B, C]]) Quantized[B] {
	return Quantized[B]{innerOf(a.made(), a.InnerBackend(), x.Codes), a.Inner(x.Scale), innerOf(a.made(), a.InnerBackend(), x.ZeroPoint), x.Scheme}
}

// FromInner returns an untracked tensor with the elements of x.
func (a *Autodiff[B, C]) FromInner(x Float[B]) Float[*Autodiff[B, C]] {
	return Float[*Autodiff[B, C]]{fromInner(a.made(), a, x.Tensor)}
}

// IntFromInner returns the same tensor of this backend.
func (a *Autodiff[B, C]) IntFromInner(x Int[B]) Int[*Autodiff[B, C]] {
	return Int[*Autodiff[B, C]]{fromInner(a.made(), a, x.Tensor)}
}

// BoolFromInner returns the same tensor of this backend.
func (a *Autodiff[B, C]) BoolFromInner(x Bool[B]) Bool[*Autodiff[B, C]] {
	return Bool[*Autodiff[B, C]]{fromInner(a.made(), a, x.Tensor)}
}

// QFromInner returns the codes and their parameters in this backend, untracked.
func (a *Autodiff[B, C]) QFromInner(x Quantized[B]) Quantized[*Autodiff[B, C]] {
	return Quantized[*Autodiff[B, C]]{fromInner(a.made(), a, x.Codes), a.FromInner(x.Scale), fromInner(a.made(), a, x.ZeroPoint), x.Scheme}
}

// Track returns a tracked leaf with the elements of x, whose own history is
// left behind. Gradients are given for it.
func (a *Autodiff[B, C]) Track(x Float[*Autodiff[B, C]]) Float[*Autodiff[B, C]] {
	if x.Err() != nil {
		return x
	}
	x.v, x.err = a.made().leafVar(x.v)
	return x
}

// Detach returns an untracked tensor with the elements of x, shared as by Inner.
func (a *Autodiff[B, C]) Detach(x Float[*Autodiff[B, C]]) Float[*Autodiff[B, C]] {
	return a.FromInner(a.Inner(x))
}

// IsTracked reports whether gradients pass through x.
func (a *Autodiff[B, C]) IsTracked(x Float[*Autodiff[B, C]]) bool { return nodeOf(x.v) != nil }

// Keep lets x be read after Backward, which then gives its gradient too.
func (a *Autodiff[B, C]) Keep(x Float[*Autodiff[B, C]]) Float[*Autodiff[B, C]] {
	if v, ok := x.v.(*variable); ok && v.node != nil {
		v.node.kept.Store(true)
		if _, err := v.hold(); err != nil {
			x.v, x.err = nil, fmt.Errorf("autodiff: keep: %w", err)
			return x
		}
		v.letGo()
	}
	return x
}

// Label gives a tracked tensor a name for error messages.
func (a *Autodiff[B, C]) Label(x Float[*Autodiff[B, C]], name string) Float[*Autodiff[B, C]] {
	if n := nodeOf(x.v); n != nil {
		n.label.Store(&name)
	}
	return x
}
