package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// TestLSTMCellIsItsArithmetic compares the operations of a cell and their gradients with what they stand for, bit for
// bit, at zeros of either sign and at infinities too.
func TestLSTMCellIsItsArithmetic(t *testing.T) {
	splitFinely(t)
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		for _, hidden := range []int{1, 3, 70} {
			e := newEngine(NewCPUThreads(2), None{})
			leaf := func(seed uint64, extent int) dyn {
				x := Normal[Backend](e, seed, 0, 2, 3, extent).Cast(d)
				for i, v := range []float64{math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 0} {
					x = x.SliceAssign(1, i*extent/4, Full[Backend](e, v, 3, 1).Cast(d))
				}
				v, err := e.leafVar(x.v)
				require.NoError(t, err)
				return dyn{Tensor[Backend]{be: e, v: v}}
			}
			x, c := leaf(1, 4*hidden), leaf(2, hidden)
			seed := Normal(e.inner, 3, 0, 1, 2*3, hidden).Cast(d)
			negativeZero := Full(e.inner, math.Copysign(0, -1), 1, hidden).Cast(d)
			seed = seed.SliceAssign(0, 1, negativeZero).SliceAssign(0, 4, negativeZero)
			bits := func(y ...dyn) (all [][]float64) {
				both := Cat(0, y[0], y[1:]...)
				values, err := both.Float64s()
				require.NoError(t, err)
				g, err := e.backward(both.v, backwardOptions{seed: seed.v})
				require.NoError(t, err)
				for _, of := range []dyn{x, c} {
					v, err := dyn{Tensor[Backend]{be: e.inner, v: g.find(nodeOf(of.v).id).v}}.Float64s()
					require.NoError(t, err)
					all = append(all, v)
				}
				return append(all, values)
			}
			h, next := dyn{x.run(OpLSTMGates, nil)}.cell(c)
			got := bits(h, next)
			gate := x.Chunk(-1, 4)
			next = gate[1].Sigmoid().Mul(c).Add(gate[0].Sigmoid().Mul(gate[2].Tanh()))
			want := bits(gate[3].Sigmoid().Mul(next.Tanh()), next)
			for i := range want {
				for j := range want[i] {
					require.Equal(t, math.Float64bits(want[i][j]), math.Float64bits(got[i][j]), "%v, %d hidden, tensor %d, element %d: %v and %v", d, hidden, i, j, want[i][j], got[i][j])
				}
			}
		}
	}
}

// TestLSTMRules asks for shapes that fit, and takes states of one dimension.
func TestLSTMRules(t *testing.T) {
	be := Backend(NewCPU())
	of := func(shape ...int) Tensor[Backend] { return Zeros(be, shape...).Tensor }
	for _, c := range []struct {
		got  Tensor[Backend]
		want string
	}{
		{of().run(OpLSTMGates, nil), "the gates are f32[]; want [..., 4*hidden]"},
		{of(2, 3).run(OpLSTMGates, nil), "the gates are f32[2, 3]; want [..., 4*hidden]"},
		{of(1, 4).run(OpLSTMGatesGrad, nil, of(2, 4)), "inputs are f32[1, 4] and f32[2, 4]; want one shape"},
		{of(4).run(OpLSTMCell, nil, of()), "the gates are f32[4] and c is f32[]; want [..., 4*hidden] and [..., hidden]"},
		{of().run(OpLSTMCell, nil, of()), "the gates are f32[] and c is f32[]; want [..., 4*hidden] and [..., hidden]"},
		{of(2, 8).run(OpLSTMHidden, nil, of(2, 3)), "the gates are f32[2, 8] and c is f32[2, 3]; want"},
		{of(1, 2).run(OpLSTMCellGrad, nil, of(2, 8), of(2, 2)), "the gradient is f32[1, 2]; want f32[2, 2]"},
	} {
		require.ErrorContains(t, c.got.Err(), c.want)
	}
	require.NoError(t, of(4).run(OpLSTMGates, nil).Err())
	require.NoError(t, of(4).run(OpLSTMCell, nil, of(1)).Err())
}
