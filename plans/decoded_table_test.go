package plans_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Tables that are decoded before, by several jobs, or as bags name their rows: what is left out, empty bags, and -0, which is the largest of its kind alone.
func TestBagsOfDecodedTables(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for i, more := range []string{"mode=sum y=bf16", "mode=mean y=f16", "mode=max y=f16", "mode=max y=f32", "mode=sum y=f16 per_sample_weights=f16"} {
		for _, codes := range []string{"s8", "u4"} {
			text := fmt.Sprintf("weight_only_embedding_bag weight=%s[30,70] indices=i64[1500] offsets=i64[400] group_size=9 padding_idx=2 bounds=skip %s", codes, more)
			c, err := testcase.NewCase(testcase.NewSource(uint64(i), testcase.Small), text)
			require.NoError(t, err)
			for k := range 30 * 8 { // negative scales make -0 of 0, and so do those that round to it
				if k%3 == 0 {
					binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*k:], []uint32{0xbf800000, 0x80000001, 0x80000000}[k/3%3])
				}
			}
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				for threads := range 4 { // 0: rows are decoded as bags name them
					restore := plans.SetDecodedRows(float64(threads))
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: max(1, threads)}}, want, row)
					restore()
				}
			}
		}
	}
}
