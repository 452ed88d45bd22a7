package plans_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Sums into outputs whose elements lie apart: of several pieces, onto what is there, of few rows that are named, of a row that
// jobs share, with positions that were chosen, around the caches, and of more columns than there is room for.
func TestSumsApart(t *testing.T) {
	defer plans.SetParallelCost(1)()
	defer plans.SetStreamFrom(1 << 12)()
	for i, text := range []string{
		"embedding_bag weight=bf16[30,70] indices=i64[300,7] mode=sum per_sample_weights=bf16",
		"embedding_bag weight=f32[30,5] indices=i64[2000,2] mode=max chosen=i64",
		"embedding_bag weight=f64[9,40000] indices=i64[3,4] mode=mean",
		"weight_only_embedding_bag weight=u4[30,70] indices=i64[300,7] group_size=9 mode=sum y=f16",
		"embedding_backward grad_output=f32[50,70] indices=i64[50] grad_weight=f32[300,70] accumulate=true",
		"embedding_backward grad_output=f16[5,70] indices=i64[5] grad_weight=f16[3000,70]",
		"embedding_backward grad_output=f32[5,70] indices=i64[5] grad_weight=f32[3000,70] accumulate=true",
		"embedding_backward grad_output=f32[1500,300] indices=i64[1500] grad_weight=f32[1,300]",
		"embedding_bag_backward grad_output=f32[40,33] indices=i64[40,3] grad_weight=f32[30,33] mode=max chosen=i64",
	} {
		c, err := testcase.NewCase(testcase.NewSource(uint64(i), testcase.Small), text)
		require.NoError(t, err)
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			for _, layout := range []testcase.Layout{testcase.Transposed, testcase.Strided, testcase.Reversed} {
				for _, threads := range []int{1, 3} {
					o := testcase.Options{Preference: plans.Preference{Row: row, Threads: threads}, Memory: testcase.EndsPage}
					o.Layouts = map[string]testcase.Layout{"y": layout, "grad_weight": layout}
					same(t, c, o, want, row)
				}
			}
		}
	}
}
