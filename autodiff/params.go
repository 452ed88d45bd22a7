package autodiff

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// Params holds a network's parameters by name, in the order in which they were
// made. On a backend with gradients they are tracked.
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
	leafVar(Value) (Value, error)
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

// Linear makes the weight [out, in] and the bias [out] of a fully connected
// layer, named name.weight and name.bias, uniform within 1/sqrt(in).
func (p *Params[B]) Linear(name string, in, out int) (weight, bias Float[B]) {
	bound := boundOf(in)
	return p.Uniform(name+".weight", bound, out, in), p.Uniform(name+".bias", bound, out)
}

// Conv2d makes the weight [out, in, kernel, kernel] and the bias [out] of a
// convolution, uniform within 1/sqrt(in*kernel*kernel).
func (p *Params[B]) Conv2d(name string, in, out, kernel int) (weight, bias Float[B]) {
	bound := boundOf(in * kernel * kernel)
	return p.Uniform(name+".weight", bound, out, in, kernel, kernel), p.Uniform(name+".bias", bound, out)
}

// ConvTranspose2d makes the weight [in, out, kernel, kernel] and the bias [out] of a transposed convolution,
// uniform within 1/sqrt(out*kernel*kernel), as PyTorch's are.
func (p *Params[B]) ConvTranspose2d(name string, in, out, kernel int) (weight, bias Float[B]) {
	bound := boundOf(out * kernel * kernel)
	return p.Uniform(name+".weight", bound, in, out, kernel, kernel), p.Uniform(name+".bias", bound, out)
}

// Norm makes the weight [n], of ones, and the bias [n], of zeros, of a normalisation.
func (p *Params[B]) Norm(name string, n int) (weight, bias Float[B]) {
	return p.Full(name+".weight", 1, n), p.Zeros(name+".bias", n)
}

// BatchNorm makes those of a batch normalisation of n channels, with the names that PyTorch has: name.weight
// and name.bias, as Norm does, and the buffers name.running_mean, of zeros, and name.running_var, of ones.
func (p *Params[B]) BatchNorm(name string, n int) BatchNorm[B] {
	weight, bias := p.Norm(name, n)
	return BatchNorm[B]{weight, bias, p.Buffer(name+".running_mean", 0, n), p.Buffer(name+".running_var", 1, n)}
}

// LSTM makes the parameters of a layer of an LSTM, uniform within 1/sqrt(hidden), with the names that PyTorch
// has: name.weight_ih_l0, name.weight_hh_l0, name.bias_ih_l0 and name.bias_hh_l0 where layer is 0.
func (p *Params[B]) LSTM(name string, layer, in, hidden int) Recurrent[B] {
	return p.recurrent(name, layer, in, hidden, 4)
}

// GRU makes the parameters of a layer of a GRU; see LSTM.
func (p *Params[B]) GRU(name string, layer, in, hidden int) Recurrent[B] {
	return p.recurrent(name, layer, in, hidden, 3)
}

func (p *Params[B]) recurrent(name string, layer, in, hidden, gates int) Recurrent[B] {
	make := func(of string, shape ...int) Float[B] {
		return p.Uniform(fmt.Sprintf("%s.%s_l%d", name, of, layer), boundOf(hidden), shape...)
	}
	rows := gates * hidden
	return Recurrent[B]{make("weight_ih", rows, in), make("weight_hh", rows, hidden), make("bias_ih", rows), make("bias_hh", rows)}
}

// Attention makes the parameters of a MultiheadAttention over d features, with the names that PyTorch has:
// name.in_proj_weight, uniform within sqrt(6/(d+3d)), name.out_proj.weight, within 1/sqrt(d), and biases of zeros.
func (p *Params[B]) Attention(name string, d int) Attention[B] {
	return Attention[B]{
		p.Uniform(name+".in_proj_weight", math.Sqrt(6)*boundOf(4*d), 3*d, d), p.Zeros(name+".in_proj_bias", 3*d),
		p.Uniform(name+".out_proj.weight", boundOf(d), d, d), p.Zeros(name+".out_proj.bias", d),
	}
}

// boundOf returns the bound of a layer's parameters: 1, not an infinity, where nothing goes in.
func boundOf(in int) float64 { return 1 / math.Sqrt(float64(max(in, 1))) }

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
			return Float[B]{failed(p.be, "the parameter %q is %v; shape %v was asked for", name, x, shape)}
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
			x = Float[B]{failed(p.be, "the file's parameter %q is %v; shape %v was asked for", name, x, shape)}
		}
	} else {
		// Every parameter draws from a stream of its own.
		x = make(kernel.Bits64(p.seed, uint64(len(p.names))))
	}
	if t, ok := any(p.be).(tracker); ok && x.Err() == nil && !p.buffers[name] {
		x.v, x.err = t.leafVar(x.v)
		if n := nodeOf(x.v); n != nil {
			n.label.Store(&name)
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
		inner.Add(name, p.be.Inner(p.byName[name]))
	}
	inner.loaded = maps.Clone(p.loaded)
	return inner
}
