package autodiff

import (
	"fmt"
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
)

// Other optimizers of PyTorch's, with its formulas. Of their settings 0 means PyTorch's default, which is said beside each, but
// for the Rate, and for those without one. Each has a loop in kernel.Steps, by the name of its mode.

// stepMemories says how many tensors the modes of OpStep remember at least.
var stepMemories = map[string]int{"adagrad": 1, "rmsprop": 1, "adamax": 2, "nadam": 2, "radam": 2, "adadelta": 2, "rprop": 2}

func stepOf(at *Attr, in []Info) ([3]Info, error) {
	count, ok := stepMemories[at.Mode]
	switch {
	case !ok:
		return fail("there is no mode %q", at.Mode)
	case count == 2 && in[3].DType == 0:
		return fail("the second memory is absent, which %s has", at.Mode)
	}
	return update(at, in)
}

func (s *state) mode(p Parameters, g GradientSet, mode string, maximize bool, numbers func(step int) [10]float64, needs ...bool) error {
	return s.step(p, g, descent{op: OpStep, maximize: maximize, needs: needs, at: func(step int, _ bool) *Attr {
		return &Attr{Mode: mode, Floats: numbers(step)}
	}})
}

// Adagrad divides the rate by the root of the sum of an element's squared gradients.
type Adagrad struct {
	Rate        float64
	RateDecay   float64 // the rate is divided by 1 + this times the steps before
	WeightDecay float64 // times the parameter, added to the gradient
	Initial     float64 // what the sum begins with
	Eps         float64 // 1e-10: added to the root
	Maximize    bool
	state       state
}

// Step changes the parameters.
func (o *Adagrad) Step(p Parameters, g GradientSet) error {
	eps := orDefault(o.Eps, 1e-10)
	if err := checkNumbers("Adagrad", number{"Rate", o.Rate, inf}, number{"RateDecay", o.RateDecay, inf}, number{"WeightDecay", o.WeightDecay, inf}, number{"Initial", o.Initial, inf}, number{"Eps", eps, inf}); err != nil {
		return err
	}
	return o.state.step(p, g, descent{op: OpStep, maximize: o.Maximize, needs: []bool{true}, first: []float64{o.Initial}, at: func(step int, _ bool) *Attr {
		return &Attr{Mode: "adagrad", Floats: [10]float64{o.WeightDecay, o.Rate / (1 + float64(float64(step-1)*o.RateDecay)), eps}}
	}})
}

// RMSprop divides the rate by the root of the running mean of an element's squared gradients, from which Centered takes the
// square of the mean of gradients.
type RMSprop struct {
	Rate        float64
	Alpha       float64 // 0.99: of the running means
	Eps         float64 // 1e-8: added to the root
	WeightDecay float64 // times the parameter, added to the gradient
	Momentum    float64 // 0: none
	Centered    bool
	Maximize    bool
	state       state
}

// Step changes the parameters.
func (o *RMSprop) Step(p Parameters, g GradientSet) error {
	alpha, eps := orDefault(o.Alpha, 0.99), orDefault(o.Eps, 1e-8)
	if err := checkNumbers("RMSprop", number{"Rate", o.Rate, inf}, number{"Alpha", alpha, inf}, number{"Eps", eps, inf}, number{"WeightDecay", o.WeightDecay, inf}, number{"Momentum", o.Momentum, inf}); err != nil {
		return err
	}
	return o.state.mode(p, g, "rmsprop", o.Maximize, func(int) [10]float64 {
		return [10]float64{o.WeightDecay, o.Rate, alpha, 1 - alpha, eps, o.Momentum}
	}, true, o.Momentum != 0, o.Centered)
}

// Adamax is Adam with the largest gradient so far, which decays by Beta2, in place of the root of squares.
type Adamax struct {
	Rate         float64
	Beta1, Beta2 float64 // 0.9, 0.999
	Eps          float64 // 1e-8: added to each gradient's size
	WeightDecay  float64 // times the parameter, added to the gradient
	Maximize     bool
	state        state
}

// Step changes the parameters.
func (o *Adamax) Step(p Parameters, g GradientSet) error {
	b1, b2, eps, err := betas("Adamax", o.Rate, o.Beta1, o.Beta2, o.Eps, o.WeightDecay)
	if err != nil {
		return err
	}
	return o.state.mode(p, g, "adamax", o.Maximize, func(step int) [10]float64 {
		return [10]float64{o.WeightDecay, o.Rate / (1 - detmath.Pow(b1, float64(step))), 1 - b1, b2, eps}
	}, true, true)
}

// betas checks the settings that optimizers have of Adam, and fills in their defaults.
func betas(of string, rate, beta1, beta2, eps, decay float64) (b1, b2, e float64, err error) {
	b1, b2, e = orDefault(beta1, 0.9), orDefault(beta2, 0.999), orDefault(eps, 1e-8)
	return b1, b2, e, checkNumbers(of, number{"Rate", rate, inf}, number{"Beta1", b1, 1}, number{"Beta2", b2, 1}, number{"Eps", e, inf}, number{"WeightDecay", decay, inf})
}

// decays are what a parameter is multiplied by, and what is added of it to its gradient.
func decays(rate, decay float64, decoupled bool) (keep, add float64) {
	if decoupled {
		return 1 - float64(rate*decay), 0
	}
	return 1, decay
}

// NAdam is Adam with Nesterov's momentum, which grows to Beta1. Its product over the steps is computed from their number, as if
// Beta1 and MomentumDecay had always been what they are.
type NAdam struct {
	Rate          float64
	Beta1, Beta2  float64 // 0.9, 0.999
	Eps           float64 // 1e-8
	WeightDecay   float64
	MomentumDecay float64 // 4e-3
	Decoupled     bool    // the weights decay apart from the gradient, as in AdamW
	Maximize      bool
	state         state
	momenta       momenta
}

// Step changes the parameters.
func (o *NAdam) Step(p Parameters, g GradientSet) error {
	b1, b2, eps, err := betas("NAdam", o.Rate, o.Beta1, o.Beta2, o.Eps, o.WeightDecay)
	if err != nil {
		return err
	}
	slow := orDefault(o.MomentumDecay, 4e-3)
	if err := checkNumbers("NAdam", number{"MomentumDecay", slow, inf}); err != nil {
		return err
	}
	if now := (momenta{beta1: b1, decay: slow}); o.momenta.beta1 != b1 || o.momenta.decay != slow {
		o.momenta = now
	}
	keep, add := decays(o.Rate, o.WeightDecay, o.Decoupled)
	return o.state.mode(p, g, "nadam", o.Maximize, func(step int) [10]float64 {
		now, next, product := o.momenta.at(step), o.momenta.at(step+1), o.momenta.product(step)
		fix := 1 - detmath.Pow(b2, float64(step))
		return [10]float64{keep, add, 1 - b1, b2, 1 - b2, fix, eps, o.Rate * (1 - now) / (1 - product), o.Rate * next / (1 - float64(product*next))}
	}, true, true)
}

// momenta are those of NAdam's steps.
type momenta struct {
	beta1, decay float64
	products     []float64 // of the momenta up to each step, from the first
}

func (m *momenta) at(step int) float64 {
	return float64(m.beta1 * (1 - float64(0.5*detmath.Pow(0.96, float64(step)*m.decay))))
}

func (m *momenta) product(step int) float64 {
	for len(m.products) < step {
		last := 1.0
		if n := len(m.products); n > 0 {
			last = m.products[n-1]
		}
		m.products = append(m.products, last*m.at(len(m.products)+1))
	}
	return m.products[step-1]
}

// RAdam is Adam that begins with plain means of gradients, until their squares are many enough to go by.
type RAdam struct {
	Rate         float64
	Beta1, Beta2 float64 // 0.9, 0.999
	Eps          float64 // 1e-8
	WeightDecay  float64
	Decoupled    bool // the weights decay apart from the gradient, as in AdamW
	Maximize     bool
	state        state
}

// Step changes the parameters.
func (o *RAdam) Step(p Parameters, g GradientSet) error {
	b1, b2, eps, err := betas("RAdam", o.Rate, o.Beta1, o.Beta2, o.Eps, o.WeightDecay)
	if err != nil {
		return err
	}
	keep, add := decays(o.Rate, o.WeightDecay, o.Decoupled)
	return o.state.mode(p, g, "radam", o.Maximize, func(step int) [10]float64 {
		power := detmath.Pow(b2, float64(step))
		fix1, fix2 := 1-detmath.Pow(b1, float64(step)), 1-power
		long := 2/(1-b2) - 1
		length := long - float64(2*float64(step)*power)/fix2
		rectify := 0.0
		if length > 5 {
			rectify = math.Sqrt((length - 4) * (length - 2) * long / ((long - 4) * (long - 2) * length))
		}
		return [10]float64{keep, add, 1 - b1, b2, 1 - b2, fix1, o.Rate, eps, math.Sqrt(fix2), rectify}
	}, true, true)
}

// Adadelta takes steps of the size of the last ones, over the size of the gradient: running means of squares of both.
type Adadelta struct {
	Rate        float64 // PyTorch's is 1
	Rho         float64 // 0.9: of the running means
	Eps         float64 // 1e-6: added to them
	WeightDecay float64 // times the parameter, added to the gradient
	Maximize    bool
	state       state
}

// Step changes the parameters.
func (o *Adadelta) Step(p Parameters, g GradientSet) error {
	rho, eps := orDefault(o.Rho, 0.9), orDefault(o.Eps, 1e-6)
	if err := checkNumbers("Adadelta", number{"Rate", o.Rate, inf}, number{"Rho", rho, 1}, number{"Eps", eps, inf}, number{"WeightDecay", o.WeightDecay, inf}); err != nil {
		return err
	}
	return o.state.mode(p, g, "adadelta", o.Maximize, func(int) [10]float64 {
		return [10]float64{o.WeightDecay, o.Rate, rho, 1 - rho, eps}
	}, true, true)
}

// Rprop goes by the signs of gradients: each element has a step of its own, which grows while they stay, and shrinks where one
// turns around.
type Rprop struct {
	Rate         float64 // of the first step; later it counts for nothing
	Shrink, Grow float64 // 0.5, 1.2
	Least, Most  float64 // 1e-6, 50: of steps
	Maximize     bool
	state        state
}

// Step changes the parameters.
func (o *Rprop) Step(p Parameters, g GradientSet) error {
	shrink, grow, least, most := orDefault(o.Shrink, 0.5), orDefault(o.Grow, 1.2), orDefault(o.Least, 1e-6), orDefault(o.Most, 50)
	if err := checkNumbers("Rprop", number{"Rate", o.Rate, inf}, number{"Shrink", shrink, 1}, number{"Grow", grow, inf}, number{"Least", least, inf}, number{"Most", most, inf}); err != nil {
		return err
	}
	if grow <= 1 {
		return fmt.Errorf("autodiff: Rprop: Grow is %g; want more than 1", grow)
	}
	return o.state.step(p, g, descent{op: OpStep, maximize: o.Maximize, needs: []bool{true, true}, first: []float64{0, o.Rate}, at: func(int, bool) *Attr {
		return &Attr{Mode: "rprop", Floats: [10]float64{shrink, grow, least, most}}
	}})
}
