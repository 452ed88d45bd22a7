package plans_test

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// A plan that runs on one placement after another, alike or not, gives the definition's bits each time.
func TestAgain(t *testing.T) {
	again := map[string]int{}
	forEachOp(t, testcase.Small, 20, func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		plan, err := plans.Select(0, c.Problem, plans.Preference{Row: anyRow(r, c), Threads: 1})
		require.NoError(t, err)
		c.ExpandParams(r)
		want := defined(t, c)
		defer plans.SetBeforeAgain(func() { again[c.Op.Name]++ })()
		mixed := testcase.Mixed(r)
		for _, layout := range []testcase.Layout{nil, nil, mixed, mixed, testcase.Sliced, testcase.Sliced, nil} {
			placed, workspace, free := c.Place(plan, testcase.Options{Layout: layout})
			for range 2 {
				placed.Reset(c)
				require.NoError(t, plan.Run(0, workspace, placed.Views()), c.Text)
				require.NoError(t, c.Compare(placed.Outputs(c), want), c.Text)
			}
			free()
		}
	})
	for _, op := range []string{"quantize_per_tensor", "fake_quantize_per_channel_backward", "choose_qparams_per_token", "dynamic_quantize_per_token", "dynamic_quantize_per_channel", "embedding", "embedding_backward", "grid_sample", "grid_sample_backward", "affine_grid", "affine_grid_backward", "matmul", "weight_only_linear"} {
		assert.NotZero(t, again[op], op)
	}
}

// The caches of some machines do not hold what a plan that keeps calls may have: the second run followed null pointers.
func TestAgainFromMemory(t *testing.T) {
	defer plans.SetStreamFrom(1)()
	for _, strands := range []bool{false, true} {
		defer plans.SetReadsStrands(strands)()
		for _, text := range []string{
			"quantize_per_tensor x=f32[8,1025] q=s8 qmin=-128 qmax=127",
			"fake_quantize_per_channel_backward grad_output=f32[4,8192] axis=0 qmin=-128 qmax=127",
		} {
			c := caseOf(t, testcase.Large, text)
			want := defined(t, c)
			plan, err := plans.Select(0, c.Problem, plans.Preference{})
			require.NoError(t, err)
			placed, workspace, free := c.Place(plan, testcase.Options{})
			defer free()
			for range 2 {
				placed.Reset(c)
				require.NoError(t, plan.Run(0, workspace, placed.Views()), text)
				require.NoError(t, c.Compare(placed.Outputs(c), want), text)
			}
		}
	}
}

// A result in place takes another way than one that is not, in rows that do not end with a register: it was computed by
// the definition after one that was not.
func TestAgainInPlace(t *testing.T) {
	again := 0
	defer plans.SetBeforeAgain(func() { again++ })()
	plan, err := plans.Select(0, plans.MustParse("dequantize_per_token_backward grad_output=f32[8,33] q=none zero_point=none qmin=-128 qmax=127"), plans.Preference{Threads: 1})
	require.NoError(t, err)
	dy, scale, dx := noise(0, tensor.F32, 8, 33), noise(0, tensor.F32, 8), tensor.New(tensor.F32, 8, 33)
	into := func(out tensor.View) {
		require.NoError(t, plan.Run(0, nil, []tensor.View{dy, {}, scale, {}, out, {}, {}}))
	}
	into(dx)
	into(dx)
	require.Equal(t, 1, again)
	into(dy)
	require.Equal(t, 1, again)
	require.Equal(t, tensor.Bytes(dx), tensor.Bytes(dy))
	into(dy)
	require.Equal(t, 2, again)
}

// What is wrong with where tensors are is found in a run that lays nothing out, too.
func TestWrongAgain(t *testing.T) {
	again := 0
	defer plans.SetBeforeAgain(func() { again++ })()
	problem := plans.MustParse("fake_quantize_per_channel x=f32[2,64] axis=0 qmin=-128 qmax=127")
	plan, err := plans.Select(0, problem, plans.Preference{Threads: 1})
	require.NoError(t, err)
	memory, zeros := make([]float32, 384), []int32{0, 0}
	scale, y := []float32{1, 2}, memory[256:384]
	x := func() tensor.View { // rows that lie backwards
		v := within(memory, 128, []int64{2, 64}, []int64{-64, 1})
		v.Low, v.High = -256, 256
		return v
	}
	good := func() []tensor.View {
		return []tensor.View{x(), tensor.Of(scale), tensor.Of(zeros), tensor.Of(y, 2, 64)}
	}
	for wrong, change := range map[string]func(v []tensor.View){
		"y overlaps x":          func(v []tensor.View) { v[3] = tensor.Of(memory[:128], 2, 64) },
		"is 300":                func(v []tensor.View) { v[2] = tensor.Of([]int32{0, 300}) },
		"null data":             func(v []tensor.View) { v[0].Data = nil },
		"multiple":              func(v []tensor.View) { v[0].Data, v[0].Low, v[0].High = unsafe.Add(v[0].Data, 2), 0, 0 },
		"which has [-256, 252)": func(v []tensor.View) { v[0].High = 252 },
		"which has [-252, 256)": func(v []tensor.View) { v[0].Low = -252 },
		"which has [0, 256)":    func(v []tensor.View) { v[0].Low = 0 },
		"which has [-256, 0)":   func(v []tensor.View) { v[0].High = 0 },
		"read-only":             func(v []tensor.View) { v[3].ReadOnly = true },
		"x has shape [64, 2]":   func(v []tensor.View) { v[0] = tensor.Of(memory[:128], 64, 2) },
		"y has shape [2]; wan":  func(v []tensor.View) { v[3].Shape, v[3].High = []int64{2}, 0 },
		"y is i32[2, 64]":       func(v []tensor.View) { v[3].DType = tensor.I32 },
		"is missing":            func(v []tensor.View) { v[1] = tensor.View{} },
		"x has 0 strides":       func(v []tensor.View) { v[0].Strides = []int64{} },
		"y has 0 strides":       func(v []tensor.View) { v[3].Strides = []int64{} },
		"elements may over":     func(v []tensor.View) { v[3].Strides = []int64{1, 1} },
		"is on cuda:0":          func(v []tensor.View) { v[0].Device = tensor.Device{Kind: tensor.CUDA} },
	} {
		for range 2 {
			require.NoError(t, plan.Run(0, nil, good()))
		}
		views := good()
		change(views)
		assert.ErrorContains(t, plan.Run(0, nil, views), wrong)
	}
	assert.Greater(t, again, 10)
	require.NoError(t, plan.Run(0, nil, good()))
	assert.ErrorContains(t, plan.Run(0, nil, good()[:3]), "has 3 tensors; want 4")
	require.NoError(t, plan.Run(0, nil, good()))
	assert.ErrorContains(t, plan.Run(0, nil, append(good(), tensor.View{})), "has 5 tensors; want 4")
}

// An output that lies on an input is found after runs that copied the input first.
func TestOverlapAfterCopies(t *testing.T) {
	plan, err := plans.Select(0, plans.MustParse("embedding_backward grad_output=f32[4,8] indices=i64[4] grad_weight=f32[4,8]"), plans.Preference{Threads: 1})
	require.NoError(t, err)
	memory, indices, workspace := make([]float32, 64), tensor.New(tensor.I64, 4), make([]byte, plan.WorkspaceSize())
	for range 2 {
		apart := within(memory, 0, []int64{4, 8}, []int64{16, 2})
		require.NoError(t, plan.Run(0, workspace, []tensor.View{apart, indices, tensor.New(tensor.F32, 4, 8)}))
	}
	args := []tensor.View{within(memory, 0, []int64{4, 8}, nil), indices, tensor.Of(memory[16:48], 4, 8)}
	require.ErrorContains(t, plan.Run(0, workspace, args), "grad_weight overlaps grad_output")
}

// So is what is wrong with the workspace: one that was too small was written beyond its end.
func TestWrongWorkspaceAgain(t *testing.T) {
	again := 0
	defer plans.SetBeforeAgain(func() { again++ })()
	plan, err := plans.Select(0, plans.MustParse("embedding_backward grad_output=f32[640,8] indices=i64[640] grad_weight=f32[16,8]"), plans.Preference{Threads: 1})
	require.NoError(t, err)
	grad, n := tensor.New(tensor.F32, 640, 8), plan.WorkspaceSize()
	args := []tensor.View{grad, tensor.New(tensor.I64, 640), tensor.New(tensor.F32, 16, 8)}
	workspace := tensor.Bytes(tensor.New(tensor.I64, n/8+1))
	for wrong, of := range map[string][]byte{
		"bytes; want":             workspace[:n-1],
		"multiple of 8":           workspace[4:],
		"overlaps grad_output in": tensor.Bytes(grad),
	} {
		for range 2 {
			require.NoError(t, plan.Run(0, workspace, args))
		}
		require.ErrorContains(t, plan.Run(0, of, args), wrong)
	}
	require.Greater(t, again, 3)
}

// What has no type is absent, whatever else its View holds. The second run read it as a zero point.
func TestAbsentAgain(t *testing.T) {
	plan, err := plans.Select(0, plans.MustParse("fake_quantize_per_tensor x=f32[64] zero_point=none qmin=-8 qmax=7"), plans.Preference{Threads: 1})
	require.NoError(t, err)
	x, y := tensor.New(tensor.F32, 64), tensor.New(tensor.F32, 64)
	for i := range tensor.Slice[float32](x) {
		tensor.Slice[float32](x)[i] = float32(i % 8)
	}
	zeroPoint := tensor.Scalar(int32(5))
	zeroPoint.DType = tensor.None
	for range 3 {
		require.NoError(t, plan.Run(0, nil, []tensor.View{x, tensor.Scalar(float32(1)), zeroPoint, y}))
		assert.Equal(t, tensor.Slice[float32](x), tensor.Slice[float32](y))
	}
}

// A run of few elements is one call of a kernel, which later runs repeat, in whichever way it came about.
func TestOneKernelCallAgain(t *testing.T) {
	for _, text := range []string{
		"quantize_per_tensor x=f32[64] q=s8 qmin=-128 qmax=127",
		"quantize_per_channel x=f32[4,256] q=s8 axis=0 qmin=-128 qmax=127", // many runs in the call
	} {
		c := caseOf(t, testcase.Small, text)
		plan, err := plans.Select(0, c.Problem, plans.Preference{})
		require.NoError(t, err)
		placed, workspace, free := c.Place(plan, testcase.Options{})
		defer free()
		require.Eventually(t, func() bool { // a pool forgets what it likes
			return plan.Run(0, workspace, placed.Views()) == nil && plans.IsOneKernelCall(plan)
		}, time.Second, time.Microsecond, text)
	}
}

// How many threads there are says how a run is parted.
func TestOtherThreadsAgain(t *testing.T) {
	defer plans.SetNumThreads(0)
	again := 0
	defer plans.SetBeforeAgain(func() { again++ })()
	plan, err := plans.Select(0, plans.MustParse("embedding weight=f32[4,8] indices=i64[3]"), plans.Preference{})
	require.NoError(t, err)
	args := []tensor.View{tensor.New(tensor.F32, 4, 8), tensor.New(tensor.I64, 3), tensor.New(tensor.F32, 3, 8)}
	for range 10 {
		for _, n := range []int{1, 2} {
			require.NoError(t, plans.SetNumThreads(n))
			require.NoError(t, plan.Run(0, nil, args))
		}
	}
	require.Zero(t, again)
}

// A run of several calls of a kernel is not repeated as the last of them.
func TestSeveralKernelCallsAgain(t *testing.T) {
	memory := make([]float32, 3*1024)
	for i := range memory {
		memory[i] = float32(1 + i%7)
	}
	for n := int64(19); n < 600; n += 40 {
		x, y := within(memory, 0, []int64{3, n}, []int64{1024, 1}), tensor.New(tensor.F32, 3, n)
		plan := fakeQuantize(t, x.Shape)
		for range 3 {
			clear(tensor.Slice[float32](y))
			require.NoError(t, plan.Run(0, nil, []tensor.View{x, tensor.Of([]float32{1}), {}, y}))
			for i := range 3 * n {
				require.Equal(t, memory[i/n*1024+i%n], tensor.Slice[float32](y)[i], "%d of rows of %d", i, n)
			}
		}
	}
}
