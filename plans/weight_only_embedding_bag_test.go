package plans_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Codes of every type with scales and zero points of many types, or without the latter, in groups and rows that kernels
// take and that they leave parts of, short bags and ones of more than a chunk; a bag whose columns are taken in parts that
// begin inside a group; more rows of short bags than memory has numbers for, and rows of several blocks; less than a
// vector of columns, and an odd number of them beside whole vectors; groups that are less than a unit, or some and a part, at any
// place of a vector, so many of them that parameters fill the memory for these; what lies apart. Parameters are converted
// before, or in copies; some tables are decoded before.
func TestBagsOfCodes(t *testing.T) {
	keys := []string{
		"mode=mean", "mode=sum per_sample_weights=f32", "mode=max", "mode=sum y=bf16",
		"mode=max y=f16", "mode=max y=bf16", "mode=sum y=bf16 per_sample_weights=bf16",
		"mode=mean y=f16", "mode=sum y=f16 per_sample_weights=f16",
	}
	scales := []string{"f32", "f16", "bf16", "f64"}
	sizes := []struct{ columns, group, indices, bags int }{
		{16, 16, 420, 5},
		{192, 64, 420, 2},
		{304, 48, 420, 5},
		{281, 1000, 420, 5},
		{33, 5, 420, 5},
		{48, 8, 420, 5},
		{400, 112, 1100, 1},
		{400, 192, 420, 5},
		{51, 17, 420, 5},
		{3, 2, 2100, 100},
		{1344, 64, 31, 1},
		{1, 1000, 420, 5},
		{4, 4, 420, 5},
		{7, 1000, 420, 5},
		{12, 1000, 420, 5},
		{95, 48, 420, 5},
		{100, 32, 420, 5},
		{70, 24, 420, 5},
		{90, 40, 420, 5},
		{260, 4, 420, 5},
		{40, 1, 700, 2},
		{10, 3, 420, 5},
		{61, 6, 420, 5},
		{100, 12, 420, 5},
		{263, 28, 420, 5},
		{400, 12, 1100, 1},
		{200, 48, 420, 5},
	}
	seed, r := 0, rand.New(rand.NewPCG(1, 1))
	for _, codes := range []string{"s8", "u8", "s4", "u4"} {
		for _, zero := range []string{"none", "i32", "u8", "i64", "bf16"} {
			for _, size := range sizes {
				for range 2 {
					seed++
					c, err := testcase.NewCase(testcase.NewSource(uint64(seed), testcase.Small), fmt.Sprintf(
						"weight_only_embedding_bag weight=%s[40,%d] indices=i64[%d] offsets=i64[%d] weight_scale=%s weight_zero_point=%s group_size=%d padding_idx=3 %s",
						codes, size.columns, size.indices, size.bags, scales[seed%len(scales)], zero, size.group, keys[seed%len(keys)]))
					require.NoError(t, err)
					want, restore, decoded := defined(t, c), plans.SetReadyRows(float64(seed/2%2)), plans.SetDecodedRows(float64(seed%3/2))
					for _, row := range rowsFor(c) {
						for _, memory := range []testcase.Memory{testcase.EndsPage, testcase.BeginsPage} {
							same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Memory: memory}, want, row)
						}
						if seed%5 == 0 {
							same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}, Layout: testcase.Mixed(r)}, want, row)
						}
					}
					restore()
					decoded()
				}
			}
		}
	}
}

// Parameters that several jobs convert, and those that lie apart, which none does.
func TestBagsOfManyParameters(t *testing.T) {
	defer plans.SetParallelCost(1)()
	defer plans.SetReadyRows(2)()
	c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small),
		"weight_only_embedding_bag weight=s8[3000,60] indices=i64[50,30] weight_scale=f16 weight_zero_point=i64 group_size=2 mode=sum")
	require.NoError(t, err)
	want := defined(t, c)
	for _, row := range rowsFor(c) {
		for _, layout := range []testcase.Layout{nil, testcase.Mixed(rand.New(rand.NewPCG(1, 1)))} {
			same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 2}, Layout: layout}, want, row)
		}
	}
}

// Where the workspace may not have them, parameters are converted in copies: a limit that other bags keep refused those.
func TestBagsWithinLimit(t *testing.T) {
	text := "weight_only_embedding_bag weight=s8[9,70] indices=i64[4,3] weight_scale=bf16 weight_zero_point=s8 group_size=7 mode=sum"
	c := caseOf(t, testcase.Small, text)
	free, err := plans.Select(0, c.Problem, plans.Preference{})
	require.NoError(t, err)
	least := int64(4+1+4*3) * 8
	require.Equal(t, free.SKU().Row != "go", free.WorkspaceSize() > least)
	for _, limit := range []int64{free.WorkspaceSize() - 1, least} {
		pref := plans.Preference{MaxWorkspace: max(limit, least)}
		p, err := plans.Select(0, c.Problem, pref)
		require.NoError(t, err)
		require.Equal(t, least, p.WorkspaceSize())
		require.Equal(t, free.SKU(), p.SKU())
		same(t, c, testcase.Options{Preference: pref}, defined(t, c), "within a limit")
	}
}

// Groups of few columns, of rows that end anywhere in a group or a vector, where they lie and in copies: no parameter is read
// before the first or behind the last.
func TestBagsOfCodesInShortGroups(t *testing.T) {
	defer plans.SetDecodedRows(0)()
	for i, codes := range []string{"s8", "u8", "s4", "u4"} {
		for group := 2; group <= 33; group++ {
			for k, more := range []string{
				"mode=sum per_sample_weights=f32 weight_zero_point=i32", "mode=mean weight_zero_point=none", "mode=sum weight_scale=bf16 weight_zero_point=i32",
				"mode=sum y=bf16 per_sample_weights=bf16 weight_zero_point=i32", "mode=mean y=f16 weight_zero_point=none",
			} {
				columns := 2*group + 1 + (7*group+31*k+11*i)%(3*group+64) + 256*(group%2)
				c, err := testcase.NewCase(testcase.NewSource(uint64(columns), testcase.Small), fmt.Sprintf(
					"weight_only_embedding_bag weight=%s[9,%d] indices=i64[300] offsets=i64[6] group_size=%d %s", codes, columns, group, more))
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

// Scales whose products with codes round up to the next exponent, or to infinity, or lie between two numbers, or are NaNs,
// whatever their bits; the largest and the least ones that fused steps take, and the next ones; zero points, too; and
// factors that make a NaN of 0. In short groups each has the pair of another row.
func TestBagsOfCodesRoundTerms(t *testing.T) {
	bits := []uint32{
		0x7fffffff, 0xffffffff, 0x7f800001, 0x7fc00000, 0x7f800000, 0xff800000, 0x7f7fffff,
		0x3f808000, 0x3f818000, 0x3fffffff, 0x477fefff, 0x477ff000, 0x33000000, 0x33800001, 0x00000001, 0x007fffff,
		0x00800000, 0x80800001, 0x6e7fffff, 0xee7f8001, 0x6e800000, 0xbf808000, 0xbc018080, 0x3dcccccd,
		0x747fffff, 0x38002000, 0x387fffff, 0x38800000, 0x427fffff, 0x42800000, 0x42ffffff, 0x337fffff,
		0x3f80007f, 0x3f800fff, 0x3f801000, 0x3f803000, 0x3fffff81,
	}
	zeros := []int32{0, 1, -3, 32767, -32767, 32768, -32768, 1 << 24, 1 << 30, math.MinInt32, math.MaxInt32, 100, 511, -512, 1500, -1500}
	factors := []uint32{0x3f803f80, 0x7f807f80, 0x3c003c00, 0x80008000, 0x7c007c00, 0x7fc17fc1}
	n := len(bits) * len(zeros) // rows, one with each pair
	for _, y := range []string{"bf16", "f16", "f32"} {
		for _, more := range []string{
			"", " weight_zero_point=i32", " weight_zero_point=i32 per_sample_weights=" + y,
			" weight_scale=bf16 weight_zero_point=f32", " weight_scale=bf16 weight_zero_point=i64 per_sample_weights=" + y,
		} {
			for _, size := range []struct {
				codes         string
				columns, each int // rows of a bag
				group         int
			}{
				{"s8", 3, 2, 70}, {"s8", 35, 2, 70}, {"s8", 35, 1, 70}, {"s4", 64, 1, 70}, {"s4", 64, 2, 70}, {"u4", 70, 2, 70},
				{"s8", 35, 1, 7}, {"s4", 70, 2, 6}, {"u8", 100, 2, 10},
			} {
				text := fmt.Sprintf("weight_only_embedding_bag weight=%s[%d,%d] indices=i64[%d,%d] group_size=%d mode=sum y=%s%s",
					size.codes, n, size.columns, n, size.each, size.group, y, more)
				c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
				require.NoError(t, err)
				for i := range n {
					for j := range size.each { // the second row has the next zero point, so that infinities meet
						binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*(size.each*i+j):], uint64((i+j*len(bits))%n))
					}
					groups := (size.columns + size.group - 1) / size.group
					for k := range groups {
						at, pair := i*groups+k, (i+5*k)%n
						b, zero := bits[pair%len(bits)], int64(zeros[pair/len(bits)])
						if strings.Contains(more, "scale=bf16") {
							binary.NativeEndian.PutUint16(c.Arg("weight_scale").Before[2*at:], uint16(b>>16))
						} else {
							binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*at:], b)
						}
						switch {
						case strings.Contains(more, "point=i32"):
							binary.NativeEndian.PutUint32(c.Arg("weight_zero_point").Before[4*at:], uint32(zero))
						case strings.Contains(more, "point=i64"): // which do not all fit into 32 bits
							binary.NativeEndian.PutUint64(c.Arg("weight_zero_point").Before[8*at:], uint64(zero<<(at%3)))
						case strings.Contains(more, "point=f32"):
							binary.NativeEndian.PutUint32(c.Arg("weight_zero_point").Before[4*at:], bits[(pair+pair/len(bits))%len(bits)])
						}
					}
					if strings.Contains(more, "per_sample_weights") {
						factor := factors[i%len(factors)]
						for j := range size.each {
							if y == "f32" {
								binary.NativeEndian.PutUint32(c.Arg("per_sample_weights").Before[4*(size.each*i+j):], factor)
							} else {
								binary.NativeEndian.PutUint16(c.Arg("per_sample_weights").Before[2*(size.each*i+j):], uint16(factor>>(16*j)))
							}
						}
					}
				}
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					for _, ready := range []float64{0, 1} {
						restore := plans.SetReadyRows(ready)
						same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}, want, row)
						restore()
					}
				}
			}
		}
	}
}

// Bags of rows that fused steps take, up to one in any place.
func TestBagsOfCodesLeaveFusedSteps(t *testing.T) {
	defer plans.SetDecodedRows(0)()
	scales := map[string]uint32{"bf16": 0x6e800000, "f16": 0x387fffff}
	for _, codes := range []string{"u8", "s4"} {
		for y, other := range scales {
			for _, more := range []string{"", " per_sample_weights=" + y} {
				text := fmt.Sprintf("weight_only_embedding_bag weight=%s[40,70] indices=i64[40,40] group_size=70 weight_zero_point=i32 mode=sum y=%s%s", codes, y, more)
				c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
				require.NoError(t, err)
				for row := range 40 {
					binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*row:], math.Float32bits(0.1+float32(row)))
					binary.NativeEndian.PutUint32(c.Arg("weight_zero_point").Before[4*row:], uint32(row%8))
					for bag := range 40 {
						binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*(40*bag+row):], uint64(1+(row+bag)%39))
					}
					binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*(40*row+row):], 0)
				}
				binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before, other)
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}, want, row)
				}
			}
		}
	}
}

// In short groups fused steps take all rows or none: scales that make ties, and one that they do not take, or whose terms are
// infinite, in the first and the last columns of some tiles, in a short bag and in one of some chunks.
func TestBagsOfCodesInShortGroupsLeaveFusedSteps(t *testing.T) {
	defer plans.SetDecodedRows(0)()
	scales := []uint32{0x3f808000, 0x3f818000, 0x3fffffff, 0x477fefff, 0x33800001, 0x00800000, 0x3dcccccd, 0x3f80007f, 0x3f800fff, 0x5fffffff, 0x00800001}
	const columns, group, groups = 230, 10, 23
	for _, codes := range []string{"u8", "s4"} {
		for k, other := range []uint32{scales[0], 0, 0x80000000, 0x80000001, 0x007fffff, 0xbf808000, 0x7f7fffff, 0x7f000001, 0x7f800000, 0x7f800001, 0xffffffff} {
			for _, more := range []string{"", " weight_zero_point=i32", " per_sample_weights=bf16"} {
				bags := []string{"indices=i64[20,30]", "indices=i64[1,600]"}[k%2]
				text := fmt.Sprintf("weight_only_embedding_bag weight=%s[12,%d] %s group_size=%d mode=sum y=bf16%s", codes, columns, bags, group, more)
				c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), text)
				require.NoError(t, err)
				for i := range 600 {
					binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*i:], uint64(i%11))
				}
				binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*100:], 11)
				for _, at := range []int{0, groups / 2, groups - 1} {
					for i := range 12 * groups {
						binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*i:], scales[(i+i/groups)%len(scales)])
					}
					binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*(11*groups+at):], other)
					want := defined(t, c)
					for _, row := range rowsFor(c) {
						same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}, want, row)
					}
				}
			}
		}
	}
}

// NaNs in the first rows of a bag that is compared in parts, and in its last ones.
func TestLongBagsOfCodesTakeNaNs(t *testing.T) {
	for _, y := range []string{"f32", "bf16"} {
		c, err := testcase.NewCase(testcase.NewSource(1, testcase.Small), "weight_only_embedding_bag weight=s8[600,70] indices=i64[1,600] group_size=32 mode=max y="+y)
		require.NoError(t, err)
		for row := range 600 {
			binary.NativeEndian.PutUint64(c.Arg("indices").Before[8*row:], uint64(row))
			for group, first := range []int{2, 300, 599} {
				scale := float32(row)
				if row == first {
					scale = float32(math.NaN())
				}
				binary.NativeEndian.PutUint32(c.Arg("weight_scale").Before[4*(3*row+group):], math.Float32bits(scale))
			}
		}
		want := defined(t, c)
		for _, row := range rowsFor(c) {
			same(t, c, testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}, want, row)
		}
	}
}

// A group may be longer than a row by any number, sys.maxsize among them: it is the row.
func TestGroupsLongerThanAnyRow(t *testing.T) {
	const columns = 20
	for _, op := range []string{"weight_only_embedding_bag weight=s8[4,20] indices=i64[1,3]", "weight_only_embedding_bag weight=s8[4,20] indices=i64[1,600]", "weight_only_linear weight=s8[4,20] x=f32[3,20] bias=none", "weight_only_linear weight=s8[4,20] x=f32[9,20] bias=none"} {
		for _, scale := range []string{"f32", "f16"} {
			text := op + " weight_scale=" + scale + " group_size="
			for _, size := range []int64{columns + 1, 1 << 40, 1 << 60, 1 << 61, 1 << 62, math.MaxInt64 - 2, math.MaxInt64} {
				c, err := testcase.NewCase(testcase.NewSource(1, 0), text+fmt.Sprint(size))
				require.NoError(t, err)
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row}}, want, row)
				}
			}
		}
	}
}
