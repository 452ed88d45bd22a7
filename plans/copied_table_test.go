package plans_test

import (
	"fmt"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Tables whose rows lie apart are copied where indices name as many rows as they have, and read where they lie by fewer.
func TestTablesThatManyRowsAreReadOf(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for _, n := range []int{39, 40, 400} {
		bags := fmt.Sprintf("weight=%%[1]s[40,15] indices=i64[%d] offsets=i32[3] padding_idx=7", n)
		for _, text := range []string{
			fmt.Sprintf("embedding weight=f32[40,15] indices=i32[%d]", n),
			fmt.Sprintf("embedding weight=bf16[40,15] indices=i64[%d,1] bounds=skip", n),
			fmt.Sprintf("embedding_bag "+bags, "f16") + " mode=max chosen=i64",
			fmt.Sprintf("embedding_bag "+bags, "f64") + " mode=sum per_sample_weights=f64",
			fmt.Sprintf("embedding_bag_per_sample_weights_backward grad_output=%[1]s[3,15] "+bags, "bf16"),
		} {
			t.Run(text, func(t *testing.T) {
				c := caseOf(t, testcase.Small, text)
				want := defined(t, c)
				for i, row := range rowsFor(c) {
					o := testcase.Options{Memory: testcase.Memory(1 + i%2), Preference: plans.Preference{Row: row, Threads: 3}}
					for _, l := range layouts {
						o.Layouts = map[string]testcase.Layout{"weight": l.layout}
						same(t, c, o, want, l.name+", row "+row)
					}
				}
			})
		}
	}
}
