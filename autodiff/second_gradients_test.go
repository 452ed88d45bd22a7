package autodiff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecondDerivatives differentiates the gradients themselves: Autodiff
// over Autodiff, against finite differences of the first gradients.
func TestSecondDerivatives(t *testing.T) {
	cpu := NewCPUThreads(1)
	for _, c := range cases {
		if c.once || c.estimate || c.want != nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.compareSecond(t, cpu) })
		t.Run(c.name+", squared", func(t *testing.T) { c.squared().compareSecond(t, cpu) })
	}
}

// compareSecond takes the sum of the first gradients' squares for a loss of its
// own, and compares its gradients with finite differences.
func (c *testCase) compareSecond(t *testing.T, cpu *CPU) {
	points := c.points()
	squares := func() float64 {
		_, grads := c.gradient(t, cpu, None{}, points)
		s := 0.0
		for _, g := range grads {
			for _, v := range g {
				s += v * v
			}
		}
		return s
	}
	second := c.second(t, cpu, None{}, None{}, points)
	for i := range points {
		p := append([]float64(nil), points[i]...)
		points[i] = p
		for j := range p {
			d := difference(&p[j], 1e-3, squares)
			if !near(d, second[i][j], 1e-7) {
				t.Errorf("input %d, element %d: second derivative %v, finite difference %v", i, j, second[i][j], d)
			}
		}
	}
}

// second returns the gradients of the sum of the gradients' squares, with a
// strategy for each level.
func (c *testCase) second(t *testing.T, cpu *CPU, s, higher Strategy, points [][]float64) (grads [][]float64) {
	below := newEngine(cpu, s)
	above := newEngine(below, higher)
	x := c.tracked(t, below, points)
	var top []dyn
	for _, xi := range x {
		v, err := above.leafVar(above.wrap(xi.v, nil))
		require.NoError(t, err)
		top = append(top, dyn{Tensor[Backend]{be: above, v: v}})
	}
	y := c.result(top, above)
	require.NoError(t, y.Err())
	g, err := above.backward(y.v, backwardOptions{})
	require.NoError(t, err)
	var loss dyn
	for i, xi := range top {
		gi := dyn{Tensor[Backend]{be: below, v: g.find(nodeOf(xi.v).id).v}}.PowScalar(2).Sum()
		if i == 0 {
			loss = gi
		} else {
			loss = loss.Add(gi)
		}
	}
	require.NoError(t, loss.Err())
	if nodeOf(loss.v) == nil { // linear in everything
		for _, p := range points {
			grads = append(grads, make([]float64, len(p)))
		}
		return grads
	}
	g2, err := below.backward(loss.v, backwardOptions{})
	require.NoError(t, err)
	for i, xi := range x {
		e := g2.find(nodeOf(xi.v).id)
		if e == nil {
			grads = append(grads, make([]float64, len(points[i])))
			continue
		}
		v, err := dyn{Tensor[Backend]{be: cpu, v: e.v}}.Float64s()
		require.NoError(t, err)
		grads = append(grads, v)
	}
	return grads
}
