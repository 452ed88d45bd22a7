package plans_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Values of inputs that are checked before anything is written.
func TestBadValues(t *testing.T) {
	for _, tc := range []struct {
		text, arg string
		bad       []float64
		want      string
	}{
		{"embedding weight=f32[5,3] indices=i32[2,4]", "indices", []float64{-1, 5, -1 << 31}, `^is %v at position 7; want 0 to 4$`},
		{"embedding weight=f32[5,3] indices=i64[2,4]", "indices", []float64{-1, 5, 1 << 40}, `^is %v at position 7; want 0 to 4$`},
		{"embedding_renorm weight=f32[5,3] indices=i64[2,4] max_norm=1", "indices", []float64{-1, 5}, `^is %v at position 7; want 0 to 4$`},
		{"embedding_renorm weight=f32[5,0] indices=i64[2,4] max_norm=1", "indices", []float64{-1, 5}, `^is %v at position 7; want 0 to 4$`},
		{"embedding_bag weight=f32[5,3] indices=i32[2,4]", "indices", []float64{-1, 5}, `^is %v at position 7; want 0 to 4$`},
		{"embedding_bag weight=f32[5,3] indices=i32[9] offsets=i64[8]", "offsets", []float64{-1, 10}, `^is %v at position 7; want \d to 9$`},
		{"quantize_per_channel x=f32[2,8] q=s8 axis=1 qmin=-8 qmax=7", "zero_point", []float64{-9, 8, 1 << 30}, `^is %v at position 7; want -8 to 7$`},
		{"quantize_per_channel_backward grad_output=f32[2,8] zero_point=i64 axis=1 qmin=-8 qmax=7", "zero_point", []float64{-9, 1 << 40}, `^is %v at position 7; want -8 to 7$`},
		{"dequantize_per_token q=u8[2,4,3] y=f32 zero_point=u8 qmin=1 qmax=9", "zero_point", []float64{0, 10}, `^is %v at position 7; want 1 to 9$`},
		{"dequantize_per_group_backward grad_output=f32[2,8] zero_point=s8 group_size=2 qmin=-8 qmax=7", "zero_point", []float64{-9, 8}, `^is %v at position 7; want -8 to 7$`},
		{"fake_quantize_per_group x=f16[2,8] group_size=2 qmin=-8 qmax=7", "zero_point", []float64{-9, 8}, `^is %v at position 7; want -8 to 7$`},
		{"fake_quantize_per_block_backward grad_output=f64[2,8] block_size=[1,2] qmin=-8 qmax=7", "zero_point", []float64{-9, 8}, `^is %v at position 7; want -8 to 7$`},
	} {
		for _, bad := range tc.bad {
			c := caseOf(t, testcase.Small, tc.text)
			a := c.Arg(tc.arg)
			good := a.Before
			size := int(a.DType.Size())
			a.Before = testcase.Encode(bytes.Clone(good)[:7*size], a.DType, bad)
			for _, layout := range []testcase.Layout{nil, testcase.Sliced, testcase.Reversed} {
				plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 1})
				require.NoError(t, err)
				placed, workspace, free := c.Place(plan, testcase.Options{Layout: layout})
				newRefusal(t, c, placed, plan, workspace).expect(placed.Views(), plans.InvalidArgument, tc.arg, fmt.Sprintf(tc.want, int64(bad)), "bad value")
				free()
			}
		}
	}
}

// No index names a row of an empty table.
func TestIndicesOfNoRows(t *testing.T) {
	c := caseOf(t, testcase.Small, "embedding weight=f32[0,3] indices=i32[2]")
	_, err := c.Run(testcase.Options{})
	require.Regexp(t, `^is -?\d+ at position 0; the table has no rows$`, requireKind(t, err, plans.InvalidArgument).Msg)
}
