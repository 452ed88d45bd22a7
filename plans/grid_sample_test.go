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

// Ways of grid_sample that its size decides on give the definition's bits:
// images whole or in bands, pixels with and without chunks, sums of channels in
// planes and side by side, tiles of wide outputs. Special values first, then
// numbers whose sums show their order.
func TestWaysOfGridSample(t *testing.T) {
	defer plans.SetParallelCost(1)()
	for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
		t.Run(mode, func(t *testing.T) {
			images := []int{1, 2, 3, 4, 6, 15, 18}
			if testing.Short() { // where every pointer is checked
				images = []int{1, 3, 18}
			}
			waysOfGridSample(t, mode, []string{"f32", "bf16"}, images, [][6]int{
				{2, 1, 3, 4, 10, 11},     // no pixel has a chunk
				{2, 1, 3, 4, 40, 50},     // most have, from some block on
				{1, 1, 3, 21, 60, 80},    // so have they in longer rows
				{5, 1, 1, 1, 30, 30},     // every tap but one is outside
				{1, 1, 30, 31, 2, 7},     // fewer positions than a vector has
				{1, 1, 80, 81, 2, 7},     // and far fewer than there are pixels
				{6, 1, 28, 28, 28, 28},   // whole vectors
				{2, 1, 40, 500, 33, 450}, // tiles
			})
			waysOfGridSample(t, mode, []string{"f64", "f16"}, []int{1, 2, 3, 4, 16}, [][6]int{{2, 1, 3, 4, 40, 50}, {2, 1, 28, 29, 28, 31}})
			types, channels, volumes := []string{"f32", "f64", "bf16", "f16"}, []int{1, 3, 8, 12, 18}, [][6]int{
				{2, 3, 4, 5, 10, 11},  // no pixel has a chunk
				{2, 2, 2, 2, 40, 50},  // most have
				{1, 1, 3, 5, 11, 23},  // half of the taps are outside
				{2, 3, 3, 1, 7, 9},    // so are those along x
				{1, 9, 12, 20, 2, 3},  // fewer positions than a vector has
				{3, 7, 16, 16, 8, 32}, // whole vectors
				{1, 18, 20, 20, 1, 3}, // far fewer positions than there are pixels
			}
			if mode == "bicubic" { // 64 taps take the definition their time
				channels, volumes[1], volumes[5] = []int{1, 3, 18}, [6]int{1, 2, 2, 2, 20, 50}, [6]int{1, 4, 5, 16, 8, 32}
			}
			waysOfGridSample(t, mode, types, channels, volumes)
		})
	}
}

// waysOfGridSample ranges over sizes: their number, D, H, W, H and W of the
// output. They are volumes unless every D is 1.
func waysOfGridSample(t *testing.T, mode string, types []string, channelCounts []int, sizes [][6]int) {
	r := rand.New(rand.NewPCG(1, 1))
	volumes := false
	for _, size := range sizes {
		volumes = volumes || size[1] > 1
	}
	for _, size := range sizes {
		images, h, w, outH, outW := size[0], size[2], size[3], size[4], size[5]
		for i, channels := range channelCounts {
			if channels > 4 && w > 100 {
				continue
			}
			for j, dtype := range types {
				if len(types) == 2 && j == 1 && channels%3 != 0 || len(types) > 2 && (i+j)%2 == 1 {
					continue
				}
				depth, outDepth, last := "", "", 2
				if volumes {
					depth, outDepth, last = fmt.Sprintf("%d,", size[1]), "2,", 3
				}
				grid := dtype
				if dtype != "f64" {
					grid = "f32"
				}
				shapes := fmt.Sprintf("input=%s[%d,%d,%s%d,%d] grid=%s[%d,%s%d,%d,%d]", dtype, images, channels, depth, h, w, grid, images, outDepth, outH, outW, last)
				upstream := fmt.Sprintf("grad_output=%s[%d,%d,%s%d,%d] ", dtype, images, channels, outDepth, outH, outW)
				for _, text := range []string{"grid_sample " + shapes, "grid_sample_backward " + upstream + shapes} {
					text += " mode=" + mode + " padding_mode=" + []string{"zeros", "border", "reflection"}[r.IntN(3)]
					text += fmt.Sprintf(" align_corners=%t", r.IntN(2) == 0)
					c, err := testcase.NewCase(testcase.NewSource(r.Uint64(), testcase.Small), text)
					require.NoError(t, err)
					want := run(t, c, definition)
					for _, n := range []int{1, 3} {
						o := testcase.Options{Preference: plans.Preference{Row: anyRow(r, c), Threads: n}}
						same(t, c, o, want, "threads")
						o.Layout = testcase.Mixed(r)
						same(t, c, o, want, "layout")
					}
					sameOnNumbers(t, c.Op.Name, c.Problem)
				}
			}
		}
	}
}

// Fewer positions than a vector has, of more channels than there is memory for at a time.
func TestGridSampleOfFewPositions(t *testing.T) {
	for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
		for _, dtype := range []string{"f32", "f64"} {
			shapes := fmt.Sprintf("input=%[1]s[2,8300,2,3] grid=%[1]s[2,1,3,2] mode=%[2]s", dtype, mode)
			for _, text := range []string{"grid_sample " + shapes, fmt.Sprintf("grid_sample_backward grad_output=%s[2,8300,1,3] grad_input=none %s", dtype, shapes)} {
				p := plans.MustParse(text)
				sameOnNumbers(t, text[:strings.Index(text, " ")], p)
			}
		}
	}
}

// Positions that stay in one cell for a while: a pixel's chunks end within such a run, several in one of
// more than 256 positions.
func TestRunsInOneCell(t *testing.T) {
	for channels := 1; channels <= 4; channels++ {
		r, left, at := rand.New(rand.NewPCG(7, uint64(channels))), 0, [2]float64{}
		grid := func(i int64) float64 {
			if i%2 == 0 {
				if left == 0 {
					left, at = 1+r.IntN([]int{2, 20, 700}[r.IntN(3)]), [2]float64{r.Float64()*3 - 1.5, r.Float64()*3 - 1.5}
				}
				left--
			}
			return at[i%2] + r.Float64()/100
		}
		for _, padding := range []string{"zeros", "border"} {
			text := fmt.Sprintf("grid_sample_backward grad_output=f32[1,%[1]d,9,700] grad_grid=none input=f32[1,%[1]d,6,4] grid=f32[1,9,700,2] padding_mode=%[2]s", channels, padding)
			sameOn(t, "grid_sample_backward", plans.MustParse(text), grid)
		}
	}
}

// The gradient of the grid alone, of small images with more channels than fold
// at once: those from the 17th on count, too.
func TestGridGradientOfManyChannels(t *testing.T) {
	for _, channels := range []int{16, 17, 33} {
		text := fmt.Sprintf("grid_sample_backward grad_output=f32[1,%[1]d,7,4] grad_input=none align_corners=true input=f32[1,%[1]d,3,7] grid=f32[1,7,4,2]", channels)
		sameOnNumbers(t, "grid_sample_backward", plans.MustParse(text))
	}
}

// The grid's gradient of nearest is zeros, and nothing beside them, however they lie.
func TestGridGradientOfNearest(t *testing.T) {
	shape := []int64{3, 2, 5, 2}
	for _, dtype := range []tensor.DType{tensor.F16, tensor.F32, tensor.F64} {
		for _, strides := range [][]int64{
			{20, 10, 2, 1}, {2, 40, 8, 1}, {24, 12, 2, 1}, {30, 14, 2, 1}, {20, 5, 1, 10}, {48, 24, 4, 2}, {1, 3, 6, 30}, {100, 50, 3, 20}, {22, 11, 2, 1},
		} {
			p, err := plans.Parse(fmt.Sprintf("grid_sample_backward grad_output=%[1]v[3,1,2,5] input=%[1]v[3,1,4,4] grid=%[1]v[3,2,5,2] mode=nearest grad_input=none", dtype))
			require.NoError(t, err)
			plan, err := plans.Select(0, p, plans.Preference{})
			require.NoError(t, err)
			memory, size := tensor.New(tensor.U8, 400*8), dtype.Size()
			got, want := tensor.Slice[uint8](memory), make([]uint8, 400*8)
			for i := range got {
				got[i], want[i] = 1, 1
			}
			gradient := tensor.View{Data: memory.Data, DType: dtype, Shape: shape, Strides: strides}
			for i := range gradient.NumElements() {
				at := i/20*strides[0] + i/10%2*strides[1] + i/2%5*strides[2] + i%2*strides[3]
				clear(want[at*size:][:size])
			}
			args := []tensor.View{tensor.New(dtype, 3, 1, 2, 5), tensor.New(dtype, 3, 1, 4, 4), tensor.New(dtype, shape...), {}, gradient}
			require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
			require.Equal(t, want, got, "%v %v", dtype, strides)
		}
	}
}

// Coordinates far outside are folded by an exact remainder, in every row: small
// and large ones, those at pixels, between them and at the folds.
func TestFoldedCoordinates(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, types := range []string{"f32", "f64"} {
		for _, size := range []int64{2, 3, 7, 100, 511} {
			for _, align := range []bool{false, true} {
				keys := fmt.Sprintf("input=%[1]s[1,1,%[2]d,%[2]d] grid=%[1]s[1,40,50,2] padding_mode=reflection align_corners=%[3]t", types, size, align)
				grid := func(i int64) float64 {
					near := float64(r.Int64N(8*size)-4*size) / float64(2*size) // whole and half pixels
					switch i % 4 * (i / 500 % 2) {                             // of half of the rows none is far
					case 0:
						return near*2 - 1
					case 1:
						return near * math.Ldexp(1, r.IntN(26))
					case 2:
						return math.Nextafter(near, 9) * math.Ldexp(1+r.Float64(), r.IntN(60)-20)
					}
					return []float64{math.Inf(1), math.Inf(-1), math.NaN(), 3e38}[r.IntN(4)]
				}
				for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
					sameOn(t, "grid_sample", plans.MustParse("grid_sample "+keys+" mode="+mode), grid)
					for _, op := range []string{"grid_sample_backward", "grid_sample_double_backward"} {
						sameOn(t, op, plans.MustParse(fmt.Sprintf("%s grad_output=%s[1,1,40,50] ", op, types)+keys+" mode="+mode), grid)
					}
				}
			}
		}
	}
}

// sameOnNumbers compares a problem's rows with its definition on numbers in [-1, 1).
func sameOnNumbers(t *testing.T, op string, p plans.Problem) {
	t.Helper()
	sameOn(t, op, p, nil)
}

// sameOn does so where the grid's values are given, unless they are nil.
func sameOn(t *testing.T, op string, p plans.Problem, grid func(i int64) float64) {
	t.Helper()
	before := map[string]tensor.View{}
	result := func(pref plans.Preference) (outputs [][]byte) {
		plan, err := plans.Select(0, p, pref)
		require.NoError(t, err)
		var args []tensor.View
		for n, a := range plans.Describe(plan).Args {
			if !a.Present {
				args = append(args, tensor.View{})
				continue
			}
			if _, drawn := before[a.Name]; !drawn {
				before[a.Name] = noiseFrom(uint64(n), 0, p.DType(a.Name), a.Shape...)
				if a.Name == "grid" && grid != nil {
					setGrid(before[a.Name], grid)
				}
			}
			v := tensor.New(p.DType(a.Name), a.Shape...)
			copy(tensor.Bytes(v), tensor.Bytes(before[a.Name]))
			args = append(args, v)
			if a.Direction == "out" {
				outputs = append(outputs, tensor.Bytes(v))
			}
		}
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
		return outputs
	}
	want := result(plans.Preference{Row: "go", Threads: 1})
	for _, row := range rowsOf(op) {
		for _, n := range []int{1, 3} {
			pref := plans.Preference{Row: row, Threads: n}
			if row == "go" && n == 1 { // what want is
				continue
			}
			if _, err := plans.Select(0, p, pref); err != nil {
				requireKind(t, err, plans.Unsupported)
				continue
			}
			require.Equal(t, want, result(pref), "%v, row %s on %d threads", &p, row, n)
		}
	}
}

// setGrid sets the values of a grid of f32 or f64.
func setGrid(v tensor.View, grid func(i int64) float64) {
	for i := range v.NumElements() {
		if v.DType == tensor.F64 {
			tensor.Slice[float64](v)[i] = grid(i)
		} else {
			tensor.Slice[float32](v)[i] = float32(grid(i))
		}
	}
}
