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

var paddings = []string{"zeros", "border", "reflection"}

// bicubic runs a forward and a backward of one row of positions.
func bicubic(t *testing.T, padding string, corners bool, input, grid, dy tensor.View) (y, dinput, dgrid []float32) {
	t.Helper()
	keys := fmt.Sprintf(" input=%s grid=%s mode=bicubic padding_mode=%s align_corners=%t", &input, &grid, padding, corners)
	y = sums(t, "grid_sample"+keys, input, grid)[0]
	gradients := sums(t, fmt.Sprintf("grid_sample_backward grad_output=%s", &dy)+keys, dy, input, grid)
	return y, gradients[0], gradients[1]
}

// cubicWeight is the weight of a tap at a distance, which a polynomial of
// float64 has to the last bits.
func cubicWeight(d float64) float64 {
	const a = -0.75
	if d = math.Abs(d); d <= 1 {
		return (a+2)*d*d*d - (a+3)*d*d + 1
	} else if d < 2 {
		return a*d*d*d - 5*a*d*d + 8*a*d - 4*a
	}
	return 0
}

// Coordinates that are no numbers, or that no image is large enough for, in the
// middle of others: of eight positions, enough for a vector, of an image that
// is large enough for kernels, too.
func TestBicubicAtSpecialCoordinates(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	const size = 6
	input := tensor.New(tensor.F32, 1, 1, size, size)
	for i := range tensor.Slice[float32](input) {
		tensor.Slice[float32](input)[i] = float32(i%size + 1)
	}
	for _, c := range []struct {
		x                         float32
		zeros, border, reflection float32 // the value
	}{
		{-inf, 0, 1, 1}, {inf, 0, size, 1}, {nan, 0, 1, 1},
		{-1e30, 0, 1, 1}, {1e30, 0, size, 1}, {-3e38, 0, 1, 1}, {3e38, 0, size, 1},
		{-1, 1, 1, 1}, {1, size, size, size},
	} {
		const n = 17
		grid, dy := tensor.New(tensor.F32, 1, 1, n, 2), tensor.New(tensor.F32, 1, 1, 1, n)
		for i := range n {
			copy(tensor.Slice[float32](grid)[2*i:], []float32{c.x, -0.2}) // between the pixels of row 2 and 3
			tensor.Slice[float32](dy)[i] = 1
		}
		for i, want := range []float32{c.zeros, c.border, c.reflection} {
			y, dinput, dgrid := bicubic(t, paddings[i], true, input, grid, dy)
			sum := float32(0)
			for _, v := range dinput {
				sum += v
			}
			for at := range n {
				require.InDelta(t, want, y[at], 1e-5, "%v %s", c.x, paddings[i])
				if c.x-c.x != 0 || want == 0 {
					require.Equal(t, uint32(0), math.Float32bits(dgrid[2*at]), "%v %s", c.x, paddings[i])
				}
			}
			if want == 0 {
				require.Equal(t, make([]float32, size*size), dinput, "%v %s", c.x, paddings[i])
			} else {
				require.InDelta(t, n, sum, 1e-3, "%v %s", c.x, paddings[i])
			}
		}
	}
}

// A single pixel, at which all taps of a position meet: with border and
// reflection its weight is 1, wherever the position is, and every position
// contributes 16 times.
func TestBicubicOfOnePixel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const n, channels = 100, 5
	input, grid, dy := draw(r, 1, channels, 1, 1), tensor.New(tensor.F32, 1, 1, n, 2), draw(r, 1, channels, 1, n)
	for i := range tensor.Slice[float32](grid) {
		tensor.Slice[float32](grid)[i] = float32(r.Float64()*6 - 3)
	}
	for _, padding := range paddings[1:] {
		for _, corners := range []bool{false, true} {
			y, dinput, dgrid := bicubic(t, padding, corners, input, grid, dy)
			for c, v := range tensor.Slice[float32](input) {
				var terms []float32
				for i := range n {
					require.InEpsilon(t, v, y[c*n+i], 1e-5)
					w := [2][4]float32{}
					for axis := range w {
						w[axis] = weightsAt(tensor.Slice[float32](grid)[2*i+axis], corners)
					}
					for _, wy := range w[1] {
						for _, wx := range w[0] {
							weight := float32(wx * wy)
							terms = append(terms, float32(tensor.Slice[float32](dy)[c*n+i]*weight))
						}
					}
				}
				require.Equal(t, testcase.Chunk(terms), dinput[c], "%s, channel %d", padding, c)
			}
			for _, d := range dgrid {
				if corners {
					require.Zero(t, d) // k is 0 by its formula
				}
			}
		}
	}
}

// weightsAt are a position's weights in an image of one pixel, as NUMERICS.md
// writes them down.
func weightsAt(g float32, corners bool) (w [4]float32) {
	x := float32(float32(g+1)-1) / 2
	if corners {
		x = 0
	}
	f := x - float32(math.Floor(float64(x)))
	const a = float32(-0.75)
	outer := func(u float32) float32 {
		v := float32(a*u) - 5*a
		v = float32(v*u) + 8*a
		return float32(v*u) - 4*a
	}
	inner := func(u float32) float32 {
		v := float32((a+2)*u) - (a + 3)
		v = float32(v * u)
		return float32(v*u) + 1
	}
	s := 1 - f
	w = [4]float32{outer(f + 1), inner(f), inner(s), outer(s + 1)}
	for i, v := range w {
		if want := cubicWeight(float64(f) + 1 - float64(i)); math.Abs(want-float64(v)) > 1e-6 {
			panic(fmt.Sprintf("weight %d at %v is %v; want %v", i, f, v, want))
		}
	}
	return w
}

// Two neighbours that 256 and more positions are at, in every way that sums of
// channels lie side by side: a tap with weight 0 is a contribution, too.
func TestBicubicAtHotPixels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, channels := range []int64{1, 3, 5, 9, 13, 16, 17} {
		for i, n := range []int64{255, 256, 257, 700, 3000} {
			input, grid, dy := tensor.New(tensor.F32, 1, channels, 9, 9), tensor.New(tensor.F32, 1, 1, n, 2), draw(r, 1, channels, 1, n)
			at := make([]int, n)
			for p := range at {
				at[p] = r.IntN(2)
				tensor.Slice[float32](grid)[2*p] = []float32{0, 0.25}[at[p]] // columns 4 and 5 of row 4
			}
			_, got, _ := bicubic(t, paddings[i%3], true, input, grid, dy)
			for c := range channels {
				var terms [2][]float32
				for p, g := range tensor.Slice[float32](dy)[c*n : (c+1)*n] {
					terms[at[p]], terms[1-at[p]] = append(terms[at[p]], g), append(terms[1-at[p]], 0)
				}
				for pixel := range terms {
					require.Equal(t, testcase.Chunk(terms[pixel]), got[c*81+4*9+4+int64(pixel)], "channel %d of %d, pixel %d of %d positions", c, channels, pixel, n)
				}
			}
		}
	}
}

// Every row at every coordinate: of images and volumes with fewer columns than a
// window has, with as many and with more, at borders and far outside.
func TestBicubicAtCoordinates(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	number := 0
	for _, size := range []string{"1,1", "5,2", "2,3", "4,4", "3,9", "1,1,1", "3,1,2", "2,4,3", "2,1,4", "3,2,7"} {
		for _, types := range [][2]string{{"f32", "f32"}, {"f64", "f64"}, {"f16", "f32"}, {"bf16", "f32"}} {
			for _, padding := range paddings {
				channels := []int{1, 3, 4, 17}[number%4]
				number++
				out, dims := "5,7", strings.Count(size, ",")+1
				if dims == 3 {
					out = "2,5,7"
				}
				keys := fmt.Sprintf("input=%s[2,%d,%s] grid=%s[2,%s,%d] mode=bicubic padding_mode=%s align_corners=%t", types[0], channels, size, types[1], out, dims, padding, r.IntN(2) == 0)
				grid := func(i int64) float64 {
					near := float64(r.IntN(49)-24) / 12
					switch r.IntN(12) {
					case 0:
						return []float64{math.Inf(1), math.Inf(-1), math.NaN(), 3e38, -3e38}[r.IntN(5)]
					case 1:
						return near * math.Ldexp(1+r.Float64(), r.IntN(60)-20)
					case 2:
						return near
					}
					return near * r.Float64()
				}
				sameOn(t, "grid_sample", plans.MustParse("grid_sample "+keys), grid)
				sameOn(t, "grid_sample_backward", plans.MustParse(fmt.Sprintf("grid_sample_backward grad_output=%s[2,%d,%s] ", types[0], channels, out)+keys), grid)
			}
		}
	}
}

// Volumes at whole places along one axis, where its weights are 0, 1, 0 and 0,
// are images: each plane across that axis has an image's bits, but for the
// gradient along the axis.
func TestBicubicOfPlanes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const planes, channels, n = 5, 18, 3 // all contributions are one chunk
	for axis := range 3 {
		for place := range 3 * planes {
			padding := paddings[place%3]
			size, others := [3]int64{7, 3, 4}, []int{0, 1, 2} // x, y, z
			others = append(others[:axis:axis], others[axis+1:]...)
			size[axis] = planes
			volume, dy := draw(r, 1, channels, size[2], size[1], size[0]), draw(r, 1, channels, 1, 1, n)
			image := tensor.New(tensor.F32, 1, channels, size[others[1]], size[others[0]])
			var pixels [][2]int // of the image, and of the volume
			each := int(size[0] * size[1] * size[2])
			for i := range each {
				at := [3]int{i % int(size[0]), i / int(size[0]) % int(size[1]), i / int(size[0]*size[1])}
				if at[axis] == place/3 {
					pixels = append(pixels, [2]int{at[others[1]]*int(size[others[0]]) + at[others[0]], i})
				}
			}
			for c := range channels {
				for _, p := range pixels {
					tensor.Slice[float32](image)[c*len(pixels)+p[0]] = tensor.Slice[float32](volume)[c*each+p[1]]
				}
			}
			where, flat := tensor.New(tensor.F32, 1, 1, 1, n, 3), tensor.New(tensor.F32, 1, 1, n, 2)
			for i := range n {
				tensor.Slice[float32](where)[3*i+axis] = float32(place/3)/2 - 1
				for k, other := range others {
					x := float32(r.Float64()*3 - 1.5)
					tensor.Slice[float32](where)[3*i+other], tensor.Slice[float32](flat)[2*i+k] = x, x
				}
			}
			wantY, wantInput, wantGrid := bicubic(t, padding, true, image, flat, tensor.Of(tensor.Slice[float32](dy), 1, channels, 1, n))
			y, dinput, dgrid := bicubic(t, padding, true, volume, where, dy)
			require.Equal(t, wantY, y, "axis %d, %s", axis, padding)
			for i := range n {
				for k, other := range others {
					require.Equal(t, wantGrid[2*i+k], dgrid[3*i+other], "axis %d, %s", axis, padding)
				}
			}
			for c := range channels {
				for _, p := range pixels {
					require.Equal(t, wantInput[c*len(pixels)+p[0]], dinput[c*each+p[1]], "axis %d, %s", axis, padding)
				}
			}
		}
	}
}
