package plans_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// errNoRow is where this processor has not got a row.
var errNoRow = errors.New("no such row here")

// The gradient of weight_only_linear has weights and their gradients from
// dequantize, for the zero points that the forward takes: any integers.
func TestUncheckedZeroPointsAreThoseOfWeightOnlyLinear(t *testing.T) {
	const k, group = 70, 32
	codes, zeros, scales := tensor.New(tensor.S8, 1, k), tensor.Of([]int64{-129, 1 << 40, 16777217}, 1, 3), tensor.Of([]float32{0.5, 0.25, 3}, 1, 3)
	for i := range k {
		tensor.Slice[int8](codes)[i] = int8(i*37 - 128)
	}
	keys := fmt.Sprintf(" zero_point=i64 group_size=%d qmin=-128 qmax=127", group)
	run := func(row, text string, args ...tensor.View) error {
		plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Row: row})
		if err != nil {
			requireKind(t, err, plans.Unsupported)
			return errNoRow
		}
		return plan.Run(0, make([]byte, plan.WorkspaceSize()), args)
	}
	want := make([]float32, k)
	for i := range want { // a row of the identity picks one weight
		x, y := tensor.New(tensor.F32, 1, k), tensor.New(tensor.F32, 1, 1)
		tensor.Slice[float32](x)[i] = 1
		require.NoError(t, run("go", "weight_only_linear x=f32[1,70] weight=s8[1,70] weight_zero_point=i64 bias=none group_size=32", x, codes, scales, zeros, tensor.View{}, y))
		want[i] = tensor.Slice[float32](y)[0]
	}
	for _, row := range rowsOf("dequantize_per_group") {
		y := tensor.Of(append([]float32(nil), want...), 1, k)
		err := run(row, "dequantize_per_group q=s8[1,70] y=f32 check_zero_point=false"+keys, codes, scales, zeros, y)
		if err == errNoRow {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, tensor.Slice[float32](y), row)
		err = run(row, "dequantize_per_group q=s8[1,70] y=f32"+keys, codes, scales, zeros, y)
		require.ErrorContains(t, err, "zero_point is -129 at position 0; want -128 to 127")
	}
	for _, row := range rowsOf("dequantize_per_group_backward") {
		dy, ds := tensor.New(tensor.F32, 1, k), tensor.New(tensor.F32, 1, 3)
		for i := range 3 {
			tensor.Slice[float32](dy)[i*group] = 1
		}
		err := run(row, "dequantize_per_group_backward grad_output=f32[1,70] grad_input=none grad_scale=f32 check_zero_point=false"+keys, dy, codes, scales, zeros, tensor.View{}, ds, tensor.View{})
		if err == errNoRow {
			continue
		}
		require.NoError(t, err)
		for i, d := range tensor.Slice[float32](ds) {
			require.Equal(t, want[i*group], d*tensor.Slice[float32](scales)[i], row)
		}
	}
	_, err := plans.Parse("dequantize_per_tensor q=i32[4] y=f32 qmin=0 qmax=7 check_zero_point=false")
	require.ErrorContains(t, err, "check_zero_point is false; want true with i32 codes")
}
