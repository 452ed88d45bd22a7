package plans_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// What was chosen is added to its row, or to its slot where there may be several chunks, or several terms of 16 bits:
// beside the lists of positions. Positions that no bag has, or another one, add nothing.
func TestChosenIsAdded(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for i, s := range []struct{ bags, indices, rows, columns int }{
		{1, 400, 5, 300}, {3, 40, 30, 5}, {256, 3000, 2, 7}, {257, 3000, 2, 7}, {257, 3000, 40, 7}, {300, 2000, 48000, 3}, {300, 2600, 9, 290}, {40, 900, 2000, 9}, {300, 1500, 1600, 18}, {20, 40, 400, 18}, {100, 3000, 100, 15},
	} {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
			for _, index := range []string{"i32", "i64"} {
				text := fmt.Sprintf("embedding_bag_backward grad_output=%[1]s[%[2]d,%[3]d] indices=%[4]s[%[5]d] offsets=i64[%[6]d] chosen=i64 grad_weight=%[1]s[%[7]d,%[3]d] mode=max include_last_offset=true padding_idx=1",
					dtype, s.bags, s.columns, index, s.indices, s.bags+1, s.rows)
				t.Run(text, func(t *testing.T) {
					c := caseOf(t, testcase.Small, text)
					chosen, offsets := c.Arg("chosen").Before, c.Arg("offsets").Before
					for k := range s.bags * s.columns {
						begin := int64(binary.NativeEndian.Uint64(offsets[k/s.columns*8:]))
						end := int64(binary.NativeEndian.Uint64(offsets[(k/s.columns+1)*8:]))
						at := begin + r.Int64N(end-begin+1) // now and then one beyond
						if r.IntN(20) == 0 {
							at = []int64{-1, begin - 1, int64(s.indices), 1 << 62}[r.IntN(4)]
						}
						binary.NativeEndian.PutUint64(chosen[8*k:], uint64(at))
						if k%7 == 0 {
							dy := c.Arg("grad_output")
							negative := testcase.Encode(nil, dy.DType, math.Copysign(0, -1))
							copy(dy.Before[k*len(negative):], negative)
						}
					}
					want := defined(t, c)
					for _, stream := range []int64{1, 1 << 40} {
						defer plans.SetStreamFrom(stream)()
						o := testcase.Options{Preference: plans.Preference{Threads: 3}}
						same(t, c, o, want, "compact")
						for _, l := range layouts {
							o.Layout = l.layout
							same(t, c, o, want, l.name)
						}
					}
				})
			}
		}
	}
}

// A row that every bag chose: a chunk of 256 bags, and what later chunks begin with. Rows are counted
// by what was chosen, or by all indices, or terms while they are added; some sums are added to what is there.
func TestChosenFromOneRow(t *testing.T) {
	for _, dtype := range []string{"f32", "f64", "f16"} {
		for _, bags := range []int{256, 257, 300, 600, 1030} {
			for _, s := range [][3]int{{5, 2, 3}, {300, 80, 3}, {2, 9, 3}, {1, 1, 3}, {3, 2, 5000}, {2, 3, 5000}} {
				columns, each, rows := s[0], s[1], s[2]
				text := fmt.Sprintf("embedding_bag_backward grad_output=%[1]s[%[2]d,%[3]d] indices=i64[%[2]d,%[4]d] chosen=i64 grad_weight=%[1]s[%[5]d,%[3]d] mode=max accumulate=%[6]t", dtype, bags, columns, each, rows, columns%2 == 0)
				t.Run(text, func(t *testing.T) {
					c := finiteCase(t, text)
					clear(c.Arg("indices").Before)
					for k := range bags * columns {
						binary.NativeEndian.PutUint64(c.Arg("chosen").Before[8*k:], uint64(k/columns*each+k%2%each))
					}
					same(t, c, testcase.Options{Preference: plans.Preference{Threads: 2}}, defined(t, c), text)
				})
			}
		}
	}
}

// Short bags compare ranks: every row does so of every type, in tiles of every width.
func TestRanksAreCompared(t *testing.T) {
	defer plans.SetParallelCost(1)()
	r := rand.New(rand.NewPCG(9, 5))
	for _, dtype := range []string{"f32", "f64", "bf16", "f16"} {
		for _, columns := range []int{1, 23, 64, 300} {
			sameOnRows(t, r, fmt.Sprintf("embedding_bag_backward grad_output=%[1]s[40,%[2]d] indices=i64[40,3] chosen=i64 grad_weight=%[1]s[50,%[2]d] mode=max", dtype, columns))
		}
	}
}
