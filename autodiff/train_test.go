package autodiff

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// TestOptimizers follows PyTorch's for four steps on a parabola.
func TestOptimizers(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		for name, c := range map[string]struct {
			o    Optimizer
			want []float64
		}{
			"sgd":          {&SGD{Rate: 0.1}, []float64{0.62171, -1.38098, 1.35975}},
			"weight decay": {&SGD{Rate: 0.1, WeightDecay: 0.3}, []float64{0.54004358, -1.21150328, 1.272069705}},
			"momentum":     {&SGD{Rate: 0.1, Momentum: 0.9}, []float64{0.14948, -0.60824, 2.433}},
			"nesterov": {&SGD{Rate: 0.1, Momentum: 0.9, Nesterov: true, WeightDecay: 0.01},
				[]float64{-0.0027388776728069753, -0.355869587959902, 2.753904053868156}},
			"adam": {&Adam{Rate: 0.1}, []float64{0.6034141152574095, -1.6017243204428375, 0.8988615898081359}},
			"adam with decay": {&Adam{Rate: 0.1, WeightDecay: 0.2, Beta1: 0.8, Beta2: 0.95, Eps: 1e-6},
				[]float64{0.6049734991908661, -1.6025135966745079, 0.8977389488263051}},
			"adamw": {&AdamW{Rate: 0.1, WeightDecay: 0.2}, []float64{0.5385716121131728, -1.4592199119638385, 0.8483699134783133}},
		} {
			t.Run(name, func(t *testing.T) {
				ad := over(s)
				p := NewParams(ad, 1)
				x := p.Add("x", Floats(ad, []float64{1, -2, 0.5}))
				unused := p.Zeros("unused", 2)
				slope := Floats(ad, []float64{0.1, 0.2, -3})
				for range 4 {
					g, err := ad.Backward(x.PowScalar(2).Sum().MulScalar(0.5).Add(x.Mul(slope).Sum()))
					require.NoError(t, err)
					require.NoError(t, c.o.Step(p, g))
				}
				require.InDeltaSlice(t, c.want, list(t, x), 1e-12)
				require.Equal(t, []float64{0, 0}, list(t, unused))
			})
		}
	})
}

func TestOptimizerErrors(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		cpu := NewCPU()
		p := NewParams(cpu, 1)
		p.Zeros("w", 2)
		ad := New[*CPU, Strategy](cpu, s)
		w := ad.Track(Zeros(ad, 2))
		g, err := ad.Backward(w.Sum())
		require.NoError(t, err)
		require.ErrorContains(t, (&SGD{Rate: 1}).Step(p, g), `the parameter "w" is not tracked`)
		require.ErrorContains(t, (&SGD{Rate: 1, Nesterov: true}).Step(p, g), "Nesterov needs a momentum")
	})
}

// A parameter that cannot be changed is found before another one is.
func TestStepsChangeAllOrNothing(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := New[*CPU, Strategy](NewCPU(), s)
		p := NewParams(ad, 1)
		w := p.Full("w", 1, 2)
		p.Add("v", Ones(ad, 2).Reshape(3))
		g, err := ad.Backward(w.Sum())
		require.NoError(t, err)
		for _, o := range []Optimizer{&SGD{Rate: 1}, &Adam{Rate: 1}} {
			require.ErrorContains(t, o.Step(p, g), "reshape")
		}
		got, err := w.Float32s()
		require.NoError(t, err)
		require.Equal(t, []float32{1, 1}, got)
	})
}

func TestOneCycle(t *testing.T) {
	for step, want := range []float64{0.00016, 0.00208, 0.004, 0.003965946335583006, 0.0038649449990308758} {
		require.InDelta(t, want, OneCycle(step, 20, 4e-3, 0.15), 1e-15)
	}
	require.InDelta(t, 1.6e-8, OneCycle(19, 20, 4e-3, 0.15), 1e-15)
	for _, steps := range []int{1, 0} { // the first step is the last, as in PyTorch
		require.InDelta(t, 4e-6, OneCycle(0, steps, 1, 0.3), 1e-15)
	}
	require.Equal(t, OneCycle(3, 20, 1, 1), OneCycle(3, 20, 1, 7))
}

// classifier is a network with something of everything, for tests.
type classifier[B Backend] struct {
	table, conv, convBias, w1, b1, w2, b2, gain, shift, scale Float[B]
}

func newClassifier[B Backend](p *Params[B]) (c classifier[B]) {
	c.table = p.Normal("table", 1, 11, 3)
	c.conv, c.convBias = p.Conv2d("conv", 3, 4, 3)
	c.w1, c.b1 = p.Linear("hidden", 36, 16)
	c.w2, c.b2 = p.Linear("out", 16, 5)
	c.gain, c.shift = p.Full("gain", 1, 16), p.Zeros("shift", 16)
	c.scale = p.Full("scale", 0.02, 16)
	return c
}

func (c *classifier[B]) forward(x Int[B]) Float[B] {
	h := c.table.Embedding(x).Permute(0, 3, 1, 2)
	h = h.Conv2d(c.conv, c.convBias, Window{Pad: [2]int{1, 1}}).Gelu().MaxPool2d(Window{Kernel: [2]int{2, 2}}).Flatten(1)
	learned := PerChannel(0, -128, 127)
	learned.GradFactor = 0.01
	w1 := c.w1.FakeQuantize(c.scale, learned)
	h = h.Linear(w1, c.b1).LayerNorm(c.gain, c.shift, 1e-5).Tanh()
	return h.QuantizedLinear(c.w2, c.b2)
}

func images[B Backend](be B, random *rand.Rand) (x, y Int[B]) {
	pixels, labels := make([]int32, 8*6*6), make([]int64, 8)
	for i := range pixels {
		pixels[i] = int32(random.IntN(11))
	}
	for i := range labels {
		labels[i] = int64(random.IntN(5))
	}
	return Ints(be, pixels, 8, 6, 6), Ints(be, labels)
}

// trained returns the digest of the parameters after some steps.
func trained(t *testing.T, threads int, s Strategy) string {
	ad := New(NewCPUThreads(threads), s)
	p := NewParams(ad, 7)
	net := newClassifier(p)
	random := rand.New(rand.NewPCG(1, 1))
	opt := &AdamW{Rate: 0.01, WeightDecay: 0.01}
	for range 10 {
		x, y := images(ad, random)
		g, err := ad.Backward(net.forward(x).CrossEntropy(y, 0.1))
		require.NoError(t, err)
		require.Equal(t, 10, g.Len())
		require.NoError(t, opt.Step(p, g))
		g.Release()
	}
	views, err := p.Views()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, WriteSafetensors(&b, views, nil))
	return fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
}

// TestTrainingIsReproducible compares the digest of a training run under every
// strategy and with 1, 2 and 8 threads.
func TestTrainingIsReproducible(t *testing.T) {
	splitFinely(t)
	want := trained(t, 1, None{})
	for _, s := range append(strategies, Budget{20_000}) {
		for _, threads := range []int{1, 2, 8} {
			require.Equal(t, want, trained(t, threads, s), "%v with %d threads", s, threads)
		}
	}
}

// TestStepsAllocateLittle measures what training steps allocate after the
// first ones: the bookkeeping of the graph, and no elements.
func TestStepsAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	forStrategies(t, func(t *testing.T, s Strategy) {
		cpu := NewCPUThreads(1)
		ad := New(cpu, s)
		p := NewParams(ad, 1)
		w1, b1 := p.Linear("1", 256, 512)
		w2, b2 := p.Linear("2", 512, 10)
		x, y := Normal(ad, 1, 0, 1, 64, 256), Ints(ad, make([]int64, 64))
		opt := &Adam{Rate: 1e-3}
		step := func() {
			loss := x.Linear(w1, b1).Relu().Linear(w2, b2).CrossEntropy(y, 0)
			g, err := ad.Backward(loss)
			require.NoError(t, err)
			require.NoError(t, opt.Step(p, g))
			g.Release()
			loss.Release()
		}
		for range 5 {
			step()
		}
		// A collection may take buffers of results that the program dropped.
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		step()
		made, _ := cpu.MemoryStats()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const steps = 50
		for range steps {
			step()
		}
		runtime.ReadMemStats(&after)
		again, _ := cpu.MemoryStats()
		bytes := (after.TotalAlloc - before.TotalAlloc) / steps
		t.Logf("%d bytes in %d allocations a step, %d bytes of new buffers; the buffers hold %d", bytes, (after.Mallocs-before.Mallocs)/steps, again-made, made)
		require.Equal(t, made, again, "a buffer was made")
		require.Less(t, bytes, uint64(40<<10))
		require.Less(t, again, int64(4<<20), "the buffers hold a step, not every step's")
	})
}

func TestParams(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		path := filepath.Join(t.TempDir(), "net.safetensors")
		ad := over(s)
		p := NewParams(ad, 7)
		net := newClassifier(p)
		require.NoError(t, p.Save(path))
		x, _ := images(ad, rand.New(rand.NewPCG(3, 3)))
		want := list(t, net.forward(x))

		// Into new parameters, before the network asks for them and after.
		for _, early := range []bool{true, false} {
			q := NewParams(ad, 8)
			if early {
				require.NoError(t, q.Load(path))
			}
			other := newClassifier(q)
			if !early {
				require.NotEqual(t, want, list(t, other.forward(x)))
				require.NoError(t, q.Load(path))
			}
			require.Equal(t, want, list(t, other.forward(x)))
		}
		// On the backend without gradients, from the file and sharing elements.
		cpu := ad.InnerBackend()
		served := NewParams(cpu, 9)
		require.NoError(t, served.Load(path))
		plain := newClassifier(served)
		require.Equal(t, want, list(t, plain.forward(ad.IntInner(x))))
		shared := newClassifier(InnerParams(p))
		require.Equal(t, want, list(t, shared.forward(ad.IntInner(x))))

		// A name has one parameter.
		again := p.Full("gain", 5, 16)
		require.Equal(t, list(t, net.gain), list(t, again))
		require.ErrorContains(t, p.Zeros("gain", 3).Err(), `the parameter "gain" is f32[16]; shape [3] was asked for`)
		require.ErrorContains(t, p.Buffer("gain", 0, 16).Err(), `"gain" is a parameter; a buffer was asked for: want another name`)
		require.Equal(t, []string{"table", "conv.weight", "conv.bias"}, p.Names()[:3])
		r := NewParams(ad, 1)
		r.Zeros("unknown", 2)
		require.ErrorContains(t, r.Load(path), `has no parameter "unknown"`)

		// All or none, and of any type.
		half := func(shape ...int) *Params[adf] {
			p := NewParams(ad, 1)
			p.Add("first", Full(ad, 3, 2).Cast(tensor.BF16))
			p.Full("second", 4, shape...)
			return p
		}
		require.NoError(t, half(2).Save(path))
		other := NewParams(ad, 1)
		x16 := other.Add("first", Zeros(ad, 2).Cast(tensor.BF16))
		other.Zeros("second", 3)
		require.ErrorContains(t, other.Load(path), `"second" is f32[2]; want f32[3]`)
		double := NewParams(ad, 1)
		double.Add("first", x16)
		double.Add("second", Floats(ad, []float64{0, 0}))
		require.ErrorContains(t, double.Load(path), `"second" is f32[2]; want f64[2]`)
		require.Equal(t, []float64{0, 0}, list(t, x16))
		later := NewParams(ad, 1)
		require.NoError(t, later.Load(path))
		require.ErrorContains(t, later.Zeros("second", 3).Err(), `the file's parameter "second" is f32[2]; shape [3] was asked for`)
		require.ErrorContains(t, later.Save(path+"2"), `the parameter "second": `)
		fitting := half(2)
		require.NoError(t, fitting.Load(path))
		x16, _ = fitting.Get("first")
		require.Equal(t, []float64{3, 3}, list(t, x16))
	})
}
