package plans_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Codes of every type with and without zero points, in groups and rows that kernels take and that they
// leave parts of, short bags and one of more than a chunk.
func TestBagsOfCodes(t *testing.T) {
	seed := uint64(0)
	for _, codes := range []string{"s8", "u8", "s4", "u4"} {
		for _, zero := range []string{"none", "i32", "u8"} {
			for _, keys := range []string{"mode=mean", "mode=sum per_sample_weights=f32", "mode=max", "mode=sum y=bf16"} {
				for _, size := range [][2]int{{16, 16}, {64, 64}, {150, 48}, {281, 1000}, {33, 5}} {
					seed++
					c, err := testcase.NewCase(testcase.NewSource(seed, testcase.Small), fmt.Sprintf(
						"weight_only_embedding_bag weight=%s[40,%d] indices=i64[420] offsets=i64[5] weight_zero_point=%s group_size=%d padding_idx=3 %s",
						codes, size[0], zero, size[1], keys))
					require.NoError(t, err)
					want := defined(t, c)
					for _, row := range rowsOf("weight_only_embedding_bag") {
						got, err := c.Run(testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}})
						if err != nil {
							requireKind(t, err, plans.Unsupported)
							continue
						}
						require.NoError(t, c.Compare(got, want), "%s\n%s", c.Text, row)
					}
				}
			}
		}
	}
}
