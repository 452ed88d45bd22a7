package plans_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Codes of every type with and without zero points, in groups and rows that kernels take and that they
// leave parts of, short bags and ones of more than a chunk; a bag whose columns are taken in parts that
// begin inside a group; more rows of short bags than memory has numbers for, and rows of several blocks.
func TestBagsOfCodes(t *testing.T) {
	keys := []string{
		"mode=mean", "mode=sum per_sample_weights=f32", "mode=max", "mode=sum y=bf16",
		"mode=max y=f16", "mode=mean weight_scale=f16", "mode=sum y=bf16 per_sample_weights=bf16",
		"mode=mean y=f16", "mode=sum y=f16 per_sample_weights=f16",
	}
	sizes := []struct{ columns, group, indices, bags int }{
		{16, 16, 420, 5},
		{192, 64, 420, 2},
		{304, 48, 420, 5},
		{281, 1000, 420, 5},
		{33, 5, 420, 5},
		{48, 8, 420, 5},
		{400, 192, 1100, 1},
		{3, 2, 2100, 100},
		{1344, 64, 31, 1},
	}
	seed := 0
	for _, codes := range []string{"s8", "u8", "s4", "u4"} {
		for _, zero := range []string{"none", "i32", "u8"} {
			for _, size := range sizes {
				for range 3 {
					seed++
					c, err := testcase.NewCase(testcase.NewSource(uint64(seed), testcase.Small), fmt.Sprintf(
						"weight_only_embedding_bag weight=%s[40,%d] indices=i64[%d] offsets=i64[%d] weight_zero_point=%s group_size=%d padding_idx=3 %s",
						codes, size.columns, size.indices, size.bags, zero, size.group, keys[seed%len(keys)]))
					require.NoError(t, err)
					want := defined(t, c)
					for _, row := range rowsFor(c) {
						same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Memory: testcase.EndsPage}, want, row)
					}
				}
			}
		}
	}
}

// Scales whose products with codes round up to the next exponent, or to infinity, or are NaNs, whatever their bits.
func TestBagsOfCodesRoundTerms(t *testing.T) {
	bits := []uint32{
		0x7fffffff, 0xffffffff, 0x7f800001, 0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
		0x3f808000, 0x3f818000, 0x3fffffff, 0x477fefff, 0x477ff000, 0x33000000, 0x33800001, 0x00000001, 0x007fffff,
	}
	n := len(bits)
	for _, y := range []string{"bf16", "f16"} {
		text := fmt.Sprintf("weight_only_embedding_bag weight=s8[%d,35] indices=i64[%d,1] group_size=35 mode=sum y=%s", n, n, y)
		c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
		require.NoError(t, err)
		for i, b := range bits {
			binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*i:], b)
			binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*i:], uint64(i))
		}
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}, want, row)
		}
	}
}
