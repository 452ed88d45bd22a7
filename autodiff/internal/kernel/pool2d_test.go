package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
)

// TestMaxPoolOfTwo compares windows of 2 x 2, in assembly and in Go, with the
// general loop, which f64 takes: every width, equals, zeros of both signs, NaN.
func TestMaxPoolOfTwo(t *testing.T) {
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1, 1, -1}
	for width := 2; width < 60; width++ {
		const planes, high = 3, 5
		x := uniform[float32](planes*high*width, uint64(width))
		for i := range x {
			if i*7%5 < 3 {
				x[i] = special[(i*31+width)%len(special)]
			}
		}
		wide := make([]float64, len(x))
		for i, v := range x {
			wide[i] = float64(v)
		}
		p := &Pool{Planes: planes, H: high, W: width, KH: 2, KW: 2, OH: high / 2, OW: width / 2, Stride: [2]int{2, 2}}
		n := planes * p.OH * p.OW
		want, wantAt := make([]float64, n), make([]int32, n)
		MaxPool(1, p, want, wantAt, wide)
		for _, rows := range []cpu.ISA{cpu.Go, cpu.Best()} {
			cpu.Limit(rows)
			y, at := make([]float32, n+1), make([]int32, n+1)
			y[n], at[n] = 7, 7 // not to be written
			MaxPool(1, p, y[:n], at[:n], x)
			require.Equal(t, wantAt, at[:n], "width %d, rows %v", width, rows)
			for i, v := range y[:n] {
				require.Equal(t, math.Float32bits(x[i/(p.OH*p.OW)*high*width+int(at[i])]), math.Float32bits(v))
			}
			require.Equal(t, []any{float32(7), int32(7)}, []any{y[n], at[n]})
		}
	}
}

// places fills in how many windows there are; with ceil the last ones may reach beyond the padding.
func (p Pool) places(planes int, ceil bool) *Pool {
	of := func(size, kernel, i int) int {
		n := 0
		for at := 0; at+kernel <= size+2*p.Pad[i] || ceil && at < size+p.Pad[i] && at-p.Stride[i]+kernel < size+2*p.Pad[i]; at += p.Stride[i] {
			n++
		}
		return n
	}
	p.Planes, p.OH, p.OW = planes, of(p.H, p.KH, 0), of(p.W, p.KW, 1)
	return &p
}

// TestMaxPoolOfRows compares other windows of f32 with the general loop, which f64 takes.
func TestMaxPoolOfRows(t *testing.T) {
	inf, negativeZero := float32(math.Inf(1)), float32(math.Copysign(0, -1))
	for _, p := range []Pool{
		{H: 9, W: 8, KH: 3, KW: 3, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}},
		{H: 6, W: 11, KH: 2, KW: 3, Stride: [2]int{1, 1}, Pad: [2]int{1, 0}},
		{H: 7, W: 12, KH: 1, KW: 5, Stride: [2]int{3, 3}, Pad: [2]int{0, 2}},
		{H: 3, W: 2, KH: 4, KW: 4, Stride: [2]int{1, 1}, Pad: [2]int{2, 2}},
		{H: 7, W: 7, KH: 7, KW: 7, Stride: [2]int{1, 1}},
		// The last of a row reaches into the padding, or the only one does, on both sides.
		{H: 9, W: 9, KH: 5, KW: 3, Stride: [2]int{3, 2}, Pad: [2]int{2, 1}},
		{H: 4, W: 1, KH: 3, KW: 5, Stride: [2]int{1, 1}, Pad: [2]int{1, 2}},
		{H: 5, W: 9, KH: 2, KW: 2, Stride: [2]int{2, 2}},
		{H: 6, W: 2, KH: 3, KW: 3, Stride: [2]int{2, 2}},
		{H: 4, W: 4, KH: 2, KW: 2, Stride: [2]int{5, 2}},
	} {
		for _, ceil := range []bool{false, true} {
			p := p.places(3, ceil)
			if p.OH*p.OW == 0 {
				continue
			}
			for _, of := range [][]float32{
				{0, negativeZero, inf, -inf, 1, 1, -1, 1e-30, 2e-30, 0.5, 0.25},
				{0, negativeZero, -inf, -1, -1, -2, -3, -1e-30, -2e-30, -0.5, -0.25},
				{float32(math.NaN()), math.Float32frombits(0xffc00000), math.Float32frombits(0x7fc00001), inf, 1, 2, -1, -2, -3, -4, -5},
			} {
				x := make([]float32, p.Planes*p.H*p.W)
				wide := make([]float64, len(x))
				for i := range x {
					x[i] = of[Bits64(5, uint64(i))%uint64(len(of))]
					wide[i] = float64(x[i])
				}
				n := p.Planes * p.OH * p.OW
				want, wantAt, y, at := make([]float64, n), make([]int32, n), make([]float32, n), make([]int32, n)
				MaxPool(1, p, want, wantAt, wide)
				MaxPool(2, p, y, at, x)
				require.Equal(t, wantAt, at, "%+v of %v", p, of)
				for i, v := range y {
					require.Equal(t, math.Float32bits(x[i/(p.OH*p.OW)*p.H*p.W+int(at[i])]), math.Float32bits(v))
				}
			}
		}
	}
}

func TestPools(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{
		1, 2, 5, 5,
		2, 0, 5, nan,
		0, float32(math.Copysign(0, -1)), -1, -2,
		nan, nan, -3, -4,
	}
	want := []float32{2, nan, nan, -1}
	wantAt := []int32{1, 7, 12, 10}
	p := &Pool{Planes: 1, H: 4, W: 4, KH: 2, KW: 2, OH: 2, OW: 2, Stride: [2]int{2, 2}}
	y, at := make([]float32, 4), make([]int32, 4)
	MaxPool(1, p, y, at, x)
	require.Equal(t, bits(want), bits(y))
	require.Equal(t, wantAt, at)
	// f64 takes the general loop.
	x64 := make([]float64, len(x))
	for i, v := range x {
		x64[i] = float64(v)
	}
	MaxPool(1, p, make([]float64, 4), at, x64)
	require.Equal(t, wantAt, at)

	p.CountPad = true
	AvgPool(1, p, y, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	require.Equal(t, []float32{3.5, 5.5, 11.5, 13.5}, y)
}

// TestAverageOrder holds an average to the Stripe order over those elements of
// its window that lie in the image, and its gradient to the order of the windows.
func TestAverageOrder(t *testing.T) {
	for _, window := range [][2]int{{2, 2}, {3, 4}, {4, 3}, {9, 9}} {
		for _, countPad := range []bool{false, true} {
			p := &Pool{Planes: 1, H: 10, W: 11, KH: window[0], KW: window[1], Stride: [2]int{2, 1}, Pad: [2]int{1, 1}, CountPad: countPad}
			p.OH, p.OW = (p.H+2-p.KH)/2+1, p.W+2-p.KW+1
			x, g := uniform[float32](p.H*p.W, 3), uniform[float32](p.OH*p.OW, 4)
			y, dx, want := make([]float32, len(g)), make([]float32, len(x)), make([]float32, len(x))
			AvgPool(1, p, y, x)
			AvgPoolGrad(1, p, dx, g)
			for o := range y {
				var inside []int
				for k := range p.KH * p.KW {
					if i, j := o/p.OW*2-1+k/p.KW, o%p.OW-1+k%p.KW; i >= 0 && i < p.H && j >= 0 && j < p.W {
						inside = append(inside, i*p.W+j)
					}
				}
				count := float32(len(inside))
				if countPad {
					count = float32(p.KH * p.KW)
				}
				var terms []float32
				for _, at := range inside {
					terms = append(terms, x[at])
					want[at] += g[o] / count
				}
				require.Equal(t, testcase.Stripe(terms)/count, y[o], "%+v at %d", p, o)
			}
			require.Equal(t, want, dx, "%+v", p)
		}
	}
}

// TestAvgPool holds rows of windows to windows by themselves.
func TestAvgPool(t *testing.T) {
	for _, p := range []Pool{
		{H: 5, W: 40, KH: 2, KW: 2, Stride: [2]int{2, 2}},
		{H: 7, W: 300, KH: 3, KW: 3, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}},
		{H: 7, W: 300, KH: 3, KW: 2, Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, CountPad: true},
		{H: 9, W: 90, KH: 7, KW: 7, Stride: [2]int{3, 1}, Pad: [2]int{3, 3}, CountPad: true},
		{H: 9, W: 80, KH: 9, KW: 9, Stride: [2]int{1, 2}},
		{H: 2, W: 3, KH: 2, KW: 3, Stride: [2]int{1, 1}, Pad: [2]int{1, 1}},
	} {
		for _, ceil := range []bool{false, true} {
			p := p.places(2, ceil)
			x, y := uniform[float32](p.Planes*p.H*p.W, 1), make([]float32, p.Planes*p.OH*p.OW)
			for i := range len(x) / 3 {
				x[i] = float32(math.Copysign(0, -1))
			}
			AvgPool(3, p, y, x)
			for at, got := range y {
				top, left := at/p.OW%p.OH*p.Stride[0]-p.Pad[0], at%p.OW*p.Stride[1]-p.Pad[1]
				var window []float32
				for i := max(top, 0); i < min(top+p.KH, p.H); i++ {
					for j := max(left, 0); j < min(left+p.KW, p.W); j++ {
						window = append(window, x[(at/p.OW/p.OH*p.H+i)*p.W+j])
					}
				}
				count := len(window)
				if p.CountPad {
					count = (min(top+p.KH, p.H+p.Pad[0]) - top) * (min(left+p.KW, p.W+p.Pad[1]) - left)
				}
				require.Equal(t, math.Float32bits(testcase.Stripe(window)/float32(count)), math.Float32bits(got), "%+v, window %d", p, at)
			}
		}
	}
}
