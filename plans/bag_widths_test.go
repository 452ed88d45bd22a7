package plans_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Rows of every number of columns that ends elsewhere in a vector or in a tile of some, and around blocks
// of columns, between pages that are not mapped: bags of all modes and their gradients, also added to
// what is there, of more rows than a chunk.
func TestBagsOfEveryWidth(t *testing.T) {
	const bags = " indices=i64[600] offsets=i64[5]"
	texts := []string{
		"embedding_bag weight=T[20,W]" + bags + " mode=sum per_sample_weights=T",
		"embedding_bag weight=T[20,W]" + bags + " mode=mean padding_idx=2",
		"embedding_bag weight=T[20,W]" + bags + " mode=max chosen=i64",
		"embedding_bag_backward grad_output=T[5,W]" + bags + " grad_weight=T[20,W] mode=sum accumulate=true",
		"embedding_bag_backward grad_output=T[5,W]" + bags + " grad_weight=T[20,W] mode=mean scale_grad_by_freq=true",
		"embedding_bag_backward grad_output=T[5,W]" + bags + " grad_weight=T[20,W] mode=max chosen=i64 accumulate=true",
		"embedding_bag_per_sample_weights_backward grad_output=T[5,W] weight=T[20,W]" + bags,
		"weight_only_embedding_bag weight=s8[20,W]" + bags + " group_size=1000 weight_zero_point=i32 mode=sum",
		"weight_only_embedding_bag weight=u4[20,W]" + bags + " group_size=1000 weight_zero_point=none mode=mean y=T",
	}
	widths := []int{88, 89, 96, 97, 104, 105, 112, 113, 120, 121, 127, 128, 129, 176, 177, 200, 254, 255, 256, 257, 258, 263, 264, 265, 272, 300}
	for width := 1; width <= 82; width++ {
		widths = append(widths, width)
	}
	for i, text := range texts {
		for _, width := range widths {
			for k, dtype := range []string{"f32", "f64", "bf16", "f16"} {
				if dtype != "f32" && (i+width+k)%3 > 0 {
					continue
				}
				c := caseOf(t, testcase.Small, strings.NewReplacer("T", dtype, "W", fmt.Sprint(width)).Replace(text))
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Memory: testcase.Memory(1 + width%2)}
					same(t, c, o, want, row)
				}
			}
		}
	}
}
