package autodiff

import (
	"crypto/sha256"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// strategies lists what every test of gradients runs under. Budgets are from
// nothing to everything.
var strategies = []Strategy{None{}, Balanced{}, Budget{0}, Budget{300}, Budget{1 << 30}, nothing{}}

func forStrategies(t *testing.T, f func(t *testing.T, s Strategy)) {
	for _, s := range strategies {
		t.Run(s.String(), func(t *testing.T) { f(t, s) })
	}
}

// splitFinely has small tensors computed by several goroutines, too.
func splitFinely(t *testing.T) {
	piece := kernel.MinPiece
	kernel.MinPiece = 1
	t.Cleanup(func() { kernel.MinPiece = piece })
}

// elementsOf returns an input's elements; random ones are the same each time.
func (d data) elementsOf(seed int) []float64 {
	if d.x != nil {
		return d.x
	}
	cpu := NewCPUThreads(1)
	x, _ := Uniform(cpu, uint64(seed+1), -1.5, 1.5, d.shape...).Float64s()
	return x
}

// points returns every input's elements.
func (c *testCase) points() (all [][]float64) {
	for i, d := range c.inputs {
		all = append(all, d.elementsOf(i))
	}
	return all
}

// result computes the case's loss: the sum of its result times fixed weights,
// so that no two elements of the result are alike.
func (c *testCase) result(x []dyn, be Backend) dyn {
	y := c.f(x)
	if y.Err() != nil {
		return y
	}
	w := dyn{create1[Backend](be, OpUniform, &Attr{DType: y.DType(), Shape: y.v.Shape(), Seed: 99, Floats: [10]float64{0.5, 1.5}})}
	return y.Mul(w).Sum()
}

// squared is the case with its result squared. The gradient that reaches the
// rule then depends on the inputs, as it does inside a network, so a second
// derivative differentiates the rule by that gradient, too.
func (c *testCase) squared() *testCase {
	s := *c
	s.f = func(x []dyn) dyn {
		y := c.f(x)
		return y.Mul(y)
	}
	return &s
}

// tracked makes leaves of the elements on an engine.
func (c *testCase) tracked(t *testing.T, e *engine, points [][]float64) (x []dyn) {
	for i, d := range c.inputs {
		p := dyn{fromSlice[Backend](e, points[i], d.shape)}
		v, err := e.leafVar(p.v)
		require.NoError(t, err)
		x = append(x, dyn{Tensor[Backend]{be: e, v: v}})
	}
	return x
}

// gradient returns the loss and its gradients by every input, flattened.
func (c *testCase) gradient(t *testing.T, inner Backend, s Strategy, points [][]float64) (loss float64, grads [][]float64) {
	e := newEngine(inner, s)
	x := c.tracked(t, e, points)
	y := c.result(x, e)
	require.NoError(t, y.Err())
	g, err := e.backward(y.v, backwardOptions{})
	require.NoError(t, err)
	for _, xi := range x {
		gi := g.find(nodeOf(xi.v).id)
		require.NotNil(t, gi, "no gradient")
		v, err := dyn{Tensor[Backend]{be: inner, v: gi.v}}.Float64s()
		require.NoError(t, err)
		grads = append(grads, v)
	}
	loss, err = y.Item()
	require.NoError(t, err)
	return loss, grads
}

// loss computes the case without gradients.
func (c *testCase) loss(t *testing.T, cpu *CPU, points [][]float64) float64 {
	var x []dyn
	for i, d := range c.inputs {
		x = append(x, dyn{fromSlice[Backend](cpu, points[i], d.shape)})
	}
	v, err := c.result(x, cpu).Item()
	require.NoError(t, err)
	return v
}

// difference approximates a derivative by the fourth-order central difference.
func difference(at *float64, h float64, f func() float64) float64 {
	x := *at
	d := 0.0
	for _, s := range []struct{ k, w float64 }{{-2, 1}, {-1, -8}, {1, 8}, {2, -1}} {
		*at = x + s.k*h
		d += s.w * f()
	}
	*at = x
	return d / (12 * h)
}

func near(a, b, tol float64) bool {
	return a == b || math.Abs(a-b) <= tol*(1+max(math.Abs(a), math.Abs(b)))
}

// TestGradients compares every rule with finite differences in f64, or with
// the documented value at a kink.
func TestGradients(t *testing.T) {
	cpu := NewCPUThreads(1)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			points := c.points()
			loss, grads := c.gradient(t, cpu, None{}, points)
			require.Equal(t, c.loss(t, cpu, points), loss, "tracking changes the result")
			if c.estimate {
				return
			}
			if c.want != nil {
				// Undo the weights of the loss.
				w, _ := dyn{create1[Backend](cpu, OpUniform, &Attr{DType: tensor.F64, Shape: []int64{int64(len(grads[0]))}, Seed: 99, Floats: [10]float64{0.5, 1.5}})}.Float64s()
				if c.name == "fake_quantize per channel, scale" || c.name == "max of equals" || c.name == "prod with zeros" {
					return // see TestWeightedKinks
				}
				for i := range grads {
					for j := range grads[i] {
						require.InDelta(t, c.want[i][j]*w[j], grads[i][j], 1e-7, "input %d, element %d", i, j)
					}
				}
				return
			}
			for i := range points {
				p := append([]float64(nil), points[i]...)
				points[i] = p
				for j := range p {
					d := difference(&p[j], 1e-3, func() float64 { return c.loss(t, cpu, points) })
					if !near(d, grads[i][j], 1e-9) {
						t.Errorf("input %d, element %d: gradient %v, finite difference %v", i, j, grads[i][j], d)
					}
				}
			}
		})
	}
}

// TestWeightedKinks checks the kinks whose result has another shape than the
// input, with a loss of equal weights.
func TestWeightedKinks(t *testing.T) {
	cpu := NewCPUThreads(1)
	for _, c := range cases {
		if c.want == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(cpu, None{})
			x := c.tracked(t, e, c.points())
			g, err := e.backward(c.f(x).v, backwardOptions{sum: true})
			require.NoError(t, err)
			for i := range x {
				v, err := dyn{Tensor[Backend]{be: cpu, v: g.find(nodeOf(x[i].v).id).v}}.Float64s()
				require.NoError(t, err)
				require.InDeltaSlice(t, c.want[i], v, 1e-9, "input %d", i)
			}
		})
	}
}

// TestStrategiesAgree runs every case under every strategy and with 1, 2 and 8
// threads: the same bits, in first and second derivatives. For the latter the
// two levels have the same strategy, or different ones.
func TestStrategiesAgree(t *testing.T) {
	splitFinely(t)
	above := map[Strategy]Strategy{}
	for i, s := range strategies {
		above[s] = strategies[(i*2+1)%len(strategies)]
	}
	above[None{}] = None{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			digest := ""
			for _, s := range strategies {
				for _, threads := range []int{1, 2, 8} {
					cpu := NewCPUThreads(threads)
					loss, grads := c.gradient(t, cpu, s, c.points())
					if !c.once && !c.estimate && c.want == nil {
						grads = append(grads, c.squared().second(t, cpu, s, above[s], c.points())...)
					}
					d := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%x %x", loss, grads)))
					if digest == "" {
						digest = d
					}
					require.Equal(t, digest, d, "%v with %d threads", s, threads)
				}
			}
		})
	}
}

// TestBuffersMayHoldAnything runs every case in memory full of NaNs.
func TestBuffersMayHoldAnything(t *testing.T) {
	for _, c := range cases {
		clean, poisoned := NewCPUThreads(1), NewCPUThreads(1)
		poisoned.pool.poison = true
		for _, s := range strategies {
			loss, grads := c.gradient(t, clean, s, c.points())
			again, same := c.gradient(t, poisoned, s, c.points())
			require.Equal(t, loss, again, c.name)
			require.Equal(t, grads, same, c.name)
		}
	}
}

// TestEveryRuleIsTested holds the table of cases to the table of rules.
func TestEveryRuleIsTested(t *testing.T) {
	tested := map[Op]bool{}
	for _, c := range cases {
		tested[c.op] = true
	}
	// The gradients of gradients are tested by second derivatives.
	second := map[Op]bool{OpReluGrad: true, OpTanhGrad: true, OpSigmoidGrad: true, OpGeluGrad: true, OpClampGrad: true,
		OpSoftmaxGrad: true, OpNormalizeGrad: true, OpLogSoftmaxGrad: true, OpConv2dDX: true, OpConv2dDW: true, OpPoolPut: true, OpCrossEntropyGrad: true, OpProdGrad: true, OpPoolTake: true,
		OpAvgPoolPut: true, OpEmbeddingBackward: true, OpEmbeddingBagBackward: true, OpEmbeddingBagDFactors: true, OpAffineGridBackward: true, OpQuantizeBackward: true,
		OpGridSampleDX: true, OpGridSampleDGrid: true}
	for op := range opCount {
		require.NotEmpty(t, ops[op].name, "operation %d has no row", op)
		require.NotNil(t, ops[op].infer, op.String())
		require.True(t, op == OpReshape || cpuKernels[op] != nil, "%v has no loop", op)
		if rules[op].defined() && !second[op] {
			require.True(t, tested[op], "the rule of %v has no case", op)
		}
	}
}
