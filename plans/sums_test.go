package plans_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Whole ops against their formula, with sums in the contract's orders written
// down literally. Values have many sizes, so that every order has its own sum.

func draw(r *rand.Rand, shape ...int64) tensor.View {
	v := tensor.New(tensor.F32, shape...)
	for i := range tensor.Slice[float32](v) {
		tensor.Slice[float32](v)[i] = float32(r.NormFloat64() * math.Ldexp(1, r.IntN(20)))
	}
	return v
}

// sums are the outputs of a problem that are all f32.
func sums(t *testing.T, text string, inputs ...tensor.View) (values [][]float32) {
	t.Helper()
	for _, out := range outputs(t, text, inputs...) {
		values = append(values, tensor.Slice[float32](out))
	}
	return values
}

var lengths = []int64{0, 1, 63, 64, 65, 1000, 65535, 65536, 65537, 200001}

func TestStripeSumsOfGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range lengths {
		dy, q := draw(r, n), tensor.New(tensor.S8, n)
		var ds, dz []float32
		for i, g := range tensor.Slice[float32](dy) {
			code := int8(r.IntN(256) - 128)
			tensor.Slice[int8](q)[i] = code
			ds = append(ds, g*(float32(code)-3))
			dz = append(dz, g)
		}
		const s = 0.3
		got := sums(t, fmt.Sprintf("dequantize_per_tensor_backward grad_output=%s grad_input=none grad_scale=f32 zero_point=f32 grad_zero_point=f32 qmin=-128 qmax=127", &dy),
			dy, q, tensor.Of([]float32{s}), tensor.Of([]float32{2.7}))
		require.Equal(t, []float32{testcase.Stripe(ds)}, got[0], "ds of %d", n)
		require.Equal(t, []float32{0 - s*testcase.Stripe(dz)}, got[1], "dz of %d", n)
	}
}

// A channel's elements are numbered in row-major order, over all images.
func TestStripeSumsOfChannels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const images, channels, pixels = 7, 3, 10007
	dy, x := draw(r, images, channels, pixels), draw(r, images, channels, pixels)
	scale := []float32{100, 3000, 7}
	terms := make([][]float32, channels)
	for i, g := range tensor.Slice[float32](dy) {
		c := i / pixels % channels
		u := tensor.Slice[float32](x)[i] / scale[c]
		e := float32(math.RoundToEven(float64(u)))
		switch {
		case e < -128:
			e = -128
		case e > 127:
			e = 127
		default:
			e -= u
		}
		terms[c] = append(terms[c], g*e)
	}
	got := sums(t, fmt.Sprintf("fake_quantize_per_channel_backward grad_output=%s zero_point=none axis=1 qmin=-128 qmax=127 grad_scale=f32 grad_factor=0.5", &dy),
		dy, x, tensor.Of(scale))
	for c := range channels {
		require.Equal(t, testcase.Stripe(terms[c])*0.5, got[1][c], "channel %d", c)
	}
}

func TestStripeSumsOfTheta(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range lengths {
		grid := draw(r, 1, 1, n, 2)
		var x, last []float32
		for i := range n {
			g := tensor.Slice[float32](grid)[2*i+1]
			x = append(x, g*(float32(2*i+1)/float32(n)-1))
			last = append(last, g)
		}
		theta := sums(t, fmt.Sprintf("affine_grid_backward grad_grid=%s", &grid), grid)[0]
		require.Equal(t, []float32{testcase.Stripe(x), testcase.Stripe(last)}, []float32{theta[3], theta[5]}, "%d", n)
	}
}

func TestStripeSumsOfNorms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range lengths[1:] {
		weight := draw(r, 1, n)
		var squares []float32
		want := append([]float32{}, tensor.Slice[float32](weight)...)
		for _, w := range want {
			squares = append(squares, float32(w*w))
		}
		factor := 3 / (float32(math.Sqrt(float64(testcase.Stripe(squares)))) + 1e-7)
		for i := range want {
			want[i] *= factor
		}
		p := plans.MustParse(fmt.Sprintf("embedding_renorm weight=%s indices=i32[1] max_norm=3", &weight))
		plan, err := plans.Select(0, p, plans.Preference{})
		require.NoError(t, err)
		require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{weight, tensor.Of([]int32{0})}))
		require.Equal(t, want, tensor.Slice[float32](weight), "%d", n)
	}
}

// counts are numbers of contributions to one destination, around chunks.
var counts = []int{1, 2, 255, 256, 257, 511, 512, 513, 768, 769, 1500}

// named lists destinations in a random order, each as often as asked.
func named(r *rand.Rand, often ...int) (list []int) {
	for destination, n := range often {
		for range n {
			list = append(list, destination)
		}
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// Rows that many indices name, in tiles of columns.
func TestChunkSumsOfRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, count := range counts {
		const rows, columns = 3, 300
		names := named(r, count, count/2, count/3)
		n := int64(len(names))
		dy, index := draw(r, n, columns), tensor.New(tensor.I64, n)
		var terms [rows][columns][]float32
		for i := range n {
			row := names[i]
			tensor.Slice[int64](index)[i] = int64(row)
			for k := range columns {
				terms[row][k] = append(terms[row][k], tensor.Slice[float32](dy)[i*columns+int64(k)])
			}
		}
		got := sums(t, fmt.Sprintf("embedding_backward grad_output=%s indices=i64[%d] grad_weight=f32[%d,%d]", &dy, n, rows, columns), dy, index)[0]
		for row := range rows {
			for k := range columns {
				require.Equal(t, testcase.Chunk(terms[row][k]), got[row*columns+k], "row %d, column %d of %d", row, k, n)
			}
		}
	}
}

// Pixels that many positions read.
func TestChunkSumsOfPixels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, count := range counts {
		const channels = 5
		pixels := named(r, count, count/5)
		n := int64(len(pixels))
		dy, grid := draw(r, 1, channels, 1, n), tensor.New(tensor.F32, 1, 1, n, 2)
		nearest, bilinear := [channels][2][]float32{}, [channels][2][]float32{}
		for i := range n {
			pixel := pixels[i]
			tensor.Slice[float32](grid)[2*i] = []float32{-0.5, 0.5}[pixel]
			for c := range channels {
				g := tensor.Slice[float32](dy)[int64(c)*n+i]
				nearest[c][pixel] = append(nearest[c][pixel], g)
				bilinear[c][pixel] = append(bilinear[c][pixel], g)
				if pixel == 0 {
					bilinear[c][1] = append(bilinear[c][1], 0) // the tap to the east, inside with weight 0
				}
			}
		}
		input := tensor.New(tensor.F32, 1, channels, 1, 2)
		for mode, terms := range map[string][channels][2][]float32{"nearest": nearest, "bilinear": bilinear} {
			got := sums(t, fmt.Sprintf("grid_sample_backward grad_output=%s input=%s grid=%s mode=%s grad_grid=none", &dy, &input, &grid, mode), dy, input, grid)[0]
			for c := range channels {
				for pixel := range 2 {
					require.Equal(t, testcase.Chunk(terms[c][pixel]), got[2*c+pixel], "%s: channel %d, pixel %d of %d", mode, c, pixel, n)
				}
			}
		}
	}
}

// A pixel that many positions hit, of an image whose parts are too large for channels that are summed side by side.
func TestChunkSumsOfALargeImage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n, hits, width = 1 << 18, 300, 1025
	dy, grid := draw(r, 1, 2, 1, n), tensor.New(tensor.F32, 1, 1, n, 2)
	var terms [2][]float32
	for i := range n {
		at := []float32{float32(i%512) / 512, float32(i) / n} // columns and rows from the middle one on
		if i%8 == 0 && i < 8*hits {                           // some in each block
			at = []float32{-0.5, -1}
			for c := range terms {
				terms[c] = append(terms[c], tensor.Slice[float32](dy)[c*n+i])
			}
		}
		copy(tensor.Slice[float32](grid)[2*i:], at)
	}
	input := tensor.New(tensor.F32, 1, 2, 3201, width)
	text := fmt.Sprintf("grid_sample_backward grad_output=%s input=%s grid=%s grad_grid=none align_corners=true", &dy, &input, &grid)
	got := sums(t, text, dy, input, grid)[0]
	for c := range 2 {
		require.Equal(t, testcase.Chunk(terms[c]), got[c*3201*width+256], "channel %d", c)
	}
}

// The gradient of one position, over channels.
func TestGroupSumsOfGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const tx, ty = 0.25, 0.625
	for channels := range int64(70) {
		dy, input := draw(r, 1, channels, 1, 1), draw(r, 1, channels, 2, 2)
		var north, south, west, east []float32
		for c, g := range tensor.Slice[float32](dy) {
			v := tensor.Slice[float32](input)[4*c:]
			north = append(north, g*(v[1]-v[0]))
			south = append(south, g*(v[3]-v[2]))
			west = append(west, g*(v[2]-v[0]))
			east = append(east, g*(v[3]-v[1]))
		}
		grid := tensor.Of([]float32{2*tx - 1, 2*ty - 1}, 1, 1, 1, 2)
		got := sums(t, fmt.Sprintf("grid_sample_backward grad_output=%s input=%s grid=%s grad_input=none align_corners=true", &dy, &input, &grid), dy, input, grid)[0]
		x := float32(testcase.Group(north)*(1-ty)) + float32(testcase.Group(south)*ty)
		y := float32(testcase.Group(west)*(1-tx)) + float32(testcase.Group(east)*tx)
		require.Equal(t, []float32{x * 0.5, y * 0.5}, got, "%d channels", channels)
	}
}
