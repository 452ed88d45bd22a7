package autodiff

import (
	"slices"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
)

// The operations of an LSTM's cell: what its arithmetic would take, step by step, in as many passes. Their
// gradients can be differentiated where they are made of that arithmetic.

// lstmGates is the rule of gates and of their gradient.
func lstmGates(_ *Attr, in []Info) ([3]Info, error) {
	shape := in[0].Shape
	if len(shape) == 0 || shape[len(shape)-1]%4 != 0 {
		return fail("the gates are %v; want [..., 4*hidden]", in[0])
	}
	if last := in[len(in)-1]; !slices.Equal(last.Shape, shape) {
		return fail("inputs are %v and %v; want one shape", in[0], last)
	}
	return one(in[0].DType, shape)
}

// lstmState is the rule of what is made of gates and states, and of its gradient.
func lstmState(_ *Attr, in []Info) (out [3]Info, err error) {
	gates, c := in[len(in)-2], in[len(in)-1]
	last := len(c.Shape) - 1
	if last < 0 || !matches(gates.Shape, c.Shape, last) || gates.Shape[last]%4 != 0 || gates.Shape[last]/4 != c.Shape[last] {
		return fail("the gates are %v and c is %v; want [..., 4*hidden] and [..., hidden]", gates, c)
	}
	if len(in) == 2 {
		return one(c.DType, c.Shape)
	}
	if !slices.Equal(in[0].Shape, c.Shape) {
		return fail("the gradient is %v; want %v", in[0], c)
	}
	return [3]Info{gates, c}, nil
}

// hidden is the extent of a cell's states.
func (k *call) hidden() int {
	shape := k.in[len(k.in)-1].shape
	return int(shape[len(shape)-1])
}

func lstmGatesOf[T kernel.Float](k *call) error {
	kernel.LSTMGates(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.hidden()/4)
	return nil
}

func lstmGatesGradOf[T kernel.Float](k *call) error {
	kernel.LSTMGatesGrad(k.t, elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]), k.hidden()/4)
	return nil
}

func lstmStateOf[T kernel.Float](f func(t kernel.Threads, z, y, c []T, n int)) loop {
	return func(k *call) error {
		f(k.t, elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]), k.hidden())
		return nil
	}
}

func lstmStateGradOf[T kernel.Float](f func(t kernel.Threads, dy, dc, g, y, c []T, n int)) loop {
	return func(k *call) error {
		f(k.t, elements[T](k.out[0]), elements[T](k.out[1]), elements[T](k.in[0]), elements[T](k.in[1]), elements[T](k.in[2]), k.hidden())
		return nil
	}
}

// once reports whether no gradient of a rule's results will be asked for.
func (c *ctx) once(read ...Tensor[Backend]) bool {
	return nodeOf(c.g.v) == nil && !slices.ContainsFunc(read, func(t Tensor[Backend]) bool { return nodeOf(t.v) != nil })
}

// lstmGatesGrad is the gradient of gates, in which there is no -0.
func lstmGatesGrad(c *ctx) dyn {
	if c.once(c.out().Tensor) {
		return c.with(OpLSTMGatesGrad, c.g, c.out())
	}
	g, y := c.g.Chunk(-1, 4), c.out().Chunk(-1, 4)
	for i, op := range []Op{OpSigmoidGrad, OpSigmoidGrad, OpTanhGrad, OpSigmoidGrad} {
		g[i] = c.with(op, g[i], y[i])
	}
	return Cat(-1, g[0], g[1:]...).AddScalar(0)
}

// lstmStateGrad is the gradient of gates and c, by an operation or by what that computes.
func lstmStateGrad(op Op, steps func(g dyn, gate []dyn, c, zero dyn) (gates []dyn, dc dyn)) func(c *ctx) []dyn {
	return func(c *ctx) []dyn {
		if c.once(c.tensor(0), c.tensor(1)) {
			return floatsOf(c.g.runAll(op, nil, c.tensor(0), c.tensor(1)))
		}
		zero := dyn{fill[Backend](c.sc, c.g.DType(), 0, c.shape(1))}
		gates, dc := steps(c.g, c.in(0).Chunk(-1, 4), c.in(1), zero)
		return []dyn{Cat(-1, gates[0], gates[1:]...), dc}
	}
}

func lstmCellSteps(g dyn, gate []dyn, c, zero dyn) ([]dyn, dyn) {
	return []dyn{g.Mul(gate[2]), g.Mul(c), g.Mul(gate[0]), zero}, g.Mul(gate[1])
}

func lstmHiddenSteps(g dyn, gate []dyn, c, zero dyn) ([]dyn, dyn) {
	t := c.Tanh()
	return []dyn{zero, zero, zero, g.Mul(t)}, dyn{g.Mul(gate[3]).run(OpTanhGrad, nil, t.Tensor)}
}
