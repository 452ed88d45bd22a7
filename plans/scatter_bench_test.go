package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// smoothGrid returns the identity's grid of n images, a little distorted.
func smoothGrid(n, h, w int64) tensor.View {
	r := rand.New(rand.NewPCG(1, 2))
	grid := tensor.New(tensor.F32, n, h, w, 2)
	v := tensor.Slice[float32](grid)
	for i := range n * h * w {
		x, y := i%w, i/w%h
		v[2*i] = float32(2*x+1)/float32(w) - 1 + r.Float32()*0.02
		v[2*i+1] = float32(2*y+1)/float32(h) - 1 + r.Float32()*0.02
	}
	return grid
}

// rotatedGrid returns the grid of a small rotation, which reads along slanted lines.
func rotatedGrid(n, h, w int64) tensor.View {
	grid := tensor.New(tensor.F32, n, h, w, 2)
	v := tensor.Slice[float32](grid)
	for i := range n * h * w {
		x, y := float32(2*(i%w)+1)/float32(w)-1, float32(2*(i/w%h)+1)/float32(h)-1
		v[2*i], v[2*i+1] = 0.99*x-0.05*y+0.01, 0.05*x+0.99*y+0.02
	}
	return grid
}

// noise returns a tensor of numbers in [-1, 1), or of whole numbers below.
func noise(below int64, d tensor.DType, shape ...int64) tensor.View {
	return noiseFrom(3, below, d, shape...)
}

func noiseFrom(seed uint64, below int64, d tensor.DType, shape ...int64) tensor.View {
	r := rand.New(rand.NewPCG(seed, 4))
	v := tensor.New(d, shape...)
	switch d {
	case tensor.F32:
		fill(v, func() float32 { return r.Float32()*2 - 1 })
	case tensor.F64:
		fill(v, func() float64 { return r.Float64()*2 - 1 })
	case tensor.BF16:
		fill(v, func() tensor.BF16Bits { return tensor.ToBF16(r.Float32()*2 - 1) })
	case tensor.F16:
		fill(v, func() tensor.F16Bits { return tensor.ToF16(r.Float32()*2 - 1) })
	case tensor.I64:
		fill(v, func() int64 { return r.Int64N(below) })
	}
	return v
}

func fill[T tensor.Element](v tensor.View, draw func() T) {
	elements := tensor.Slice[T](v)
	for i := range elements {
		elements[i] = draw()
	}
}

// benchmark runs a problem on 1 and 2 threads.
func benchmark(b *testing.B, text string, args ...tensor.View) {
	p, err := plans.Parse(text)
	require.NoError(b, err)
	for _, threads := range []int{1, 2} {
		plan, err := plans.Select(0, p, plans.Preference{Threads: threads})
		require.NoError(b, err)
		workspace := tensor.New(tensor.I64, (plan.WorkspaceSize()+7)/8)
		b.Run(fmt.Sprintf("%s/threads=%d", plan.SKU().Row, threads), func(b *testing.B) {
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				require.NoError(b, plan.Run(0, tensor.Bytes(workspace), args))
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Microseconds())/1e3, "ms(best)")
		})
	}
}

func BenchmarkEmbedding(b *testing.B) {
	const n, width = 16384, 768
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
		for _, rows := range []int64{1000, 50257} {
			b.Run(fmt.Sprintf("backward/%s/%d", d, rows), func(b *testing.B) {
				text := fmt.Sprintf("embedding_backward grad_output=%[1]s[%[2]d,%[3]d] indices=i64[%[2]d] grad_weight=%[1]s[%[4]d,%[3]d]", d, n, width, rows)
				benchmark(b, text, noise(0, d, n, width), noise(rows, tensor.I64, n), tensor.New(d, rows, width))
			})
		}
	}
	b.Run("forward", func(b *testing.B) {
		benchmark(b, fmt.Sprintf("embedding weight=f32[50257,%d] indices=i64[%d]", width, n),
			noise(0, tensor.F32, 50257, width), noise(50257, tensor.I64, n), tensor.New(tensor.F32, n, width))
	})
}

func BenchmarkEmbeddingBag(b *testing.B) {
	const rows, bags, length, width = 100_000, 2048, 20, 64
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
		weight, dy := noise(0, d, rows, width), noise(0, d, bags, width)
		index, factors := noise(rows, tensor.I64, bags, length), noise(0, d, bags, length)
		y, dw := tensor.New(d, bags, width), tensor.New(d, rows, width)
		y64 := tensor.New(tensor.I64, bags, width)
		b.Run(fmt.Sprintf("weights/%s", d), func(b *testing.B) {
			benchmark(b, fmt.Sprintf("embedding_bag_per_sample_weights_backward grad_output=%s weight=%s indices=%s", &dy, &weight, &index),
				dy, weight, index, tensor.View{}, factors)
		})
		for _, mode := range []string{"sum", "mean", "max chosen=i64", "sum per_sample_weights=" + d.String()} {
			forward, backward := []tensor.View{weight, index, {}, {}, y, {}}, []tensor.View{dy, index, {}, {}, {}, dw}
			if mode[:3] == "max" {
				forward[5], backward[4] = y64, y64
			} else if len(mode) > 4 {
				forward[3], backward[3] = factors, factors
			}
			b.Run(fmt.Sprintf("forward/%s/%s", d, mode), func(b *testing.B) {
				benchmark(b, fmt.Sprintf("embedding_bag weight=%s indices=%s mode=%s", &weight, &index, mode), forward...)
			})
			b.Run(fmt.Sprintf("backward/%s/%s", d, mode), func(b *testing.B) {
				benchmark(b, fmt.Sprintf("embedding_bag_backward grad_output=%s indices=%s grad_weight=%s mode=%s", &dy, &index, &dw, mode), backward...)
			})
		}
	}
}

func BenchmarkGridSample(b *testing.B) {
	grids := []struct {
		name string
		make func(n, h, w int64) tensor.View
	}{{"smooth", smoothGrid}, {"rotated", rotatedGrid}}
	for _, size := range [][4]int64{{256, 1, 28, 28}, {64, 1, 28, 28}, {32, 3, 64, 64}, {16, 64, 56, 56}, {16, 64, 128, 128}, {16, 3, 512, 512}, {1, 3, 1080, 1920}} {
		n, c, h, w := size[0], size[1], size[2], size[3]
		shape := fmt.Sprintf("[%d,%d,%d,%d]", n, c, h, w)
		grid := fmt.Sprintf("grid=f32[%d,%d,%d,2]", n, h, w)
		for _, kind := range grids {
			run := func(pass, text string, args func() []tensor.View) {
				b.Run(fmt.Sprintf("%s/%s/%s", pass, shape, kind.name), func(b *testing.B) { benchmark(b, text, args()...) })
			}
			run("forward", "grid_sample input=f32"+shape+" "+grid, func() []tensor.View {
				x := noise(0, tensor.F32, n, c, h, w)
				return []tensor.View{x, kind.make(n, h, w), tensor.New(tensor.F32, n, c, h, w)}
			})
			run("backward", "grid_sample_backward grad_output=f32"+shape+" input=f32"+shape+" "+grid, func() []tensor.View {
				x := noise(0, tensor.F32, n, c, h, w)
				return []tensor.View{x, x, kind.make(n, h, w), tensor.New(tensor.F32, n, c, h, w), tensor.New(tensor.F32, n, h, w, 2)}
			})
			run("second", "grid_sample_double_backward grad_output=f32"+shape+" input=f32"+shape+" "+grid, func() []tensor.View {
				x, v := noise(0, tensor.F32, n, c, h, w), noise(0, tensor.F32, n, h, w, 2)
				return []tensor.View{x, x, kind.make(n, h, w), x, v, tensor.New(tensor.F32, n, c, h, w), tensor.New(tensor.F32, n, c, h, w), tensor.New(tensor.F32, n, h, w, 2)}
			})
		}
	}
}
