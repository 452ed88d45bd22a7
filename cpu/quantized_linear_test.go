package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// linearKernels calls f with each row of QuantizedLinear that this machine has.
func linearKernels(f func(name string, kernel func(*LinearTile))) {
	for _, r := range QuantizedLinear {
		if layer, ok := r.Pick(Types{Compute: tensor.F32}); ok && r.Needs <= Best() {
			f(r.Name, layer.Run)
			if layer.Pack != nil {
				f(r.Name+" packed", packed(layer))
			}
		}
	}
}

// packed returns what packs the rows of a tile and then runs it.
func packed(layer LinearLayer) func(*LinearTile) {
	return func(t *LinearTile) {
		rows, bytes := RowsPacked(t.M1, t.N1, t.K)
		memory := make([]int64, bytes/8)
		t.Panels = LinearPanels{unsafe.Pointer(unsafe.SliceData(memory)), rows}
		for m := int64(0); m < rows; m += LinearPanel {
			panel := *t
			panel.M0, panel.M1 = m, min(m+LinearPanel, t.M1)
			layer.Pack(&panel)
		}
		layer.Run(t)
	}
}

// linearTile is a problem of random codes, whose first are the smallest.
func linearTile(m, k, n int64, y []float32) *LinearTile {
	rng := rand.New(rand.NewPCG(uint64(m), uint64(k)))
	codes := func(size int64) []int8 {
		c := make([]int8, size)
		for i := range c {
			c[i] = int8(rng.IntN(256) - 128)
		}
		c[0] = -128
		return c
	}
	numbers := func(size int64) []float32 {
		v := make([]float32, size)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return v
	}
	return &LinearTile{
		X: Rows{vectorSpan(codes(m * k)), k}, Weight: Rows{vectorSpan(codes(n * k)), k}, Y: Rows{vectorSpan(y), 4 * n},
		XScale: vectorSpan(numbers(m)), WScale: vectorSpan(numbers(n)), Bias: vectorSpan(numbers(n)),
		M1: m, N1: n, K: k, Scratch: new(Scratch),
	}
}

func vectorSpan[T tensor.Element](v []T) Span {
	return Span{unsafe.Pointer(unsafe.SliceData(v)), int64(unsafe.Sizeof(v[0])), tensor.Of(v).DType}
}

// TestQuantizedLinearRows holds every row against the definition.
func TestQuantizedLinearRows(t *testing.T) {
	linearKernels(func(name string, kernel func(*LinearTile)) {
		for _, size := range [][3]int64{{1, 64, 4}, {2, 63, 5}, {3, 65, 7}, {4, 1, 4}, {5, 128, 64}, {9, 15, 9}, {6, 1000, 3}, {4, 65536, 4}, {7, 17, 33}, {64, 200, 64}, {7, 19, 8}, {8, 127, 9}, {13, 19, 8}, {16, 3, 64}, {27, 6, 9}, {56, 77, 63}, {32, 65536, 8}, {17, 65537, 8}} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				want, got := make([]float32, size[0]*size[2]), make([]float32, size[0]*size[2])
				quantizedLinearGo[float32](linearTile(size[0], size[1], size[2], want))
				kernel(linearTile(size[0], size[1], size[2], got))
				require.Equal(t, want, got)
			})
		}
	})
}

func BenchmarkQuantizedLinear(b *testing.B) {
	for _, m := range []int64{1, 64, 512} {
		tile := linearTile(m, 4096, 64, make([]float32, m*64))
		linearKernels(func(name string, kernel func(*LinearTile)) {
			b.Run(fmt.Sprint(name, m), func(b *testing.B) {
				for b.Loop() {
					kernel(tile)
				}
				b.ReportMetric(float64(m*4096*64)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		})
	}
}
