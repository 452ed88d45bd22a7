package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Sums of bags, and of the bags' gradients, of as many terms as make chunks:
// with and without weights, on the row that runs and on the definition.
func TestChunkSumsOfBags(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const rows, columns = 7, 40
	for _, count := range counts {
		for _, weighted := range []bool{false, true} {
			// Three bags: the first has one position, the second none.
			n := int64(count + 1)
			weight, factors := draw(r, rows, columns), draw(r, n)
			index, offsets := tensor.New(tensor.I64, n), tensor.Of([]int32{0, 1, 1})
			terms := make([][]float32, columns)
			for i := range n {
				row := r.Int64N(rows)
				tensor.Slice[int64](index)[i] = row
				for k := range terms {
					v := tensor.Slice[float32](weight)[row*columns+int64(k)]
					if weighted {
						v *= tensor.Slice[float32](factors)[i]
					}
					if i > 0 {
						terms[k] = append(terms[k], v)
					}
				}
			}
			text := fmt.Sprintf("embedding_bag weight=%s indices=i64[%d] offsets=i32[3] mode=sum", &weight, n)
			inputs := []tensor.View{weight, index, offsets}
			if weighted {
				text, inputs = text+" per_sample_weights=f32", append(inputs, factors)
			}
			sum := sums(t, text, inputs...)[0]
			for k := range terms {
				want := testcase.Chunk(terms[k])
				require.Zero(t, sum[columns+k])
				require.Equal(t, want, sum[2*columns+k], "column %d of %d", k, count)
				if !weighted {
					mean := sums(t, fmt.Sprintf("embedding_bag weight=%s indices=i64[%d] offsets=i32[3]", &weight, n), inputs...)[0]
					require.Equal(t, want/float32(count), mean[2*columns+k])
				}
			}
			// Backward: bags of one position each, all of which name the same row.
			clear(tensor.Slice[int64](index))
			dy := draw(r, n, columns)
			for k := range terms {
				terms[k] = nil
				for i := range n {
					v := tensor.Slice[float32](dy)[i*columns+int64(k)]
					if weighted {
						v *= tensor.Slice[float32](factors)[i]
					}
					terms[k] = append(terms[k], v)
				}
			}
			text = fmt.Sprintf("embedding_bag_backward grad_output=%s indices=i64[%d,1] grad_weight=f32[2,%d] mode=sum", &dy, n, columns)
			index.Shape, factors.Shape = []int64{n, 1}, []int64{n, 1}
			inputs = []tensor.View{dy, index}
			if weighted {
				text, inputs = text+" per_sample_weights=f32", append(inputs, factors)
			}
			for k, got := range sums(t, text, inputs...)[0][:columns] {
				require.Equal(t, testcase.Chunk(terms[k]), got, "column %d of %d", k, n)
			}
			if weighted {
				continue
			}
			// With mode=max, of bags that chose some of their columns elsewhere.
			chosen := tensor.New(tensor.I64, n, columns)
			for i := range n * columns {
				if tensor.Slice[int64](chosen)[i] = i / columns; i/columns == 0 {
					terms[i%columns] = terms[i%columns][:0]
				}
				if r.IntN(4) == 0 {
					tensor.Slice[int64](chosen)[i] = -1
				} else {
					terms[i%columns] = append(terms[i%columns], tensor.Slice[float32](dy)[i])
				}
			}
			text = strings.Replace(text, "mode=sum", "mode=max chosen=i64", 1)
			for k, got := range sums(t, text, dy, index, chosen)[0][:columns] {
				require.Equal(t, testcase.Chunk(terms[k]), got, "column %d of %d chosen from", k, n)
			}
		}
	}
}

// Each gradient against finite differences.
func TestEmbeddingBagGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, tc := range []struct {
		count int
		keys  string
	}{
		{4, "mode=sum"},
		{4, "mode=mean"},
		{4, "mode=mean padding_idx=1"},
		{3, "mode=sum padding_idx=3 include_last_offset=true"},
		{4, "mode=sum per_sample_weights=f64"},
		{4, "mode=max chosen=i64"},
		{3, "mode=max chosen=i64 padding_idx=4 include_last_offset=true"},
	} {
		bags := "indices=i64[7] offsets=i64[4] " + tc.keys
		g := gradient{
			inputs: tensors{
				"weight":  uniform(r, -1, 1, 5, 3),
				"indices": tensor.Of([]int64{1, 4, 1, 0, 1, 3, 2}), "offsets": tensor.Of([]int64{0, 3, 3, 5}),
			},
			of:       map[string]string{"grad_weight": "weight"},
			forward:  performing(t, "embedding_bag weight=f64[5,3] "+bags, "y"),
			backward: fmt.Sprintf("embedding_bag_backward grad_output=f64[%d,3] grad_weight=f64[5,3] %s", tc.count, bags),
		}
		weighted := strings.Contains(tc.keys, "per_sample_weights")
		if weighted {
			g.inputs["per_sample_weights"] = uniform(r, -1, 1, 7)
		}
		g.check(t, r)
		if weighted {
			g.of = map[string]string{"grad_per_sample_weights": "per_sample_weights"}
			g.backward = "embedding_bag_per_sample_weights_backward grad_output=f64[4,3] weight=f64[5,3] indices=i64[7] offsets=i64[4]"
			g.check(t, r)
		}
	}
}

// The largest of zeros, infinities and NaN, and where it is said to be from.
func TestEmbeddingBagMaxByHand(t *testing.T) {
	nan, inf, minus := float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))
	weight := tensor.Of([]float32{0, minus, -inf, nan, minus, 0, nan, 2, 1, 1, inf, nan}, 3, 4)
	for _, tc := range []struct {
		index  []int64
		y      []float32
		chosen []int64
	}{
		{[]int64{0, 1}, []float32{0, minus, nan, nan}, []int64{0, 0, 1, 0}},
		{[]int64{1, 0, 2}, []float32{1, 1, nan, nan}, []int64{2, 2, 0, 1}},
		{[]int64{0, 0}, []float32{0, minus, -inf, nan}, []int64{0, 0, 0, 0}},
		{[]int64{}, []float32{0, 0, 0, 0}, []int64{-1, -1, -1, -1}},
	} {
		n := int64(len(tc.index))
		out := outputs(t, fmt.Sprintf("embedding_bag weight=f32[3,4] indices=i64[1,%d] mode=max chosen=i64", n), weight, tensor.Of(tc.index, 1, n))
		for i, v := range tensor.Slice[float32](out[0]) {
			require.True(t, math.Float32bits(v) == math.Float32bits(tc.y[i]) || v != v && tc.y[i] != tc.y[i], "%v: y[%d] is %v", tc.index, i, v)
		}
		require.Equal(t, tc.chosen, tensor.Slice[int64](out[1]))
	}
}

// Values of offsets that are refused, wherever they stand.
func TestBadOffsets(t *testing.T) {
	weight, index := tensor.New(tensor.F32, 5, 3), tensor.New(tensor.I64, 8)
	for _, tc := range []struct {
		offsets []int64
		want    string
	}{
		{[]int64{1, 2}, "is 1 at position 0; want 0 to 0"},
		{[]int64{-1, 2}, "is -1 at position 0; want 0 to 0"},
		{[]int64{0, 5, 4}, "is 4 at position 2; want 5 to 8"},
		{[]int64{0, 9}, "is 9 at position 1; want 0 to 8"},
	} {
		offsets, n := tensor.Of(tc.offsets), int64(len(tc.offsets))
		dy, y := tensor.New(tensor.F32, n, 3), tensor.New(tensor.F32, n, 3)
		for _, run := range []struct {
			text string
			args []tensor.View
		}{
			{"embedding_bag weight=f32[5,3]", []tensor.View{weight, index, offsets, {}, y, {}}},
			{fmt.Sprintf("embedding_bag_backward grad_output=%s grad_weight=f32[5,3]", &dy), []tensor.View{dy, index, offsets, {}, {}, weight}},
			{fmt.Sprintf("embedding_bag_per_sample_weights_backward grad_output=%s weight=f32[5,3]", &dy), []tensor.View{dy, weight, index, offsets, tensor.New(tensor.F32, 8)}},
		} {
			plan, err := plans.Select(0, plans.MustParse(fmt.Sprintf("%s indices=i64[8] offsets=i64[%d]", run.text, n)), plans.Preference{})
			require.NoError(t, err)
			e := requireKind(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), run.args), plans.InvalidArgument)
			require.Equal(t, "offsets", e.Arg)
			require.Equal(t, tc.want, e.Msg)
		}
	}
}

// Bags of so many rows that kernels take them in parts: of equals the first, and
// the first NaN, in whichever part; with less than a vector of columns, too.
func TestLargestOfLongBags(t *testing.T) {
	for _, dtype := range []string{"f32", "f64", "bf16"} {
		for _, size := range [][2]int{{300, 1023}, {300, 1024}, {300, 1025}, {300, 2048}, {300, 5000}, {1, 1025}, {3, 1024}, {7, 5000}, {12, 1025}} {
			text := fmt.Sprintf("embedding_bag weight=%s[30,%d] indices=i64[3,%d] mode=max chosen=i64 padding_idx=3", dtype, size[0], size[1])
			for _, c := range []*testcase.Case{caseOf(t, testcase.Large, text), finiteCase(t, text)} {
				want := defined(t, c)
				for _, row := range rowsFor(c) {
					same(t, c, testcase.Options{Preference: plans.Preference{Row: row}}, want, row)
				}
			}
		}
	}
}
