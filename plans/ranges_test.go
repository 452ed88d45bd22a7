package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// choose runs choose_qparams_per_tensor.
func choose(t *testing.T, x tensor.View, keys string) (scale float32, zero int32) {
	t.Helper()
	p, err := plans.Parse(fmt.Sprintf("choose_qparams_per_tensor x=%s zero_point=i32 %s", &x, keys))
	require.NoError(t, err)
	plan, err := plans.Select(0, p, plans.Preference{Threads: 3})
	require.NoError(t, err)
	s, z := tensor.New(tensor.F32), tensor.New(tensor.I32)
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{x, s, z}))
	return tensor.Slice[float32](s)[0], tensor.Slice[int32](z)[0]
}

// The smallest and the largest element count wherever they stand, in groups
// of one block and of several.
func TestRangesOfGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range lengths[1:] {
		for range 5 {
			x := tensor.New(tensor.F32, n)
			v := tensor.Slice[float32](x)
			for i := range v {
				v[i] = float32(r.Float64() - 0.5)
			}
			v[r.IntN(len(v))] = -3.5
			lo, hi := float32(-3.5), float32(0)
			if i := r.IntN(len(v)); v[i] != lo {
				v[i] = 7.25
				hi = 7.25
			} else {
				for _, e := range v {
					hi = max(hi, e)
				}
			}
			s, z := choose(t, x, "symmetric=false qmin=-128 qmax=127")
			want := (hi - lo) / 255
			require.Equal(t, want, s)
			require.Equal(t, int32(math.RoundToEven(float64(-128-lo/want))), z)
			s, z = choose(t, x, "symmetric=true qmin=-127 qmax=127")
			require.Equal(t, max(-lo, hi)/127, s)
			require.Zero(t, z)
			v[r.IntN(len(v))] = float32(math.NaN())
			s, _ = choose(t, x, "symmetric=false qmin=-128 qmax=127")
			require.True(t, s != s)
		}
	}
	zeros := tensor.New(tensor.F32, 70000)
	s, z := choose(t, zeros, "symmetric=false qmin=-128 qmax=127")
	require.Equal(t, float32(1), s)
	require.Equal(t, int32(-128), z)
}

// Sums of products of codes are exact integers, also beyond 32 bits.
func TestIntegerSumsAreExact(t *testing.T) {
	const k = 200_000
	x, w := tensor.New(tensor.S8, 1, k), tensor.New(tensor.S8, 2, k)
	for i := range k {
		tensor.Slice[int8](x)[i] = -128
		tensor.Slice[int8](w)[i], tensor.Slice[int8](w)[k+i] = -128, 127
	}
	for _, row := range rowsOf("quantized_linear") {
		p := plans.MustParse(fmt.Sprintf("quantized_linear x=%s weight=%s bias=none y=f64", &x, &w))
		plan, err := plans.Select(0, p, plans.Preference{Row: row})
		if err != nil {
			requireKind(t, err, plans.Unsupported)
			continue
		}
		y := tensor.New(tensor.F64, 1, 2)
		args := []tensor.View{x, tensor.Of([]float32{1}), w, tensor.Of([]float32{1, 0.5}), {}, y}
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
		require.Equal(t, []float64{k * 128 * 128, -k * 128 * 127 / 2}, tensor.Slice[float64](y), row)
	}
}

// A norm that equals max_norm is not above it; each row that occurs is scaled
// once.
func TestRenormScalesWhatExceeds(t *testing.T) {
	weight := tensor.Of([]float64{3, 4, 6, 8, 6, 8, 0, 0}, 4, 2)
	index := tensor.Of([]int64{1, 0, 1, 3})
	p := plans.MustParse("embedding_renorm weight=f64[4,2] indices=i64[4] max_norm=5")
	plan, err := plans.Select(0, p, plans.Preference{})
	require.NoError(t, err)
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{weight, index}))
	norm := 10.0
	factor := 5 / (norm + 1e-7)
	require.Equal(t, []float64{3, 4, 6 * factor, 8 * factor, 6, 8, 0, 0}, tensor.Slice[float64](weight))
}

// Coordinates of a grid are spread evenly, by both rules.
func TestAffineGridSpreads(t *testing.T) {
	theta := tensor.Of([]float64{1, 0, 0, 0, 1, 0}, 1, 2, 3)
	for corners, want := range map[bool][]float64{true: {-1, -0.5, 0, 0.5, 1}, false: {-0.8, -0.4, 0, 0.4, 0.8}} {
		p := plans.MustParse(fmt.Sprintf("affine_grid theta=f64[1,2,3] grid=f64[1,1,5,2] align_corners=%v", corners))
		plan, err := plans.Select(0, p, plans.Preference{})
		require.NoError(t, err)
		grid := tensor.New(tensor.F64, 1, 1, 5, 2)
		require.NoError(t, plan.Run(0, nil, []tensor.View{theta, grid}))
		for i, x := range want {
			require.InDelta(t, x, tensor.Slice[float64](grid)[2*i], 1e-15)
			require.Zero(t, tensor.Slice[float64](grid)[2*i+1])
		}
	}
}

// At pixel centres the image comes back, by both rules, and border's
// derivative is 0 at and beyond the edges.
func TestGridSampleAtPixels(t *testing.T) {
	image := tensor.Of([]float64{1, 2, 3, 4}, 1, 1, 1, 4)
	for _, corners := range []bool{true, false} {
		grid := tensor.New(tensor.F64, 1, 1, 4, 2)
		for i := range 4 {
			x := float64(i)*2/3 - 1
			if !corners {
				x = float64(2*i+1)/4 - 1
			}
			tensor.Slice[float64](grid)[2*i] = x
		}
		keys := fmt.Sprintf(" input=f64[1,1,1,4] grid=f64[1,1,4,2] align_corners=%v padding_mode=border", corners)
		for _, mode := range []string{"nearest", "bilinear", "bicubic"} {
			all := tensors{"input": image, "grid": grid}
			perform(t, "grid_sample"+keys+" mode="+mode, all)
			for i, v := range []float64{1, 2, 3, 4} {
				require.InDelta(t, v, all.f64("y")[i], 1e-14)
			}
		}
		all := tensors{"input": image, "grid": grid, "grad_output": tensor.Of([]float64{1, 1, 1, 1}, 1, 1, 1, 4)}
		tensor.Slice[float64](grid)[0], tensor.Slice[float64](grid)[6] = -1, 1 // coordinates 0 and 3, or -0.5 and 3.5
		perform(t, "grid_sample_backward grad_output=f64[1,1,1,4]"+keys, all)
		dgrid := all.f64("grad_grid")
		require.Zero(t, dgrid[0])
		require.Zero(t, dgrid[6])
		require.NotZero(t, dgrid[2])
	}
}

// What embedding_backward leaves out, divides and adds to.
func TestEmbeddingBackwardByHand(t *testing.T) {
	index := tensor.Of([]int64{2, 0, 2, -1, 1, 9, 2, 0})
	dy := tensor.Of([]float64{1, 2, 4, 8, 16, 32, 64, 128}, 8, 1)
	for keys, want := range map[string][]float64{
		"":                         {130, 16, 69, 0},
		" padding_idx=2":           {130, 16, 0, 0},
		" scale_grad_by_freq=true": {65, 16, 23, 0},
		" accumulate=true":         {131, 17, 70, 1},
		" accumulate=true padding_idx=0 scale_grad_by_freq=true": {1, 17, 24, 1},
	} {
		dw := tensor.Of([]float64{1, 1, 1, 1}, 4, 1)
		perform(t, "embedding_backward grad_output=f64[8,1] indices=i64[8] grad_weight=f64[4,1]"+keys, tensors{"grad_output": dy, "indices": index, "grad_weight": dw})
		require.Equal(t, want, tensor.Slice[float64](dw), keys)
	}
}

// A backward takes the range that its forward takes, whatever type the codes and their
// gradient have: codes of s16 have one in bf16, too.
func TestBackwardTakesTheRangeOfItsForward(t *testing.T) {
	takes := func(problem string) bool {
		_, err := plans.Parse(problem)
		return err == nil
	}
	for _, x := range []string{"f32", "f64", "f16", "bf16"} {
		for _, q := range []tensor.DType{tensor.S8, tensor.U4, tensor.S16, tensor.U16, tensor.I32, tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
			least, most := q.WholeRange()
			bounds := fmt.Sprintf("qmin=%d qmax=%d", least, most)
			if takes(fmt.Sprintf("quantize_per_tensor x=%s[3] q=%s %s", x, q, bounds)) {
				for _, dy := range []string{"f32", "f64", "f16", "bf16"} {
					backward := fmt.Sprintf("quantize_per_tensor_backward grad_output=%s[3] x=%s %s", dy, x, bounds)
					require.True(t, takes(backward), backward)
				}
			}
		}
	}
}

// What an f32 rounds to 2^31 is inside of bounds up to 2^31 - 1, which are an f32 then, and 2^31 + 256 is not.
func TestTheLargestBoundOfGradients(t *testing.T) {
	all := tensors{
		"grad_output": tensor.Of([]float32{1, 1, 1, 1}), "scale": tensor.Of([]float32{1}),
		"x": tensor.Of([]float32{1 << 31, 1<<31 + 256, -1 << 31, -1<<31 - 256}),
	}
	perform(t, "quantize_per_tensor_backward grad_output=f32[4] zero_point=none qmin=-2147483648 qmax=2147483647", all)
	require.Equal(t, []float32{1, 0, 1, 0}, tensor.Slice[float32](all["grad_input"]))
}

// So does dequantize's, also where the gradient is of the codes alone and they
// are left out.
func TestBackwardWithoutCodesTakesTheRangeOfItsForward(t *testing.T) {
	takes := func(problem string) bool {
		_, err := plans.Parse(problem)
		return err == nil
	}
	for _, y := range []string{"f32", "f64", "f16", "bf16"} {
		for _, q := range []tensor.DType{tensor.S8, tensor.U8, tensor.S4, tensor.U4, tensor.S16, tensor.U16, tensor.I32, tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.F8E4M3, tensor.F8E5M2} {
			least, most := q.WholeRange()
			for _, bounds := range [][2]int64{{least, most}, {least - 1, most}, {least, most + 1}, {-1 << 31, 1<<31 - 1}, {-1 << 24, 1<<24 + 1}, {-1 << 24, 1<<24 + 2}} {
				keys := fmt.Sprintf("zero_point=none qmin=%d qmax=%d", bounds[0], bounds[1])
				forward := takes(fmt.Sprintf("dequantize_per_tensor q=%s[3] y=%s %s", q, y, keys))
				backward := "dequantize_per_tensor_backward grad_output=" + y + "[3] " + keys + " q="
				require.Equal(t, forward, takes(backward+q.String()), "y=%s q=%s %s", y, q, keys)
				if forward {
					require.True(t, takes(backward+"none"), "y=%s q=%s %s", y, q, keys)
				}
			}
		}
		beyond := "dequantize_per_tensor_backward grad_output=" + y + "[3] q=none zero_point=none qmin=0 qmax=9007199254740993"
		require.False(t, takes(beyond), beyond)
	}
}

// Where nothing is written nothing is done, however many empty rows there are, and no workspace is needed.
func TestManyEmptyRows(t *testing.T) {
	for _, text := range []string{
		"weight_only_linear x=f32[1099511627776,0] weight=s8[0,0] bias=none group_size=1",
		"quantized_linear x=s8[1099511627776,0] weight=s8[0,0] bias=none",
		"matmul input=f32[1099511627776,0] other=f32[0,0]",
		"grid_sample input=f32[1,2,3,3,3] grid=f32[1,1099511627776,0,5,3]",
		"grid_sample_backward grad_output=f32[1,2,1099511627776,0] input=f32[1,2,3,3] grid=f32[1,1099511627776,0,2] mode=bicubic",
		"quantize_per_token x=f32[1099511627776,0,3] zero_point=none q=s8 qmin=0 qmax=7",
		"embedding_renorm weight=f32[1099511627776,0] indices=i64[1] max_norm=1",
		"embedding_backward grad_output=f32[1,0] indices=i64[1] grad_weight=f32[1099511627776,0]",
		"embedding_bag weight=f32[1,0] indices=i64[1099511627776,0] mode=sum",
		"embedding_bag_backward grad_output=bf16[2,0] indices=i64[2,1] chosen=i64 grad_weight=bf16[1099511627776,0] mode=max",
		"embedding_bag_backward grad_output=f32[1,8589934592] indices=i64[1,1] grad_weight=f32[0,8589934592]",
		"weight_only_linear x=f32[0,1099511627776] weight=s8[2,1099511627776] bias=none group_size=1099511627776",
	} {
		plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{})
		require.NoError(t, err)
		var args []tensor.View
		written := int64(0)
		for _, a := range plans.Describe(plan).Args {
			dtype, _ := tensor.ParseDType(a.DType)
			if a.Present && a.Direction != "in" {
				written += tensor.NumElements(a.Shape)
			}
			v := tensor.View{DType: dtype}
			if a.Present {
				v = tensor.New(dtype, 1)
				v.Shape, v.Strides = a.Shape, make([]int64, len(a.Shape))
				if n := tensor.NumElements(a.Shape); a.Direction == "out" && n > 0 {
					v = tensor.New(dtype, a.Shape...)
				}
			}
			args = append(args, v)
		}
		if written == 0 {
			require.Zero(t, plan.WorkspaceSize(), text)
		}
		done := make(chan error, 1)
		workspace := tensor.Bytes(tensor.New(tensor.I64, plan.WorkspaceSize()/8))
		go func() { done <- plan.Run(0, workspace, args) }()
		select {
		case err := <-done:
			require.NoError(t, err, text)
		case <-time.After(10 * time.Second):
			t.Fatalf("still runs: %s", text)
		}
	}
}
