package autodiff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// Params holds a network's parameters by name, in the order in which they were
// made. On a backend with gradients they are tracked.
//
// On an Autodiff over another they are leaves of both. A gradient
// of the outer one is then a tensor that the inner one differentiates by them, and an Optimizer takes the Gradients of
// either: a loss of gradients trains the same Params.
//
// A network is a function of its Params: the same constructor makes one to
// train, on Autodiff, and one to serve, on the inner backend. Asking again for
// a name gives the tensor that is there, so Load may come before or after.
type Params[B Backend] struct {
	be     B
	seed   uint64
	names  []string
	byName map[string]Float[B]
	loaded map[string]tensor.View // read from a file, not asked for yet
	// buffers are those that no optimizer changes: they are not tracked.
	buffers map[string]bool
}

// NewParams makes an empty set; the seed is for random initial values.
func NewParams[B Backend](be B, seed uint64) *Params[B] {
	return &Params[B]{be: be, seed: seed, byName: map[string]Float[B]{}, loaded: map[string]tensor.View{}, buffers: map[string]bool{}}
}

// tracker is a backend whose tensors can be leaves, or have no graph.
type tracker interface {
	parameterVar(Value) (Value, error)
	constant(Value) (Value, error)
}

// Backend returns the backend that the parameters live on.
func (p *Params[B]) Backend() B { return p.be }

// Names returns the names, in order.
func (p *Params[B]) Names() []string { return slices.Clone(p.names) }

// Waiting returns the names that Load has read and nobody has asked for, in order. What is left when a network is made
// is misspelt, or another network's.
func (p *Params[B]) Waiting() []string { return slices.Sorted(maps.Keys(p.loaded)) }

// Get returns a parameter, and whether there is one of the name.
func (p *Params[B]) Get(name string) (Float[B], bool) {
	x, ok := p.byName[name]
	return x, ok
}

// Add makes a parameter with the elements of x, unless there is one already. A layer
// that shares a parameter uses it, rather than adding it under another name, where it
// would be stepped once more.
func (p *Params[B]) Add(name string, x Float[B]) Float[B] {
	return p.get(name, x.Shape(), isParameter, func(uint64) Float[B] { return x })
}

// Set changes a parameter or a buffer to the elements of x, in place: what optimizers and averages of
// a program's own come to. As with an Optimizer, nothing else may use it meanwhile, and a graph that saw
// the old elements says so.
func (p *Params[B]) Set(name string, x Float[B]) error {
	old, ok := p.byName[name]
	if !ok {
		return fmt.Errorf("autodiff: there is no parameter %q to set; want a name that was asked for before", name)
	}
	err := cmp.Or(old.Err(), x.Err())
	if err == nil {
		_, err = p.be.Run(OpCopyInPlace, &Attr{}, old.v, x.v)
	}
	if err != nil {
		return fmt.Errorf("autodiff: the parameter %q: %w", name, err)
	}
	return nil
}

// Only returns those parameters and buffers whose names keep takes, as a set of the same tensors: for an
// optimizer of their own, such as one without WeightDecay, for a part that is trained alone, or for a
// file. What either set makes later is not in the other.
func (p *Params[B]) Only(keep func(name string) bool) *Params[B] {
	part := NewParams(p.be, p.seed)
	for _, name := range p.names {
		if keep == nil || !keep(name) {
			continue
		}
		part.names = append(part.names, name)
		part.byName[name] = p.byName[name]
		if p.buffers[name] {
			part.buffers[name] = true
		}
	}
	return part
}

// Full makes an f32 parameter of equal elements.
func (p *Params[B]) Full(name string, v float64, shape ...int) Float[B] {
	return p.full(name, v, shape, isParameter)
}

func (p *Params[B]) full(name string, v float64, shape []int, buffer bool) Float[B] {
	return p.get(name, shape, buffer, func(uint64) Float[B] { return Full(p.be, v, shape...) })
}

// Zeros makes an f32 parameter of zeros.
func (p *Params[B]) Zeros(name string, shape ...int) Float[B] { return p.Full(name, 0, shape...) }

// Normal makes a normally distributed f32 parameter around 0.
func (p *Params[B]) Normal(name string, std float64, shape ...int) Float[B] {
	return p.get(name, shape, isParameter, func(seed uint64) Float[B] { return Normal(p.be, seed, 0, std, shape...) })
}

// Uniform makes an f32 parameter of numbers in [-bound, bound).
func (p *Params[B]) Uniform(name string, bound float64, shape ...int) Float[B] {
	return p.get(name, shape, isParameter, func(seed uint64) Float[B] { return Uniform(p.be, seed, -bound, bound, shape...) })
}

// Buffer makes an f32 tensor of equal elements that is saved and loaded as the parameters are, but has no
// gradient: what a layer remembers, such as running statistics.
func (p *Params[B]) Buffer(name string, v float64, shape ...int) Float[B] {
	return p.full(name, v, shape, isBuffer)
}

// Which of the two a name is for.
const isParameter, isBuffer = false, true

func (p *Params[B]) get(name string, shape []int, buffer bool, make func(seed uint64) Float[B]) Float[B] {
	if x, ok := p.byName[name]; ok {
		switch {
		case x.Err() != nil:
			return x
		case buffer != p.buffers[name]:
			kinds := map[bool]string{false: "parameter", true: "buffer"}
			return Float[B]{failed(p.be, "%q is a %s; a %s was asked for: want another name", name, kinds[!buffer], kinds[buffer])}
		case !slices.Equal(x.Shape(), shape):
			return Float[B]{failed(p.be, "the parameter %q is %v; shape %s was asked for", name, x, tensor.ShapeText(wide(shape)))}
		}
		return x
	}
	if buffer {
		if p.buffers == nil { // the zero value
			p.buffers = map[string]bool{}
		}
		p.buffers[name] = true
	}
	var x Float[B]
	if isNil(p.be) {
		x.err = errNoBackend
	} else if v, ok := p.loaded[name]; ok {
		delete(p.loaded, name)
		if x = FloatView(p.be, v); x.Err() == nil && !slices.Equal(x.Shape(), shape) {
			x = Float[B]{failed(p.be, "the file's parameter %q is %v; shape %s was asked for", name, x, tensor.ShapeText(wide(shape)))}
		}
	} else {
		// Every parameter draws from a stream of its own.
		x = make(kernel.Bits64(p.seed, uint64(len(p.names))))
	}
	if t, ok := any(p.be).(tracker); ok && x.Err() == nil && !p.buffers[name] {
		x.v, x.err = t.parameterVar(x.v)
		for n := range nodesOf(x.v) {
			n.label.CompareAndSwap(nil, &name)
		}
	}
	if p.byName == nil { // the zero value
		p.byName = map[string]Float[B]{}
	}
	p.names = append(p.names, name)
	p.byName[name] = x
	return x
}

// Views shows the parameters in host memory, for WriteSafetensors.
func (p *Params[B]) Views() (tensors []NamedView, err error) {
	for _, name := range p.names {
		v, err := p.byName[name].View()
		if err != nil {
			return nil, fmt.Errorf("autodiff: the parameter %q: %w", name, err)
		}
		tensors = append(tensors, NamedView{name, v})
	}
	return tensors, nil
}

// Save writes the parameters to a safetensors file.
func (p *Params[B]) Save(path string) error {
	tensors, err := p.Views()
	if err != nil {
		return err
	}
	return SaveSafetensors(path, tensors, nil)
}

// Load reads parameters from a safetensors file: those that exist change in
// place, and others have the file's elements when they are asked for. Where a
// parameter is not in the file, or has another type or shape there, nothing
// changes and Load returns an error. See Waiting for what is in the file only.
func (p *Params[B]) Load(path string) error {
	left, err := loadByName(path)
	if err != nil {
		return err
	}
	// All or none.
	for _, name := range p.names {
		v, ok := left[name]
		x := p.byName[name]
		switch {
		case !ok:
			return fmt.Errorf("autodiff: %s has no parameter %q", path, name)
		case x.Err() != nil:
			return x.Err()
		case v.DType != x.DType() || !slices.Equal(v.Shape, x.v.Shape()):
			return fmt.Errorf("autodiff: %s: %q is %v; want %v", path, name, &v, x)
		}
	}
	for _, name := range p.names {
		x := FloatView(p.be, left[name])
		delete(left, name)
		if err := x.Err(); err != nil {
			return fmt.Errorf("autodiff: %s: %q: %w", path, name, err)
		}
		if _, err := p.be.Run(OpCopyInPlace, &Attr{}, p.byName[name].v, x.v); err != nil {
			return fmt.Errorf("autodiff: %s: %q: %w", path, name, err)
		}
	}
	p.loaded = left
	return nil
}

// InnerParams returns the parameters on the inner backend, for serving. They
// share their elements with the tracked ones. What was loaded and not asked for
// yet is there, too.
func InnerParams[B Backend, C Strategy](p *Params[*Autodiff[B, C]]) *Params[B] {
	if p == nil || isNil(p.be) {
		return new(Params[B])
	}
	inner := NewParams(p.be.b, p.seed)
	inner.buffers = maps.Clone(p.buffers)
	for _, name := range p.names {
		x := p.be.Inner(p.byName[name])
		if n := nodeOf(x.v); n == nil || !n.leaf {
			inner.Add(name, x)
			continue
		}
		inner.names = append(inner.names, name) // with the place that it has in the inner backend's graphs
		inner.byName[name] = x
	}
	inner.loaded = maps.Clone(p.loaded)
	return inner
}
