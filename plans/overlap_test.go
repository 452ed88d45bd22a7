package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// within is a tensor of floats somewhere in a larger one.
func within(memory []float32, at int64, shape, strides []int64) tensor.View {
	return tensor.View{Data: unsafe.Pointer(&memory[at]), DType: tensor.F32, Shape: shape, Strides: strides}
}

// offsets are the places of a tensor's elements.
func offsets(at int64, shape, strides []int64) []int64 {
	all := []int64{at}
	for d, n := range shape {
		var more []int64
		for _, o := range all {
			for i := range n {
				more = append(more, o+i*strides[d])
			}
		}
		all = more
	}
	return all
}

func fakeQuantize(t *testing.T, shape []int64) plans.Plan {
	t.Helper()
	text := fmt.Sprintf("fake_quantize_per_tensor x=f32%s zero_point=none qmin=-8 qmax=7", tensor.ShapeString(shape))
	plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Threads: 1})
	require.NoError(t, err)
	return plan
}

// An output may lie between an input's elements: columns of one matrix, say.
func TestOutputBetweenInputs(t *testing.T) {
	for name, c := range map[string]struct {
		shape, strides []int64
		in, out        int64
	}{
		"columns":             {[]int64{6, 4}, []int64{8, 1}, 0, 4},
		"columns before":      {[]int64{6, 4}, []int64{8, 1}, 4, 0},
		"every other element": {[]int64{6, 4}, []int64{8, 2}, 0, 1},
		"every other row":     {[]int64{3, 8}, []int64{16, 1}, 0, 8},
		"channels":            {[]int64{2, 2, 4}, []int64{24, 4, 1}, 0, 8},
		"backwards":           {[]int64{6, 4}, []int64{8, -1}, 3, 7},
		"rows further on":     {[]int64{5, 4}, []int64{8, 1}, 0, 20},
		"rows further back":   {[]int64{5, 4}, []int64{8, 1}, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			memory := make([]float32, 64)
			for i := range memory {
				memory[i] = float32(i%7) / 2
			}
			scale := []float32{1}
			x, y := within(memory, c.in, c.shape, c.strides), within(memory, c.out, c.shape, c.strides)
			apart := tensor.New(tensor.F32, c.shape...)
			plan := fakeQuantize(t, c.shape)
			require.NoError(t, plan.Run(0, nil, []tensor.View{x, tensor.Of(scale), {}, apart}))
			require.NoError(t, plan.Run(0, nil, []tensor.View{x, tensor.Of(scale), {}, y}))
			want := unsafe.Slice((*float32)(apart.Data), apart.NumElements())
			for i, o := range offsets(c.out, c.shape, c.strides) {
				assert.Equal(t, want[i], memory[o], "element %d", i)
			}
		})
	}
}

// So may a compact tensor between the rows of another, whichever of the two is the output.
func TestCompactBetweenRows(t *testing.T) {
	memory := make([]float32, 32)
	rows, compact := within(memory, 0, []int64{2, 4}, []int64{16, 1}), within(memory, 4, []int64{2, 4}, []int64{4, 1})
	plan, scale := fakeQuantize(t, rows.Shape), tensor.Of([]float32{1})
	require.NoError(t, plan.CanImplement([]tensor.View{rows, scale, {}, compact}))
	require.NoError(t, plan.CanImplement([]tensor.View{compact, scale, {}, rows}))
	// An expanded row is between the others, or one of them.
	expanded := within(memory, 4, rows.Shape, []int64{0, 1})
	require.NoError(t, plan.CanImplement([]tensor.View{expanded, scale, {}, rows}))
	expanded = within(memory, 3, rows.Shape, []int64{0, 1})
	require.ErrorContains(t, plan.CanImplement([]tensor.View{expanded, scale, {}, rows}), "y overlaps x in memory")
}

// So may packed codes, which are bytes: a row of four numbers is followed by one of four codes.
func TestPackedCodesBetweenNumbers(t *testing.T) {
	memory := make([]float32, 6*5)
	for i := range memory {
		memory[i] = float32(i%7) - 3
	}
	x := within(memory, 0, []int64{6, 4}, []int64{5, 1})
	codes := func(at int) tensor.View {
		return tensor.View{Data: unsafe.Add(x.Data, at), DType: tensor.U8, Shape: []int64{6, 2}, Strides: []int64{20, 1}}
	}
	scale, apart, y := tensor.Of([]float32{1}), tensor.New(tensor.S4, 6, 4), tensor.New(tensor.F32, 6, 4)
	run := func(text string, from, to tensor.View) error {
		plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{})
		require.NoError(t, err)
		return plan.Run(0, nil, []tensor.View{from, scale, {}, to})
	}
	quantize := "quantize_per_tensor x=f32[6,4] zero_point=none q=s4 qmin=-8 qmax=7"
	dequantize := "dequantize_per_tensor q=s4[6,4] zero_point=none y=f32 qmin=-8 qmax=7"
	require.NoError(t, run(quantize, x, apart))
	require.NoError(t, run(quantize, x, codes(16)))
	require.NoError(t, run(dequantize, apart, y))
	require.NoError(t, run(dequantize, codes(16), x))
	for i, want := range tensor.Slice[float32](y) {
		require.Equal(t, want, memory[i/4*5+i%4])
	}
	require.ErrorContains(t, run(quantize, x, codes(15)), "q overlaps x in memory")
	require.ErrorContains(t, run(dequantize, codes(19), x), "y overlaps q in memory")
}

// Strides along one element are nothing: the same tensor may come with others.
func TestInPlaceWithStridesOfNoUse(t *testing.T) {
	x := tensor.Of([]float32{1, 2.2, -3.7, 9}, 1, 4)
	y := x
	y.Strides = []int64{9, 1}
	require.NoError(t, fakeQuantize(t, x.Shape).Run(0, nil, []tensor.View{x, tensor.Of([]float32{1}), {}, y}))
	require.Equal(t, []float32{1, 2, -4, 7}, tensor.Slice[float32](x))
}

// Results that take the place of short groups with a shorter one between them, which are tiles where they lie, not when
// they are copied.
func TestInPlaceOfGroupsWithARest(t *testing.T) {
	for n := int64(16); n < 36; n++ {
		c := caseOf(t, testcase.Small, fmt.Sprintf("fake_quantize_per_group x=f16[3,%d] group_size=%d qmin=-100 qmax=100", 2*n+4, n))
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			same(t, c, testcase.Options{Preference: plans.Preference{Row: row}, InPlace: c.Op.InPlace[0]}, want, row)
		}
	}
}

// An output that shares an element with an input is refused, however both lie; so is one that has two in one place.
func TestSharedElementIsRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	memory := make([]float32, 256)
	shared, between := 0, 0
	for range 20000 {
		shape := make([]int64, 1+r.IntN(3))
		draw := func() (at int64, strides []int64) {
			at, strides = 100+r.Int64N(40), make([]int64, len(shape))
			for d := range strides {
				strides[d] = []int64{0, 1, 2, 3, 4, 6, 8, 12, -1, -4, -8}[r.IntN(11)]
			}
			return at, strides
		}
		for d := range shape {
			shape[d] = 1 + r.Int64N(4)
		}
		xAt, xStrides := draw()
		yAt, yStrides := draw()
		taken := map[int64]bool{}
		for _, o := range offsets(xAt, shape, xStrides) {
			taken[o] = true
		}
		common := false
		written := map[int64]bool{}
		for _, o := range offsets(yAt, shape, yStrides) {
			common = common || taken[o]
			written[o] = true
		}
		args := []tensor.View{within(memory, xAt, shape, xStrides), tensor.Of([]float32{1}), {}, within(memory, yAt, shape, yStrides)}
		err := fakeQuantize(t, shape).CanImplement(args)
		same := xAt == yAt && fmt.Sprint(offsets(xAt, shape, xStrides)) == fmt.Sprint(offsets(yAt, shape, yStrides))
		switch {
		case int64(len(written)) < tensor.NumElements(shape):
			require.ErrorContains(t, err, "elements may overlap", "y %v, of %v", yStrides, shape)
		case common && !same:
			shared++
			require.Error(t, err, "x %d %v, y %d %v, of %v", xAt, xStrides, yAt, yStrides, shape)
		case err == nil:
			between++
		}
	}
	assert.Greater(t, min(shared, between), 2000)
}
