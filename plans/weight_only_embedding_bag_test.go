package plans_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Codes of every type with and without zero points, in groups and rows that kernels take and that they
// leave parts of, short bags and ones of more than a chunk; a bag whose columns are taken in parts that
// begin inside a group; more rows of short bags than memory has numbers for, and rows of several blocks; less than a
// vector of columns, and an odd number of them beside whole vectors.
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
		{1, 1000, 420, 5},
		{4, 4, 420, 5},
		{7, 1000, 420, 5},
		{12, 1000, 420, 5},
		{95, 48, 420, 5},
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
						for _, memory := range []testcase.Memory{testcase.EndsPage, testcase.BeginsPage} {
							same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Memory: memory}, want, row)
						}
					}
				}
			}
		}
	}
}

// Scales whose products with codes round up to the next exponent, or to infinity, or lie between two numbers, or are NaNs,
// whatever their bits; the largest and the least ones that fused steps take, and the next ones; zero points, too; and
// factors that make a NaN of 0.
func TestBagsOfCodesRoundTerms(t *testing.T) {
	bits := []uint32{
		0x7fffffff, 0xffffffff, 0x7f800001, 0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
		0x3f808000, 0x3f818000, 0x3fffffff, 0x477fefff, 0x477ff000, 0x33000000, 0x33800001, 0x00000001, 0x007fffff,
		0x00800000, 0x80800001, 0x6e7fffff, 0xee7f8001, 0x6e800000, 0xbf808000, 0xbc018080, 0x3dcccccd,
	}
	zeros := []int32{0, 1, -3, 32767, -32767, 32768, -32768, 1 << 30, math.MinInt32, math.MaxInt32, 100}
	factors := []uint32{0x3f803f80, 0x7f807f80, 0x3c003c00, 0x80008000, 0x7c007c00, 0x7fc17fc1}
	n := len(bits)
	for _, y := range []string{"bf16", "f16"} {
		for _, more := range []string{"", " weight_zero_point=i32", " weight_zero_point=i32 per_sample_weights=" + y} {
			for _, columns := range []int{3, 35} {
				text := fmt.Sprintf("weight_only_embedding_bag weight=s8[%d,%d] indices=i64[%d,2] group_size=35 mode=sum y=%s%s", n, columns, n, y, more)
				c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
				require.NoError(t, err)
				for i, b := range bits {
					binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*i:], b)
					binary.NativeEndian.PutUint64(c.Arg("indices").Before[16*i:], uint64(i))
					if strings.Contains(more, "zero_point") {
						binary.NativeEndian.PutUint32(c.Arg("weight_zero_point").Before[4*i:], uint32(zeros[i%len(zeros)]))
					}
					if strings.Contains(more, "per_sample_weights") {
						binary.NativeEndian.PutUint32(c.Arg("per_sample_weights").Before[4*i:], factors[i%len(factors)])
					}
				}
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}, want, row)
				}
			}
		}
	}
}
