package plans_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// TestPacked holds 4-bit codes against the same problem with bytes.
func TestPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][]int64{{1}, {2}, {7}, {3, 5}, {4, 64}, {3, 2, 9}, {300, 257}, {700, 7}, {5, 8}, {0, 3}, {2, 0}} {
		for _, g := range []string{"per_tensor", "per_channel axis=0", "per_channel axis=-1", "per_token", "per_group group_size=3", "per_group group_size=4", "per_block block_size=[2" + strings.Repeat(",2", len(shape)-1) + "]"} {
			for _, signed := range []bool{true, false} {
				name, attrs, _ := strings.Cut(g, " ")
				t.Run(fmt.Sprint(shape, g, signed), func(t *testing.T) { comparePacked(t, rng, name, attrs, shape, signed) })
			}
		}
	}
}

// Rows of an odd number of codes that lie apart, in tensors and in memory: others' bytes between them stay, and the
// half byte that is left becomes 0.
func TestPackedRowsApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int64{1, 7, 5001} {
		x := tensor.View{Data: random(rng, n, 6).Data, DType: tensor.F32, Shape: []int64{6, n}, Strides: []int64{1, 6}}
		text := fmt.Sprintf("quantize_per_tensor x=f32[6,%d] q=%%s qmin=-8 qmax=7", n)
		scale, zero := tensor.Of([]float32{0.25}, 1), tensor.Of([]int32{1}, 1)
		bytes := outputs(t, fmt.Sprintf(text, "s8"), x, scale, zero)[0]
		width := (n + 1) / 2
		room := tensor.New(tensor.U8, 6, width+3)
		fill(room, func() uint8 { return 0xa5 })
		q := tensor.View{Data: room.Data, DType: tensor.U8, Shape: []int64{6, width}, Strides: []int64{width + 3, 1}}
		p, err := plans.Parse(fmt.Sprintf(text, "s4"))
		require.NoError(t, err)
		plan, err := plans.Select(0, p, plans.Preference{Threads: 2})
		require.NoError(t, err)
		require.NoError(t, plan.Run(0, nil, []tensor.View{x, scale, zero, q}))
		want := tensor.Slice[uint8](packView(bytes))
		for i, b := range tensor.Slice[uint8](room) {
			row, column := int64(i)/(width+3), int64(i)%(width+3)
			if column >= width {
				require.Equal(t, uint8(0xa5), b)
				continue
			}
			require.Equal(t, want[row*width+column], b, "row %d of %d codes", row, n)
		}
	}
}

func comparePacked(t *testing.T, rng *rand.Rand, name, attrs string, shape []int64, signed bool) {
	packed, bytes, bounds := "u4", "u8", "qmin=0 qmax=15"
	if signed {
		packed, bytes, bounds = "s4", "s8", "qmin=-8 qmax=7"
	}
	s := tensor.ShapeString(shape)
	x := tensor.New(tensor.F32, shape...)
	for i := range tensor.Slice[float32](x) {
		tensor.Slice[float32](x)[i] = rng.Float32()*20 - 10
	}
	tail := fmt.Sprintf(" %s %s", attrs, bounds)
	tail = strings.ReplaceAll(tail, "  ", " ")

	// dynamic_quantize makes scales; then every op is run on both kinds.
	dynamic := "dynamic_quantize_" + name + " x=f32" + s + " q=%s" + tail + " symmetric=false"
	want := outputs(t, fmt.Sprintf(dynamic, bytes), x)
	got := outputs(t, fmt.Sprintf(dynamic, packed), x)
	requireSame(t, got[1:], want[1:])
	requireSame(t, []tensor.View{got[0]}, []tensor.View{packView(want[0])})
	scale, zero := want[1], want[2]

	quantize := "quantize_" + name + " x=f32" + s + " q=%s" + tail
	want = outputs(t, fmt.Sprintf(quantize, bytes), x, scale, zero)
	got = outputs(t, fmt.Sprintf(quantize, packed), x, scale, zero)
	requireSame(t, got, []tensor.View{packView(want[0])})

	q, q4 := want[0], got[0]
	dequantize := "dequantize_" + name + " q=%s" + s + " y=f32" + tail
	requireSame(t, outputs(t, fmt.Sprintf(dequantize, packed), q4, scale, zero), outputs(t, fmt.Sprintf(dequantize, bytes), q, scale, zero))

	backward := "dequantize_" + name + "_backward grad_output=f32" + s + " q=%s grad_scale=f32" + tail
	requireSame(t, outputs(t, fmt.Sprintf(backward, packed), x, q4, scale, zero), outputs(t, fmt.Sprintf(backward, bytes), x, q, scale, zero))
}

// Bytes of packed codes that do not follow one another are refused: a row's codes
// would not be.
func TestPackedRowsAreCompact(t *testing.T) {
	plan, err := plans.Select(0, plans.MustParse("quantize_per_tensor x=f32[2,6] zero_point=none q=u4 qmin=0 qmax=15"), plans.Preference{})
	require.NoError(t, err)
	q := tensor.New(tensor.U8, 2, 6)
	q.Shape, q.Strides = []int64{2, 3}, []int64{6, 2}
	args := []tensor.View{tensor.New(tensor.F32, 2, 6), tensor.Scalar(float32(1)), {}, q}
	require.EqualError(t, plan.Run(0, nil, args), "quantize_per_tensor: q has stride 2 along its last dimension; packed codes want 1")
	args[3].Strides = []int64{6, 1}
	require.NoError(t, plan.Run(0, nil, args))
}

// outputs runs a problem on three threads, on its present inputs, and returns
// its present outputs.
func outputs(t *testing.T, text string, inputs ...tensor.View) (out []tensor.View) {
	t.Helper()
	return outputsBy(t, plans.Preference{Threads: 3}, text, inputs...)
}

// outputsBy is outputs with a preference.
func outputsBy(t *testing.T, preference plans.Preference, text string, inputs ...tensor.View) (out []tensor.View) {
	t.Helper()
	p, err := plans.Parse(text)
	require.NoError(t, err)
	plan, err := plans.Select(0, p, preference)
	require.NoError(t, err)
	var args []tensor.View
	for i, a := range plans.Describe(plan).Args {
		switch {
		case !a.Present:
			args = append(args, tensor.View{})
			continue
		case a.Direction == "in":
			args = append(args, inputs[0])
			inputs = inputs[1:]
			continue
		}
		d := p.DType(a.Name)
		if d.Packed() {
			d = tensor.U8
		}
		args = append(args, tensor.New(d, a.Shape...))
		out = append(out, args[i])
	}
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args), text)
	return out
}

// requireSame asks for the same shapes and bytes.
func requireSame(t *testing.T, got, want []tensor.View) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Shape, got[i].Shape)
		require.Equal(t, tensor.Bytes(want[i]), tensor.Bytes(got[i]))
	}
}

// packView packs bytes by the rule: the lower half first, along the last
// dimension, each row starting at a byte.
func packView(v tensor.View) tensor.View {
	last := len(v.Shape) - 1
	d := v.Shape[last]
	out := tensor.New(tensor.U8, append(v.Shape[:last:last], (d+1)/2)...)
	for i, b := range tensor.Bytes(v) {
		row, column := int64(i)/d, int64(i)%d
		tensor.Bytes(out)[row*((d+1)/2)+column/2] |= (b & 15) << (4 * (column % 2))
	}
	return out
}
