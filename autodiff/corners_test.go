package autodiff

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Corners where shapes, types and the life of a graph meet.

// summed differentiates the sum of y and returns the gradients of leaves.
func summed(t *testing.T, ad *Autodiff[*CPU, Strategy], y Float[adf], leaves ...Float[adf]) (all []Float[*CPU]) {
	t.Helper()
	g, err := ad.Backward(y, WithSum())
	require.NoError(t, err)
	for _, x := range leaves {
		d, ok := ad.Grad(x, g)
		require.True(t, ok)
		require.Equal(t, x.DType(), d.DType())
		all = append(all, d)
	}
	return all
}

// Whole numbers carry no gradient: as indices they are constants.
func TestIndicesFromTrackedTensors(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x, y := leaf(ad, []float64{1, 0, 1}), leaf(ad, []float64{3, 4})
		index := x.ToInt()
		require.Nil(t, nodeOf(index.v))
		d := summed(t, ad, y.Select(0, index), y)[0]
		require.Equal(t, []float64{1, 2}, list(t, d))
		require.False(t, ad.IsTracked(index.ToFloat()))
	})
}

// A quantized tensor, its scale and what it is dequantized to may have
// different types; each gradient has the type of what it belongs to.
func TestQuantizeMixesTypes(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		floats := []tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.F64}
		for _, of := range floats {
			for _, scaled := range floats {
				for _, to := range floats {
					x := ad.Track(Floats(ad, []float64{0.25, 1, 100}).Cast(of))
					scale := ad.Track(Scalar(ad, 0.5).Cast(scaled))
					d := summed(t, ad, x.Quantize(scale, PerTensor(-8, 7)).Dequantize(to), x, scale)
					require.Equal(t, []float64{1, 1, 0}, list(t, d[0]), "%v %v %v", of, scaled, to)
					require.Equal(t, []float64{0 + 2 + 7}, list(t, d[1]), "%v %v %v", of, scaled, to)
				}
			}
		}
		// Codes that are read twice, as two types.
		x := leaf(ad, []float64{0.25, 1, 100})
		q := x.Quantize(Scalar(ad, 0.5), PerTensor(-8, 7))
		y := q.Dequantize(tensor.F16).Cast(tensor.F64).Add(q.Dequantize(tensor.BF16).Cast(tensor.F64))
		require.Equal(t, []float64{2, 2, 0}, list(t, summed(t, ad, y, x)[0]))
		_, err := ad.Backward(Float[adf]{x.Quantize(Scalar(ad, 0.5), PerTensor(-8, 7)).Codes}, WithSum())
		require.ErrorContains(t, err, "s8[3] holds no floats")
	})
}

// What shares a parameter's elements notices that they changed.
func TestChangedThroughAnotherHandle(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		for name, loss := range map[string]func(ad *Autodiff[*CPU, Strategy], w Float[adf]) Float[adf]{
			"reshape": func(_ *Autodiff[*CPU, Strategy], w Float[adf]) Float[adf] { r := w.Reshape(3, 1); return r.Mul(r) },
			"reshape of reshape": func(_ *Autodiff[*CPU, Strategy], w Float[adf]) Float[adf] {
				r := w.Reshape(3, 1).Flatten(0)
				return r.Mul(r)
			},
			"detach": func(ad *Autodiff[*CPU, Strategy], w Float[adf]) Float[adf] { return ad.Detach(w).Mul(w) },
			"track":  func(ad *Autodiff[*CPU, Strategy], w Float[adf]) Float[adf] { return ad.Track(w).Mul(w) },
		} {
			ad := over(s)
			p := NewParams(ad, 1)
			w := p.Full("w", 1, 3)
			step := func() {
				g, err := ad.Backward(w.Sum())
				require.NoError(t, err)
				require.NoError(t, (&SGD{Rate: 10}).Step(p, g))
			}
			old := loss(ad, w).Sum()
			step()
			_, err := ad.Backward(old)
			require.ErrorContains(t, err, "was changed in place", name)
			// A graph of the new elements is fine.
			_, err = ad.Backward(loss(ad, w).Sum())
			require.NoError(t, err, name)
		}
	})
}

func TestSeedOfAnotherBackend(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x := leaf(ad, []float64{1, 2})
		_, err := ad.Backward(x, WithSeed(Floats(ad, []float64{1, 2})))
		require.ErrorContains(t, err, "the seed f64[2] belongs to another backend than cpu")
		_, err = ad.Backward(x, WithSeed(Float[*CPU]{}))
		require.ErrorContains(t, err, "absent")

		below := over(s)
		above := New[*Autodiff[*CPU, Strategy], Strategy](below, s)
		y := above.Track(above.FromInner(x))
		require.ErrorContains(t, y.Err(), "f64[2] does not belong to autodiff(cpu)")
		y = above.Track(Floats(above, []float64{1, 2}))
		g, err := above.Backward(y, WithSum())
		require.NoError(t, err)
		require.ErrorContains(t, above.GradReplace(y, g, x), "the gradient f64[2] belongs to another backend")
	})
}

// A pass that failed leaves nil gradients behind.
func TestAbsentGradients(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		p := NewParams(ad, 1)
		w := p.Full("w", 1, 1)
		g, err := ad.Backward(w)
		require.NoError(t, err)
		for _, none := range []*Gradients[*CPU]{nil, {}} {
			_, ok := ad.Grad(w, none)
			require.False(t, ok)
			_, ok = ad.GradRemove(w, none)
			require.False(t, ok)
			require.Zero(t, none.Len())
			none.Release()
			require.NoError(t, none.Scale(2))
			norm, err := none.ClipNorm(1)
			require.NoError(t, err)
			require.Zero(t, norm)
			for _, err := range []error{ad.GradReplace(w, none, Ones(ad.InnerBackend(), 1)), g.Merge(none), none.Merge(g), (&Adam{Rate: 1}).Step(p, none)} {
				require.ErrorContains(t, err, "the gradients are absent (nil)")
			}
		}
		require.ErrorContains(t, (&SGD{Rate: 1}).Step(p, nil), "the gradients are absent (nil)")
		require.Equal(t, []float64{1}, list(t, w))
	})
}

func TestNormOfMixedTypes(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x, y := leaf(ad, []float64{1}), ad.Track(Ones(ad, 1).MulScalar(2))
		g, err := ad.Backward(x.Add(y.PowScalar(2).Cast(tensor.F64)))
		require.NoError(t, err)
		norm, err := g.ClipNorm(1)
		require.NoError(t, err)
		require.InDelta(t, math.Sqrt(17), norm, 1e-12)
		norm, err = g.Norm()
		require.NoError(t, err)
		require.InDelta(t, 1, norm, 1e-7)
	})
}

// What was kept, read and released is memory for the next step.
func TestReleasedMemoryComesBack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		cpu := ad.InnerBackend()
		w := leaf(ad, make([]float64, 1000))
		step := func() {
			h := ad.Keep(w.Gelu().AddScalar(1).Exp())
			loss := h.Sum()
			g, err := ad.Backward(loss)
			require.NoError(t, err)
			_, err = h.View()
			require.NoError(t, err)
			_, err = loss.Item()
			require.NoError(t, err)
			_, err = h.Float32s()
			require.NoError(t, err)
			g.Release()
			h.Release()
			loss.Release()
		}
		for range 3 {
			step()
		}
		made, _ := cpu.MemoryStats()
		for range 20 {
			step()
		}
		again, idle := cpu.MemoryStats()
		require.Equal(t, made, again)
		require.Greater(t, idle, made/2)
		require.LessOrEqual(t, idle, made)
		cpu.Trim()
		_, idle = cpu.MemoryStats()
		require.Zero(t, idle)
		step()
		again, _ = cpu.MemoryStats()
		require.Greater(t, again, made)
	})
}

// Every rule's result is checked, on every call.
func TestWrongRule(t *testing.T) {
	right := rules[OpNeg]
	defer func() { rules[OpNeg] = right }()
	for _, wrong := range []func(c *ctx) dyn{
		func(c *ctx) dyn { return c.g.Sum() },
		func(c *ctx) dyn { return c.g.Cast(tensor.F32) },
		func(*ctx) dyn { return dyn{} },
	} {
		rules[OpNeg] = perInput(grad(0, wrong))
		ad := over(None{})
		_, err := ad.Backward(leaf(ad, []float64{1, 2}).Neg(), WithSum())
		require.ErrorContains(t, err, "the gradient of neg#")
	}
}

func TestImpossibleWindows(t *testing.T) {
	be := NewCPU()
	x, w := Ones(be, 1, 1, 8, 8), Ones(be, 1, 1, 5, 5)
	for _, window := range []Window{
		{Dilation: [2]int{-1, 1}}, {Dilation: [2]int{math.MaxInt, math.MaxInt}}, {Groups: -2}, {Groups: math.MaxInt}, {Stride: [2]int{1, -1}}, {Pad: [2]int{-1, 0}}, {Pad: [2]int{0, math.MaxInt}},
	} {
		require.ErrorContains(t, x.Conv2d(w, Float[*CPU]{}, window).Err(), "autodiff: conv2d: the window is")
		window.Kernel = [2]int{2, 2}
		require.Error(t, x.MaxPool2d(window).Err())
	}
	require.ErrorContains(t, x.AvgPool2d(Window{Kernel: [2]int{-2, 2}}).Err(), "autodiff: avg_pool2d: the window is")
}

// A kernel without elements may be of any extent: it is an error or nothing to compute, and takes no time.
func TestKernelsWithoutElements(t *testing.T) {
	ad := over(None{})
	conv := func(x, weight []int, w Window) (y, dx Float[adf], err error) {
		x0 := ad.Track(Ones(ad, x...))
		y = x0.Conv2d(ad.Track(Zeros(ad, weight...)), Float[adf]{}, w)
		g, err := ad.Backward(y, WithSum(), KeepGraph())
		if err == nil {
			d, _ := ad.Grad(x0, g)
			dx = ad.FromInner(d)
		}
		return y, dx, err
	}
	long, wide := int(min(int64(1<<34+1), math.MaxInt)), 1<<30-1 // whose product is more than an int64, where an int has 64 bits
	_, _, err := conv([]int{1, 0, 4, 4}, []int{1, 0, long, 1}, Window{Dilation: [2]int{wide, 1}, Stride: [2]int{wide, 1}})
	require.ErrorContains(t, err, fmt.Sprintf("conv2d: x is f32[1, 0, 4, 4], smaller than the window f32[1, 0, %d, 1]", long))

	const kernel = 1 << 29
	w := Window{Pad: [2]int{kernel / 2, 0}}
	y, _, err := conv([]int{1, 0, 4, 1}, []int{1, 0, kernel, 1}, w)
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0, 0, 0, 0}, list(t, y))
	y, dx, err := conv([]int{1, 1, 4, 1}, []int{0, 1, kernel, 1}, w)
	require.NoError(t, err)
	require.Equal(t, []int{1, 0, 5, 1}, y.Shape())
	require.Equal(t, []float64{0, 0, 0, 0}, list(t, dx))
}

// The gradient of a choice of rows takes no memory for each of them where they have no elements.
func TestChoiceOfRowsWithoutElements(t *testing.T) {
	ad := over(None{})
	x := ad.Track(Zeros(ad, far, 0))
	g, err := ad.Backward(x.Select(0, Ints(ad, []int64{0, 5})), WithSum())
	require.NoError(t, err)
	dx, _ := ad.Grad(x, g)
	require.Equal(t, []int{far, 0}, dx.Shape())
}

// Smoothing everything spreads the weight over all classes.
func TestSmoothingOfOne(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		x := leaf(ad, []float64{1, 2, 4})
		y := x.Reshape(1, 3).CrossEntropy(Ints(ad, []int64{1}), 1)
		want := x.LogSoftmax(0).Mean().Neg()
		require.InDelta(t, list(t, want)[0], list(t, y)[0], 1e-12)
	})
}

// Goroutines that differentiate one graph: the first has it, the others get an
// error that names what they met, and none a part of the gradient.
func TestOneGraphManyGoroutines(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		w := ad.Label(leaf(ad, []float64{1, 2}), "w")
		for range 20 {
			trunk := ad.Label(w.Gelu().Exp(), "trunk")
			const n = 4
			var wg sync.WaitGroup
			var got [n]*Gradients[*CPU]
			var errs [n]error
			for i := range n {
				loss := trunk.MulScalar(float64(i + 1)).Sum()
				wg.Go(func() {
					got[i], errs[i] = ad.Backward(loss)
					_ = trunk.AddScalar(1).Err() // freed, or not yet
				})
			}
			wg.Wait()
			passed := 0
			for i := range n {
				if errs[i] != nil {
					require.ErrorContains(t, errs[i], `"trunk"`)
					continue
				}
				passed++
				d, ok := ad.Grad(w, got[i])
				require.True(t, ok)
				alone := summed(t, ad, w.Gelu().Exp().MulScalar(float64(i+1)), w)[0]
				require.Equal(t, list(t, alone), list(t, d))
			}
			require.Equal(t, 1, passed)
		}
	})
}
