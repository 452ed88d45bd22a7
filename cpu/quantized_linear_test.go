package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// linearKernels calls f with each row of QuantizedLinear that this machine has.
func linearKernels(f func(name string, kernel func(*cpu.LinearTile))) {
	for _, r := range cpu.QuantizedLinear {
		if layer, ok := r.Pick(cpu.Types{Compute: tensor.F32}); ok && r.Needs <= cpu.Best() {
			f(r.Name, layer.Run)
			if layer.Pack != nil {
				f(r.Name+" packed", packed(layer))
			}
		}
	}
}

// packed returns what packs the rows of a tile, in memory that it gives the tile once, and then runs it.
func packed(layer cpu.LinearLayer) func(*cpu.LinearTile) {
	return func(t *cpu.LinearTile) {
		rows, bytes := layer.Packed(t.M1, t.N1, t.K)
		if t.Panels.Rows < rows {
			memory := guard(make([]byte, bytes), true)
			t.Panels = cpu.LinearPanels{P: unsafe.Pointer(unsafe.SliceData(memory)), Rows: rows}
		}
		for m := int64(0); m < rows; m += cpu.LinearPanel {
			panel := *t
			panel.M0, panel.M1 = m, min(m+cpu.LinearPanel, t.M1)
			layer.Pack(&panel)
		}
		layer.Run(t)
	}
}

// linearTile is a problem of random codes, whose first are the smallest, beside pages that are not mapped. From 2^16
// codes on all are the smallest: from 2^17 on their sums have no room in 32 bits.
func linearTile(m, k, n int64, atTheEnd bool) *cpu.LinearTile {
	rng := rand.New(rand.NewPCG(uint64(m), uint64(k)))
	codes := func(size int64) []int8 {
		c := make([]int8, size)
		for i := range c {
			c[i] = int8(rng.IntN(256) - 128)
			if k >= 1<<16 {
				c[i] = -128
			}
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
	rows := func(v cpu.Span, stride int64) cpu.Rows { return cpu.Rows{Span: v, RowStride: stride} }
	return &cpu.LinearTile{
		X: rows(vectorSpan(codes(m*k), atTheEnd), k), Weight: rows(vectorSpan(codes(n*k), atTheEnd), k), Y: rows(vectorSpan(make([]float32, m*n), atTheEnd), 4*n),
		XScale: vectorSpan(numbers(m), atTheEnd), WScale: vectorSpan(numbers(n), atTheEnd), Bias: vectorSpan(numbers(n), atTheEnd),
		M1: m, N1: n, K: k, Scratch: new(cpu.Scratch),
	}
}

func vectorSpan[T tensor.Element](v []T, atTheEnd bool) cpu.Span {
	size := int64(unsafe.Sizeof(v[0]))
	bytes := guard(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), int64(len(v))*size), atTheEnd)
	return cpu.Span{P: unsafe.Pointer(unsafe.SliceData(bytes)), Stride: size, DType: tensor.Of(v).DType}
}

// TestQuantizedLinearRows holds every row against the definition.
func TestQuantizedLinearRows(t *testing.T) {
	defer cpu.PackAlways()()
	definition, _ := cpu.QuantizedLinear[len(cpu.QuantizedLinear)-1].Pick(cpu.Types{Compute: tensor.F32})
	linearKernels(func(name string, kernel func(*cpu.LinearTile)) {
		for _, size := range [][3]int64{{1, 64, 4}, {2, 63, 5}, {3, 65, 7}, {4, 1, 4}, {5, 128, 64}, {9, 15, 9}, {6, 1000, 3}, {4, 65536, 4}, {7, 17, 33}, {64, 200, 64}, {7, 19, 8}, {8, 127, 9}, {13, 19, 8}, {16, 3, 64}, {27, 6, 9}, {56, 77, 63}, {32, 65536, 8}, {17, 65537, 8}, {70, 1033, 17}, {1, 40, 256}, {4, 100, 255}, {8, 20, 256}, {16, 33, 128}} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				defer releaseGuards()
				results := func(kernel func(*cpu.LinearTile), atTheEnd bool) []float32 {
					tile := linearTile(size[0], size[1], size[2], atTheEnd)
					kernel(tile)
					return unsafe.Slice((*float32)(tile.Y.P), size[0]*size[2])
				}
				want := results(definition.Run, false)
				require.Equal(t, want, results(kernel, false))
				require.Equal(t, want, results(kernel, true))
			})
		}
	})
}

// TestQuantizedLinearBeyond32Bits has sums of 2^31, the definition's too: its own blocks have to fit.
func TestQuantizedLinearBeyond32Bits(t *testing.T) {
	linearKernels(func(name string, kernel func(*cpu.LinearTile)) {
		defer releaseGuards()
		tile := linearTile(4, 1<<17, 4, false)
		kernel(tile)
		at := func(s cpu.Span) float32 { return *(*float32)(s.P) }
		scaled := float32((1 << 31) * float32(at(tile.XScale)*at(tile.WScale)))
		require.Equal(t, scaled+at(tile.Bias), at(tile.Y.Span), name)
	})
}

// TestTileColumns has the most results that scratch has room for, of depths at which a tile is soon computed.
func TestTileColumns(t *testing.T) {
	for _, c := range []struct{ m, k, columns int64 }{
		{1, 1, 256}, {8, 2047, 256}, {1, 2048, 128}, {1, 4095, 128}, {1, 4096, 64}, {9, 1, 128}, {16, 1, 128}, {17, 1, 64}, {1 << 40, 1, 64},
	} {
		require.Equal(t, c.columns, cpu.TileColumns(c.m, c.k), "%v", c)
	}
}

// TestRowsPacked counts rows and bytes of panels; those of very many rows took minutes.
func TestRowsPacked(t *testing.T) {
	for _, c := range []struct{ m, n, k, rows, bytes int64 }{
		{6, 1 << 20, 16, 0, 0}, {7, 264, 16, 7, 8 * 32}, {7, 263, 16, 0, 0}, {38, 33, 17, 32, 32 * 48}, {45, 64, 1, 45, 48 * 32}, {45, 63, 1, 32, 32 * 32},
		{74, 1 << 20, 65536, 72, 72 * 65552}, {100, 31, 1, 0, 0}, {100, 32, 0, 0, 0}, {100, 1 << 20, 65537, 0, 0}, {1 << 43, 32, 1, 1 << 43, 1 << 48},
	} {
		rows, bytes := cpu.RowsPacked(c.m, c.n, c.k)
		require.Equal(t, [2]int64{c.rows, c.bytes}, [2]int64{rows, bytes}, "%v", c)
	}
}

func BenchmarkQuantizedLinear(b *testing.B) {
	for _, m := range []int64{1, 64, 512} {
		linearKernels(func(name string, kernel func(*cpu.LinearTile)) {
			b.Run(fmt.Sprint(name, m), func(b *testing.B) {
				defer releaseGuards()
				tile := linearTile(m, 4096, 64, true) // its own: others are not packed
				for b.Loop() {
					kernel(tile)
				}
				b.ReportMetric(float64(m*4096*64)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		})
	}
}
