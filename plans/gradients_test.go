package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// tensors holds a problem's arguments by name.
type tensors map[string]tensor.View

func (all tensors) f64(name string) []float64 { return tensor.Slice[float64](all[name]) }

// gradient is a function of inputs and the problem that computes its
// gradients, for finite differences in f64.
type gradient struct {
	inputs   tensors
	forward  func(in tensors) []float64
	backward string
	of       map[string]string // the input that an output of backward is the gradient of
}

func uniform(r *rand.Rand, lo, hi float64, shape ...int64) tensor.View {
	v := tensor.New(tensor.F64, shape...)
	for i := range tensor.Slice[float64](v) {
		tensor.Slice[float64](v)[i] = lo + r.Float64()*(hi-lo)
	}
	return v
}

// perform runs a problem on tensors by name, on the definition, and makes
// those that are missing.
func perform(t *testing.T, text string, all tensors) {
	t.Helper()
	p, err := plans.Parse(text)
	require.NoError(t, err)
	plan, err := plans.Select(0, p, plans.Preference{})
	require.NoError(t, err)
	var args []tensor.View
	for _, a := range plans.Describe(plan).Args {
		dtype, _ := tensor.ParseDType(a.DType)
		if _, ok := all[a.Name]; a.Present && !ok {
			require.Equal(t, "out", a.Direction, a.Name)
			all[a.Name] = tensor.New(dtype, a.Shape...)
		}
		args = append(args, all[a.Name])
	}
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args), text)
}

// performing is a forward function that is an op.
func performing(t *testing.T, text, out string) func(in tensors) []float64 {
	return func(in tensors) []float64 {
		delete(in, out)
		perform(t, text, in)
		return in.f64(out)
	}
}

// check compares the gradients of sum(w * forward) with central differences.
func (g *gradient) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	y := g.forward(g.inputs)
	w := uniform(r, -1, 1, int64(len(y)))
	loss := func() (sum float64) {
		for i, v := range g.forward(g.inputs) {
			sum += v * tensor.Slice[float64](w)[i]
		}
		return sum
	}
	all := tensors{}
	for name, v := range g.inputs {
		all[name] = v
	}
	upstream := strings.TrimPrefix(strings.Fields(g.backward)[1], "grad_")
	upstream = "grad_" + upstream[:strings.IndexByte(upstream, '=')]
	p := plans.MustParse(g.backward)
	w.Shape = p.Shape(upstream)
	all[upstream] = w
	perform(t, g.backward, all)
	for name, input := range g.of {
		x := g.inputs.f64(input)
		for i, got := range all.f64(name) {
			require.InDelta(t, slope(x, i, loss), got, 1e-6*(1+math.Abs(got)), "%s[%d]: %s", name, i, g.backward)
		}
	}
}

// slope is the central difference of loss along an element of x.
func slope(x []float64, i int, loss func() float64) float64 {
	const h = 1e-5
	before := x[i]
	x[i] = before + h
	above := loss()
	x[i] = before - h
	below := loss()
	x[i] = before
	return (above - below) / (2 * h)
}

// groupings say, for a tensor of shape [2,3,4], which group an element is in.
var groupings = []struct {
	name, keys string
	shape      []int64
	group      func(i int) int
}{
	{"tensor", "", []int64{}, func(int) int { return 0 }},
	{"channel", "axis=1", []int64{3}, func(i int) int { return i / 4 % 3 }},
	{"token", "", []int64{2, 3}, func(i int) int { return i / 4 }},
	{"group", "group_size=3", []int64{2, 3, 2}, func(i int) int { return i/4*2 + i%4/3 }},
	{"block", "block_size=[1,2,3]", []int64{2, 2, 2}, func(i int) int { return i/12*4 + i/4%3/2*2 + i%4/3 }},
}

// Rounding is taken for the identity: its derivative is 1, and what it adds
// is a constant.
func TestQuantizationGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const lo, hi = -4, 3
	for _, g := range groupings {
		in := func(name string) tensors {
			zero := tensor.New(tensor.F64, g.shape...)
			for i := range tensor.Slice[float64](zero) {
				tensor.Slice[float64](zero)[i] = float64(r.IntN(5) - 2)
			}
			return tensors{name: uniform(r, -6, 6, 2, 3, 4), "scale": uniform(r, 0.5, 1.5, g.shape...), "zero_point": zero}
		}
		problem := func(op, more string) string {
			return strings.TrimSpace(fmt.Sprintf("%s_per_%s_backward grad_output=f64[2,3,4] scale=f64 zero_point=f64 qmin=%d qmax=%d %s %s", op, g.name, lo, hi, more, g.keys))
		}
		clean := func(text string) string { return strings.Join(strings.Fields(text), " ") }

		dequantize := gradient{inputs: in("q"), of: map[string]string{"grad_input": "q", "grad_scale": "scale", "grad_zero_point": "zero_point"}}
		dequantize.backward = clean(problem("dequantize", "q=f64 grad_scale=f64 grad_zero_point=f64"))
		dequantize.forward = func(in tensors) (y []float64) {
			for i, q := range in.f64("q") {
				y = append(y, (q-in.f64("zero_point")[g.group(i)])*in.f64("scale")[g.group(i)])
			}
			return y
		}
		dequantize.check(t, r)

		fake := gradient{inputs: in("x"), of: map[string]string{"grad_input": "x", "grad_scale": "scale", "grad_zero_point": "zero_point"}}
		fake.backward = clean(problem("fake_quantize", "grad_scale=f64 grad_zero_point=f64"))
		class, added := classes(fake.inputs, g.group, lo, hi)
		fake.forward = func(in tensors) (y []float64) {
			for i, x := range in.f64("x") {
				s, z := in.f64("scale")[g.group(i)], in.f64("zero_point")[g.group(i)]
				y = append(y, []float64{(lo - z) * s, (x/s + added[i]) * s, (hi - z) * s}[class[i]+1])
			}
			return y
		}
		fake.check(t, r)

		quantize := gradient{inputs: in("x"), of: map[string]string{"grad_input": "x"}}
		quantize.backward = clean(problem("quantize", ""))
		class, _ = classes(quantize.inputs, g.group, lo, hi)
		quantize.forward = func(in tensors) (y []float64) {
			for i, x := range in.f64("x") {
				y = append(y, []float64{lo, x / in.f64("scale")[g.group(i)], hi}[class[i]+1])
			}
			return y
		}
		quantize.check(t, r)
	}
}

// classes says of every element whether it is below, inside or above (-1, 0,
// 1) the range of codes, and what rounding adds to it.
func classes(in tensors, group func(i int) int, lo, hi float64) (class []int, added []float64) {
	for i, x := range in.f64("x") {
		u := x / in.f64("scale")[group(i)]
		code := math.RoundToEven(u) + in.f64("zero_point")[group(i)]
		c := 0
		if code < lo {
			c = -1
		} else if code > hi {
			c = 1
		}
		class, added = append(class, c), append(added, math.RoundToEven(u)-u)
	}
	return class, added
}

func TestGradFactorScalesParameters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const text = "fake_quantize_per_tensor_backward grad_output=f64[50] scale=f64 zero_point=f64 grad_scale=f64 grad_zero_point=f64 qmin=-4 qmax=3"
	all := tensors{"grad_output": uniform(r, -1, 1, 50), "x": uniform(r, -6, 6, 50), "scale": tensor.Of([]float64{0.7}), "zero_point": tensor.Of([]float64{1})}
	perform(t, text, all)
	ds, dz := all.f64("grad_scale")[0], all.f64("grad_zero_point")[0]
	perform(t, text+" grad_factor=0.125", all)
	require.Equal(t, []float64{ds / 8, dz / 8}, []float64{all.f64("grad_scale")[0], all.f64("grad_zero_point")[0]})
}

func TestEmbeddingGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	index := tensor.Of([]int64{1, 4, 1, 0, 1, 3}, 2, 3)
	g := gradient{
		inputs: tensors{"weight": uniform(r, -1, 1, 5, 3), "indices": index}, of: map[string]string{"grad_weight": "weight"},
		forward:  performing(t, "embedding weight=f64[5,3] indices=i64[2,3]", "y"),
		backward: "embedding_backward grad_output=f64[2,3,3] indices=i64[2,3] grad_weight=f64[5,3]",
	}
	g.check(t, r)
}

func TestAffineGridGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, corners := range []string{" align_corners=true", ""} {
		for _, shape := range [][]int64{{2, 3, 4, 2}, {2, 3, 2, 4, 3}, {1, 1, 1, 2}} {
			dims := shape[len(shape)-1]
			theta, grid := tensor.ShapeString([]int64{shape[0], dims, dims + 1}), tensor.ShapeString(shape)
			g := gradient{
				inputs: tensors{"theta": uniform(r, -1, 1, shape[0], dims, dims+1)}, of: map[string]string{"grad_theta": "theta"},
				forward:  performing(t, "affine_grid theta=f64"+theta+" grid=f64"+grid+corners, "grid"),
				backward: "affine_grid_backward grad_grid=f64" + grid + corners,
			}
			g.check(t, r)
		}
	}
}

// Both gradients, at places away from where the derivative jumps: pixel
// centres and edges.
func TestGridSampleGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for _, corners := range []bool{false, true} {
				for _, size := range [][]int64{{3, 4}, {2, 3, 4}} {
					keys := fmt.Sprintf(" mode=%s padding_mode=%s align_corners=%v", mode, padding, corners)
					checkGridSample(t, r, keys, corners, size)
				}
			}
		}
	}
}

func checkGridSample(t *testing.T, r *rand.Rand, keys string, corners bool, size []int64) {
	dims := len(size)
	image := append([]int64{2, 3}, size...)
	where, out := []int64{2, 2, 5, int64(dims)}, []int64{2, 3, 2, 5}
	if dims == 3 {
		where, out = []int64{2, 1, 2, 5, 3}, []int64{2, 3, 1, 2, 5}
	}
	grid := betweenKinks(r, corners, size, where)
	shape := tensor.ShapeString
	g := gradient{
		inputs: tensors{"input": uniform(r, -1, 1, image...), "grid": grid}, of: map[string]string{"grad_input": "input", "grad_grid": "grid"},
		forward:  performing(t, "grid_sample input=f64"+shape(image)+" grid=f64"+shape(where)+keys, "y"),
		backward: "grid_sample_backward grad_output=f64" + shape(out) + " input=f64" + shape(image) + " grid=f64" + shape(where) + keys,
	}
	g.check(t, r)
}

// betweenKinks draws a grid of positions away from pixel centres and edges.
func betweenKinks(r *rand.Rand, corners bool, size, where []int64) tensor.View {
	dims, grid := len(size), tensor.New(tensor.F64, where...)
	for i := range tensor.Slice[float64](grid) {
		s := float64(size[dims-1-i%dims])
		c := math.Floor(r.Float64()*3*s-s) + []float64{0.1, 0.3, 0.4, 0.6, 0.8}[r.IntN(5)]
		if corners {
			tensor.Slice[float64](grid)[i] = c*2/(s-1) - 1
		} else {
			tensor.Slice[float64](grid)[i] = (c*2+1)/s - 1
		}
	}
	return grid
}
