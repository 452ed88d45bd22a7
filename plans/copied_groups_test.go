package plans_test

import (
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// ordered lays out dimensions in an order, outermost first, each with a gap behind it.
func ordered(gaps []int64, order ...int) testcase.Layout {
	return func(shape []int64, _ []bool) (strides []int64, first, n int64) {
		strides, n = make([]int64, len(shape)), 1
		for i := len(order) - 1; i >= 0; i-- {
			strides[order[i]] = n
			n *= shape[order[i]] + gaps[order[i]]
		}
		return strides, 0, n
	}
}

// backwards lays out dimensions of any number in reverse order, with a gap between the rows.
func backwards(shape []int64, _ []bool) (strides []int64, first, n int64) {
	strides, n = make([]int64, len(shape)), 1
	for d, size := range shape {
		strides[d] = n
		if n *= size; d == 0 {
			n += 2
		}
	}
	return strides, 0, n
}

// Groups and channels that lie in another order than their parameters, or across the output: heads of attention, a part of
// a projection, transposed weights, images in channels last that are cropped or have channels a power of 2 apart; few groups
// side by side, groups of one element, and rows that end in a shorter group.
func TestGroupsInAnotherOrder(t *testing.T) {
	defer plans.SetParallelCost(1)()
	heads, none := []int64{0, 0, 0, 0}, []int64{0, 0}
	for _, c := range []struct {
		shape, granularity string
		layout             testcase.Layout
	}{
		{"[2,5,37,64]", "group group_size=32", ordered(heads, 0, 2, 1, 3)},
		{"[2,5,37,64]", "group group_size=32", ordered([]int64{0, 0, 0, 128}, 0, 1, 2, 3)},
		{"[3,4,50,24]", "group group_size=8", ordered(heads, 0, 2, 1, 3)},
		{"[3,4,50,6]", "token", ordered([]int64{0, 0, 0, 6}, 0, 2, 1, 3)},
		{"[2,4,30,40]", "channel axis=1", ordered(heads, 0, 2, 1, 3)},
		{"[40,384]", "group group_size=32", ordered(none, 1, 0)},
		{"[40,384]", "group group_size=128", ordered(none, 1, 0)},
		{"[50,1030]", "group group_size=32", ordered(none, 1, 0)},
		{"[30,7,32,4]", "token", ordered(heads, 2, 3, 0, 1)},
		{"[2,7,128,8]", "group group_size=8", ordered(heads, 0, 2, 3, 1)},
		{"[2,40,3,196]", "token", ordered(heads, 3, 2, 0, 1)},
		{"[20,9,30,1]", "token", ordered([]int64{0, 0, 3, 0}, 0, 2, 1, 3)},
		{"[50,24,4,4]", "block block_size=[2,2,32,16]", ordered(heads, 0, 3, 2, 1)},
		{"[40,104]", "group group_size=16", ordered([]int64{0, 8}, 0, 1)},
		{"[2,64,19,18]", "tensor", ordered([]int64{0, 0, 2, 2}, 0, 2, 3, 1)},
		{"[2,40,19,18]", "channel axis=0", ordered([]int64{0, 0, 2, 2}, 0, 2, 3, 1)},
		{"[3,512,7,7]", "tensor", ordered(heads, 0, 2, 3, 1)},
		{"[32,3,1800]", "tensor", ordered([]int64{32, 0, 0}, 2, 1, 0)},
		{"[2,128,9,9]", "channel axis=0", ordered(heads, 0, 2, 3, 1)},
	} {
		granularity, attrs, _ := strings.Cut(c.granularity, " ")
		for _, text := range []string{
			"quantize_per_* x=f32$ q=s8 qmin=-128 qmax=127",
			"fake_quantize_per_* x=bf16$ zero_point=f32 qmin=-8 qmax=7",
			"fake_quantize_per_*_backward grad_output=f32$ zero_point=f32 qmin=-8 qmax=7",
			"fake_quantize_per_*_backward grad_output=f32$ zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
			"dequantize_per_*_backward grad_output=bf16$ q=s8 zero_point=none grad_scale=f32 qmin=-128 qmax=127",
			"dequantize_per_*_backward grad_output=f64$ q=u4 zero_point=f32 grad_scale=f32 qmin=0 qmax=15",
			"choose_qparams_per_* x=f32$ qmin=-128 qmax=127",
			"dynamic_quantize_per_* x=f32$ q=u8 symmetric=false qmin=0 qmax=255",
		} {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "*", granularity), "$", c.shape)
			if attrs != "" {
				text += " " + attrs
			}
			t.Run(text, func(t *testing.T) {
				some := finiteCase(t, text)
				want := defined(t, some)
				layouts := []map[string]testcase.Layout{{}, {}, {}, {}} // of inputs, of outputs, of both, of parameters, too
				for i := range some.Args {
					a := &some.Args[i]
					if strings.Contains(a.Name, "scale") || strings.Contains(a.Name, "zero_point") {
						layouts[3][a.Name] = backwards
					}
					if data := a.Name == "x" || a.Name == "q" || a.Name == "y" || strings.HasSuffix(a.Name, "put"); !data || strings.Contains(text, a.Name+"=u4") {
						continue
					}
					layouts[3][a.Name] = c.layout
					if layouts[2][a.Name] = c.layout; a.Out() {
						layouts[1][a.Name] = c.layout
					} else {
						layouts[0][a.Name] = c.layout
					}
				}
				for _, row := range rowsFor(some) {
					for threads := 1; threads <= 3; threads += 2 {
						o := testcase.Options{Preference: plans.Preference{Row: row, Threads: threads}, Memory: testcase.EndsPage}
						for _, o.Layouts = range layouts {
							same(t, some, o, want, row)
						}
						for _, pair := range some.Op.InPlace {
							if to, from := some.Arg(pair[0]), some.Arg(pair[1]); to.Out() && from.In() && to.DType == from.DType {
								o.InPlace = pair
								same(t, some, o, want, row+", in place")
							}
						}
					}
				}
			})
		}
	}
}
