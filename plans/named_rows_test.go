package plans_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Few indices of a large table: sums of named rows between cleared ones, beside those of lists with every row.
func TestNamedRows(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for _, table := range [][2]int{{24, 3}, {240, 1}, {1000, 5}, {1024, 64}, {9001, 16}, {40000, 8}} {
		for _, n := range []int{0, 1, table[0] / 24} {
			sizes := fmt.Sprintf("grad_output=f32[%d,%d] indices=i64[%[1]d] grad_weight=f32[%[3]d,%[2]d]", n, table[1], table[0])
			bags := fmt.Sprintf("embedding_bag_backward grad_output=%%[1]s[4,%d] indices=i32[%d] offsets=i64[4] grad_weight=%%[1]s[%d,%[1]d] padding_idx=7", table[1], n, table[0])
			for _, text := range []string{
				"embedding_backward " + sizes,
				"embedding_backward " + sizes + " padding_idx=0 scale_grad_by_freq=true",
				fmt.Sprintf(bags, "bf16") + " mode=mean",
				fmt.Sprintf(bags, "f16") + " mode=max chosen=i64",
				fmt.Sprintf(bags, "f64") + " mode=sum per_sample_weights=f64 scale_grad_by_freq=true",
			} {
				t.Run(text, func(t *testing.T) {
					c := caseOf(t, testcase.Small, text)
					want := defined(t, c)
					for _, stream := range []int64{1, 1 << 40} {
						defer plans.SetStreamFrom(stream)()
						for i, row := range []string{"", "go"} {
							o := testcase.Options{Memory: testcase.Memory(1 + i), Preference: plans.Preference{Row: row, Threads: 3}}
							same(t, c, o, want, "compact, row "+row)
							for _, l := range layouts {
								o.Layout = l.layout
								same(t, c, o, want, l.name+", row "+row)
							}
						}
					}
				})
			}
		}
	}
}

// A row that is named more than 1024 times in a table of many.
func TestHotNamedRow(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for _, rows := range []int{24 * 1500, 20 * 1500} {
		c := caseOf(t, testcase.Small, fmt.Sprintf("embedding_backward grad_output=f32[1500,300] indices=i64[1500] grad_weight=f32[%d,300]", rows))
		for i := range 1400 {
			binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*i:], 77)
		}
		want := defined(t, c)
		same(t, c, testcase.Options{Preference: plans.Preference{Threads: 3}}, want, fmt.Sprint(rows))
	}
}
