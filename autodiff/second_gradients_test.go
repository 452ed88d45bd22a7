package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
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
		v, err := above.leafVar(above.wrap(xi.v))
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

// TestGradientsOfParts adds up the gradients of parts that overlap as if zeros lay around each of them, down to the
// sign of a 0.
func TestGradientsOfParts(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16} {
		gradientsOfParts(t, New(NewCPU(), None{}), d)
		gradientsOfParts(t, New(New(NewCPU(), None{}), None{}), d)
	}
}

func gradientsOfParts[B Backend](t *testing.T, ad *Autodiff[B, None], d tensor.DType) {
	type float = Float[*Autodiff[B, None]]
	least := math.Copysign(0, -1)
	seed := Floats(ad, []float64{least, 1, least, least, 1e-4, least}, 3, 2).Cast(d)
	all := []func(x float) float{
		func(x float) float { return x.Slice(1, 0, 2) },
		func(x float) float { return x.Slice(1, 1, 3) },
		func(x float) float { return x.Slice(1, 3, 5) },
		func(x float) float { return x.SliceStep(1, 1, 5, 2) },
		func(x float) float { return x.Flip(1).Slice(1, 0, 2) },
		func(x float) float { return x.MulScalar(least) },
	}
	gradient := func(parts ...func(x float) float) []float64 {
		x := ad.Track(Ones(ad, 3, 6).Cast(d))
		var loss float
		for i, part := range parts {
			y := part(x)
			if y.Shape()[1] == 2 {
				y = y.Mul(seed)
			}
			y = y.Sum()
			if i > 0 {
				y = loss.Add(y)
			}
			loss = y
		}
		g, err := ad.Backward(loss)
		require.NoError(t, err)
		grad, _ := ad.Grad(x, g)
		return list(t, grad)
	}
	for order := range len(all) * len(all) * len(all) {
		var parts []func(x float) float
		for k := order; len(parts) < 3; k /= len(all) {
			parts = append(parts, all[k%len(all)])
		}
		want := gradient(parts[2]) // the last part's gradient comes first
		for i := 1; i >= 0; i-- {
			for j, v := range gradient(parts[i]) {
				want[j] += v
				if d != tensor.F64 { // sums of 16 bits are of f32, too
					want[j] = float64(float32(want[j]))
				}
			}
		}
		want = list(t, Floats(NewCPU(), want).Cast(d))
		got := gradient(parts...)
		for j := range want {
			require.Equal(t, math.Float64bits(want[j]), math.Float64bits(got[j]), "order %d of %v: %v, not %v", order, d, got, want)
		}
	}
}
