package autodiff

import (
	"fmt"
	"math"

	"github.com/isobit-ml/isobit/tensor"
)

// Optimizer changes parameters in place, by their gradients. A parameter
// without a gradient stays as it is. They are of f32 or f64: 16 bits are too few for
// small steps. Those with other settings, such as no WeightDecay, take another
// optimizer, which is given them alone: see Params.Only.
//
// Nothing else may use the parameters meanwhile. A graph that was built with
// the old values cannot be differentiated any more; that is an error.
type Optimizer interface {
	// Step changes every parameter that has a gradient, once.
	Step(p Parameters, g GradientSet) error
	// Save writes what the optimizer remembers of the parameters, by their names, to a
	// safetensors file: how many steps each took, and running means. The settings, such as
	// the rate, are the program's.
	Save(path string, p Parameters) error
	// Load reads what Save wrote: training goes on with the same bits. What is of parameters
	// that there are not waits until they are made; where one has another type or shape then,
	// Step returns an error. After an error everything is as it was.
	Load(path string, p Parameters) error
}

// Parameters is a *Params of a backend with gradients.
type Parameters interface {
	each(f func(name string, v Value) error) error
	runner() Backend
}

// GradientSet is a *Gradients.
type GradientSet interface {
	find(id uint64) Value
	absent() bool
}

func (p *Params[B]) each(f func(name string, v Value) error) error {
	for _, name := range p.names {
		x := p.byName[name]
		if x.err != nil {
			return x.err
		}
		if p.buffers[name] {
			continue
		}
		if err := f(name, x.v); err != nil {
			return err
		}
	}
	return nil
}

func (p *Params[B]) runner() Backend { return p.be }

func (g *Gradients[B]) find(id uint64) Value {
	if e := g.of().find(id); e != nil {
		return e.v
	}
	return nil
}

func (g *Gradients[B]) absent() bool { return g == nil || g.g == nil }

// SGD is stochastic gradient descent, with momentum as PyTorch defines it.
type SGD struct {
	Rate        float64
	Momentum    float64 // 0: none
	Dampening   float64 // what the momentum takes less of each gradient after the first, as a part of it
	WeightDecay float64 // times the parameter, added to the gradient
	Nesterov    bool    // step along the momentum that is to come
	Maximize    bool    // climb
	state       state
}

// Step changes the parameters.
func (o *SGD) Step(p Parameters, g GradientSet) error {
	if o.Nesterov && (o.Momentum == 0 || o.Dampening != 0) {
		return fmt.Errorf("autodiff: SGD: Nesterov needs a momentum, and no dampening")
	}
	if err := checkNumbers("SGD", number{"Rate", o.Rate, inf}, number{"Momentum", o.Momentum, inf}, number{"WeightDecay", o.WeightDecay, inf}); err != nil {
		return err
	}
	if math.IsNaN(o.Dampening) {
		return fmt.Errorf("autodiff: SGD: Dampening is NaN; want a number")
	}
	return o.state.step(p, g, descent{op: OpSGD, maximize: o.Maximize, needs: []bool{o.Momentum != 0}, at: func(_ int, fresh bool) *Attr {
		at := &Attr{Floats: [10]float64{o.Rate, o.Momentum, o.WeightDecay, o.Dampening}, Nesterov: o.Nesterov}
		if fresh {
			at.Floats[3] = 0
		}
		return at
	}})
}

// number is a setting of an optimizer, from 0 up to a limit that is not in it.
type number struct {
	name         string
	value, below float64
}

var inf = math.Inf(1)

// checkNumbers refuses settings that would turn the descent around or fill the
// parameters with NaN.
func checkNumbers(of string, numbers ...number) error {
	for _, n := range numbers {
		if !(n.value >= 0 && n.value < n.below) {
			return fmt.Errorf("autodiff: %s: %s is %g; want 0 or more, and less than %g", of, n.name, n.value, n.below)
		}
	}
	return nil
}

// Adam adapts the rate to each element. WeightDecay is added to the gradient;
// see AdamW. Zero values of Beta1, Beta2 and Eps mean 0.9, 0.999 and 1e-8.
type Adam struct {
	Rate         float64
	Beta1, Beta2 float64 // of the running means of the gradient and of its square
	Eps          float64 // added to the root of the latter
	WeightDecay  float64
	AMSGrad      bool // take the largest mean of squares so far
	Maximize     bool // climb
	state        state
}

// Step changes the parameters.
func (o *Adam) Step(p Parameters, g GradientSet) error {
	return o.step(p, g, decaysGradient)
}

// AdamW is Adam, with its fields, with the weights decayed apart from the gradient, by
// Rate times WeightDecay.
type AdamW Adam

// Step changes the parameters.
func (o *AdamW) Step(p Parameters, g GradientSet) error {
	return (*Adam)(o).step(p, g, decaysApart)
}

// What weights decay by: their part of the gradient, or a step of its own.
const decaysGradient, decaysApart = false, true

func (o *Adam) step(p Parameters, g GradientSet, decoupled bool) error {
	b1, b2, eps := orDefault(o.Beta1, 0.9), orDefault(o.Beta2, 0.999), orDefault(o.Eps, 1e-8)
	of := "Adam"
	if decoupled {
		of = "AdamW"
	}
	if err := checkNumbers(of, number{"Rate", o.Rate, inf}, number{"Beta1", b1, 1}, number{"Beta2", b2, 1}, number{"Eps", eps, inf}, number{"WeightDecay", o.WeightDecay, inf}); err != nil {
		return err
	}
	return o.state.step(p, g, descent{op: OpAdam, maximize: o.Maximize, needs: []bool{true, true, o.AMSGrad}, at: func(step int, _ bool) *Attr {
		return &Attr{Floats: [10]float64{o.Rate, b1, b2, eps, o.WeightDecay, float64(step)}, Decoupled: decoupled}
	}})
}

func orDefault(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}

// state is what an optimizer remembers of each parameter, by its id, and what it has read for those to come.
type state struct {
	of      map[uint64]*paramState
	waiting map[Parameters]*memory
}

type paramState struct {
	steps  int
	values []Value // of the inner backend; nil where one was not needed yet
}

// descent is a step of an optimizer: an operation that changes parameters in place.
type descent struct {
	op       Op
	needs    []bool    // which of what the optimizer remembers the operation takes
	first    []float64 // what these are before the first step; nil: zeros
	maximize bool
	// at are the attributes of a step, counted from 1, which is fresh where something was not remembered before.
	at func(step int, fresh bool) *Attr
}

// step changes every parameter that has a gradient.
func (s *state) step(p Parameters, g GradientSet, d descent) error {
	if g == nil || g.absent() {
		return errNoGradients
	}
	if isNil(p) {
		return errNoParameters
	}
	changes, err := s.changes(p, g, d.op)
	if err != nil {
		return err
	}
	be := p.runner()
	for _, u := range changes {
		if err := d.change(be, u); err != nil {
			return fmt.Errorf("autodiff: the parameter %q: %w", u.name, err)
		}
	}
	return nil
}

// change changes one parameter.
func (d *descent) change(be Backend, u change) error {
	mine, inner, fresh := u.state, u.v.e.inner, false
	in := []Value{u.v, u.grad}
	if d.maximize {
		out, err := inner.Run(OpNeg, nil, u.grad)
		if err != nil {
			return err
		}
		defer out[0].Release()
		in[1] = out[0]
	}
	for i, need := range d.needs {
		if i == len(mine.values) {
			mine.values = append(mine.values, nil)
		}
		if !need {
			in = append(in, nil)
			continue
		}
		if mine.values[i] == nil { // at the first step, or when a Momentum is set later
			at := &Attr{DType: u.v.DType(), Shape: u.v.Shape()}
			if d.first != nil {
				at.Floats[0] = d.first[i]
			}
			out, err := inner.Run(OpFill, at)
			if err != nil {
				return err
			}
			mine.values[i], fresh = out[0], true
		}
		in = append(in, mine.values[i])
	}
	for len(in) < len(ops[d.op].in) {
		in = append(in, nil)
	}
	if _, err := be.Run(d.op, d.at(mine.steps+1, fresh), in...); err != nil {
		return err
	}
	mine.steps++
	return nil
}

// change is one parameter's part of a step.
type change struct {
	name  string
	v     *variable
	grad  Value
	state *paramState
}

// changes finds the parameters that have gradients. It refuses what cannot be
// changed before anything is.
func (s *state) changes(p Parameters, g GradientSet, op Op) ([]change, error) {
	var all []change
	err := tracked(p, func(name string, x *variable) error {
		id, d := x.node.id, x.info.DType
		var grad Value
		for n := range nodesOf(x) {
			if grad = g.find(n.id); grad != nil {
				break
			}
		}
		if grad == nil {
			return nil
		}
		if d != tensor.F32 && d != tensor.F64 {
			return fmt.Errorf("autodiff: %v: the parameter %q is %v; want f32 or f64, which small steps change", op, name, d)
		}
		mine, err := s.find(p, name, x)
		if err != nil {
			return err
		}
		if mine == nil {
			mine = s.put(id, &paramState{})
		}
		all = append(all, change{name, x, grad, mine})
		return nil
	})
	return all, err
}
