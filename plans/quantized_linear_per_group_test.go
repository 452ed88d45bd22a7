package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// groupLinearText draws a problem: groups around those that kernels take, depths that they do not divide, any types. Half of
// them are such as models have: whole groups, a multiple of 32 codes.
func groupLinearText(r *rand.Rand, m, k, n int) string {
	of := func(types ...string) string { return types[r.IntN(len(types))] }
	group := []int{1, 2, 3, 8, 16, 24, 31, 32, 33, 64, 96, 100, 128, 129, 192, 256, 500, 1024, 1 << 20, 1 + r.IntN(k)}[r.IntN(20)]
	if r.IntN(2) == 0 {
		group = []int{32, 64, 96, 128, 160, 256, 384, 1024, 4128}[r.IntN(9)]
		k, n = group*max(1, k/group), (n+15)/16*16
	}
	return fmt.Sprintf("quantized_linear_per_group x=%s[%d,%d] x_scale=%s x_zero_point=%s weight=%s[%d,%d] group_size=%d weight_scale=%s weight_zero_point=%s bias=%s y=%s",
		of("s8", "u8"), m, k, of("f32", "bf16"), of("none", "i32", "s8", "u8", "f32"), of("s8", "u8", "s4", "s4", "u4"), n, k, group,
		of("f32", "f32", "f16"), of("none", "none", "i64", "s8", "u8", "f32", "bf16"), of("none", "f32", "f16"), of("f32", "f32", "bf16", "f16"))
}

// Groups of any size, in chunks and pieces of which kernels take several, parts of one, or one that is not full; rows of x
// and of weight that fill tiles, and that do not. New seeds come from TestRandom; these are the same each time.
func TestGroupsOfQuantizedLinear(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 11))
	for range 250 {
		m, k, n := 1+r.IntN(9), 1+r.IntN(1200), 1+r.IntN(100)
		everyGroupLinearRow(t, groupLinearText(r, m, k, n), r)
	}
	everyGroupLinearRow(t, groupLinearText(r, 700, 40, 3), r)
	for range 3 {
		everyGroupLinearRow(t, groupLinearText(r, 2, 9000, 5), r)
	}
}

// Chunks and pieces that lie beyond the last group's codes have no address: checkptr stops a program that makes one. The
// first has pieces beyond, the others chunks, or rows that fill a workspace to its end.
func TestGroupsThatEndEarly(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 19))
	for _, text := range []string{
		"x=s8[2,481] weight=s8[32,481] group_size=480", "x=u8[3,1030] weight=u8[17,1030] group_size=1024",
		"x=s8[5,1030] weight=s4[17,1030] group_size=1024", "x=s8[1,3001] weight=s8[5,3001] group_size=2900",
		"x=u8[4,64] weight=s8[32,64] group_size=32", "x=s8[8,512] weight=u4[17,512] group_size=512",
	} {
		for _, zero := range []string{"none", "i32"} {
			everyGroupLinearRow(t, fmt.Sprintf("quantized_linear_per_group %s x_zero_point=%s weight_zero_point=%s", text, zero, zero), r)
		}
	}
}

// everyGroupLinearRow holds every row against the definition, between pages that are not mapped, also of tensors whose rows lie apart.
func everyGroupLinearRow(t *testing.T, text string, r *rand.Rand) {
	t.Helper()
	c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
	require.NoError(t, err)
	want := defined(t, c)
	for _, row := range rowsFor(c) {
		o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1 + r.IntN(3)}, Memory: testcase.Memory(1 + r.IntN(2))}
		same(t, c, o, want, row)
		o.Layout = testcase.Mixed(r)
		same(t, c, o, want, row+", mixed strides")
	}
}

// filled returns a tensor of one number, codes of 4 bits as bytes.
func filled[T tensor.Element](d tensor.DType, number T, shape ...int64) tensor.View {
	v := tensor.New(d, shape...)
	for i := range tensor.Slice[T](v) {
		tensor.Slice[T](v)[i] = number
	}
	return v
}

// Codes at one end and zero points at the other, of groups up to where sums no longer fit 32 bits, and beyond: y is the exact
// sum, rounded once. Zero points are further away than codes reach.
func TestEndsOfQuantizedLinearPerGroup(t *testing.T) {
	const m, n = 5, 6
	ends := map[tensor.DType][2]int64{tensor.S8: {-128, 127}, tensor.U8: {0, 255}, tensor.S4: {-8, 7}, tensor.U4: {0, 15}}
	check := func(xType, wType tensor.DType, end int, zeros bool, k int64) {
		x, w := ends[xType], ends[wType]
		code, width := byte(w[end]), k
		if wType.Packed() {
			code, width = code&15|code<<4, (k+1)/2
		}
		inputs := []tensor.View{filled(tensor.U8, byte(x[end]), m, k), filled[float32](tensor.F32, 1, m), filled(tensor.U8, code, n, width), filled[float32](tensor.F32, 1, n, 1)}
		inputs[0].DType = xType
		if !wType.Packed() {
			inputs[2].DType = wType
		}
		sum, zero := x[end]*w[end]*k, "none"
		if zeros {
			beyond := int32(2*(1-end)-1) * 1000
			inputs = []tensor.View{inputs[0], inputs[1], filled(tensor.I32, beyond, m), inputs[2], inputs[3], filled(tensor.I32, beyond, n, 1)}
			sum, zero = (x[1]-x[0])*(w[1]-w[0])*k, "i32"
		}
		text := fmt.Sprintf("quantized_linear_per_group x=%s[%d,%d] x_zero_point=%s weight=%s[%d,%d] weight_zero_point=%s group_size=%d bias=none", xType, m, k, zero, wType, n, k, zero, k)
		for _, row := range rowsOf("quantized_linear_per_group") {
			p, err := plans.Parse(text)
			require.NoError(t, err)
			if _, err := plans.Select(0, p, plans.Preference{Row: row}); err != nil {
				continue
			}
			y := outputsBy(t, plans.Preference{Row: row}, text, inputs...)[0]
			for _, got := range tensor.Slice[float32](y) {
				require.Equal(t, float32(sum), got, "%s, row %s", text, row)
			}
		}
	}
	for xType := range ends {
		for wType := range ends {
			if xType.Packed() {
				continue
			}
			for end := range 2 {
				check(xType, wType, end, true, 128)
				check(xType, wType, end, false, 513)
			}
		}
	}
	for _, k := range []int64{33025, 33026, 66000} {
		check(tensor.U8, tensor.S8, 1, true, k)
		check(tensor.U8, tensor.S8, 0, true, k)
	}
	check(tensor.U8, tensor.U4, 1, true, 1<<18)
	check(tensor.S8, tensor.S8, 0, false, 1<<17-1)
	check(tensor.S8, tensor.S8, 0, false, 1<<17)
	check(tensor.U8, tensor.S8, 1, false, 70001)
}

// One group without zero points has quantized_linear's bits, on every row of both.
func TestOneGroupIsQuantizedLinear(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	codes := func(rows, k int64) tensor.View {
		v := tensor.New(tensor.S8, rows, k)
		for i := range tensor.Slice[int8](v) {
			tensor.Slice[int8](v)[i] = int8(r.IntN(256) - 128)
		}
		return v
	}
	for _, size := range [][3]int64{{1, 1, 1}, {3, 70, 5}, {20, 515, 70}, {4, 5000, 3}} {
		m, k, n := size[0], size[1], size[2]
		x, xScale, w, wScale, bias := codes(m, k), random(r, m), codes(n, k), random(r, n), random(r, n)
		want := outputsBy(t, plans.Preference{Row: "go"}, fmt.Sprintf("quantized_linear x=s8[%d,%d] weight=s8[%d,%d]", m, k, n, k), x, xScale, w, wScale, bias)
		wScale.Shape = []int64{n, 1}
		text := fmt.Sprintf("quantized_linear_per_group x=s8[%d,%d] weight=s8[%d,%d] group_size=%d", m, k, n, k, k)
		for _, row := range rowsOf("quantized_linear_per_group") {
			p, err := plans.Parse(text)
			require.NoError(t, err)
			if _, err := plans.Select(0, p, plans.Preference{Row: row}); err == nil {
				requireSame(t, outputsBy(t, plans.Preference{Row: row}, text, x, xScale, w, wScale, bias), want)
			}
		}
	}
}

// BenchmarkQuantizedLinearPerGroup has the layers of a language model beside the ops that could serve them before.
func BenchmarkQuantizedLinearPerGroup(b *testing.B) {
	for _, m := range []int{1, 16, 128} {
		for _, text := range []string{
			"quantized_linear_per_group x=s8[%[1]d,4096] x_zero_point=i32 weight=s4[4096,4096] group_size=32",
			"quantized_linear_per_group x=s8[%[1]d,4096] x_zero_point=i32 weight=s4[4096,4096] group_size=128",
			"weight_only_linear x=f32[%[1]d,4096] weight=s4[4096,4096] group_size=32",
			"quantized_linear_per_group x=u8[%[1]d,4096] x_zero_point=i32 weight=s8[4096,4096] group_size=4096",
			"quantized_linear x=s8[%[1]d,4096] weight=s8[4096,4096]",
		} {
			text = fmt.Sprintf(text, m)
			b.Run(text, func(b *testing.B) {
				c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
				require.NoError(b, err)
				plan, err := plans.Select(0, c.Problem, plans.Preference{})
				require.NoError(b, err)
				placed, _, free := c.Place(plan, testcase.Options{})
				defer free()
				benchmark(b, text, placed.Views()...)
			})
		}
	}
}
