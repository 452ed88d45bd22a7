package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// What is nil or never made is an error of whatever meets it, and no panic.
func TestAbsentBackends(t *testing.T) {
	var cpu *CPU
	var any Backend
	var ad *Autodiff[*CPU, None]
	for name, err := range map[string]error{
		"pointer":   Floats(cpu, []float32{1}).Err(),
		"interface": Floats(any, []float32{1}).Add(Floats(any, []float32{1})).Err(),
		"autodiff":  Full(ad, 1, 2).Exp().Err(),
		"ints":      Arange(cpu, 0, 1, 2).Err(),
		"random":    Normal(any, 1, 0, 1, 2).Err(),
		"shape":     Floats(cpu, []float32{1}, 2).Err(),
		"inner":     Floats(New[*CPU](nil, None{}), []float32{1}).Exp().Err(),
		"interface within": func() error {
			ad := New[Backend](nil, None{})
			_, err := ad.Backward(ad.Track(Full(ad, 1)).Exp())
			return err
		}(),
	} {
		if name == "shape" {
			require.ErrorContains(t, err, "does not fit shape [2]")
			continue
		}
		require.ErrorIs(t, err, errNoBackend, name)
	}
	require.Equal(t, "autodiff(nil)", New[*CPU](nil, None{}).Name())

	sum, err := Floats(&CPU{}, []float32{1, 2}).Sum().Item()
	require.NoError(t, err, "the zero value")
	require.Equal(t, 3.0, sum)
}

// A layer of no inputs is its bias.
func TestLayersOfNoInputs(t *testing.T) {
	be := NewCPU()
	p := NewParams(be, 1)
	for _, y := range []cpuFloat{
		Zeros(be, 2, 0).Linear(p.Linear("linear", 0, 3)), second(p.Linear("negative", -1, 3)), second(p.Conv2d("conv", 0, 3, 2)),
	} {
		for _, v := range list(t, y) {
			require.True(t, -1 <= v && v < 1, v)
		}
	}
}

// Attributes may be absent: each operation has defaults, or says what it misses.
func TestInferWithoutAttributes(t *testing.T) {
	out, err := OpSoftmax.Infer(nil, []Info{{tensor.F32, []int64{2}}})
	require.NoError(t, err)
	require.Equal(t, Info{tensor.F32, []int64{2}}, out[0])
	for op := Op(0); op < opCount+3; op++ {
		for n := range 4 {
			in := []Info{{tensor.F32, []int64{2, 2}}, {tensor.I64, []int64{2}}, {tensor.F32, []int64{2, 2}}}[:min(n, 3)]
			require.NotPanics(t, func() { _, _ = op.Infer(nil, in) }, "%v of %d inputs", op, n)
		}
	}
}

func TestAbsentStrategyAndOptions(t *testing.T) {
	ad := New[*CPU, Strategy](NewCPU(), nil)
	require.Equal(t, "none", ad.Strategy())
	x := ad.Track(Floats(ad, []float32{1, 2}))
	_, err := ad.Backward(x.Exp(), WithSum(), nil)
	require.EqualError(t, err, "autodiff: backward: option 1 is nil; want WithSum, WithSeed or KeepGraph")
	g, err := ad.Backward(x.Exp(), WithSum())
	require.NoError(t, err)
	require.Equal(t, 1, g.Len())
	require.NoError(t, ad.GradReplace(x, g, FloatView(ad.InnerBackend(), tensor.Of([]float32{5, 6}))))
}

// No rate is NaN: at warm = 1/steps the first step is the highest, and steps out of range count as the nearest.
func TestOneCycleAtItsEnds(t *testing.T) {
	require.Equal(t, 1.0, OneCycle(0, 10, 1, 0.1))
	require.Equal(t, OneCycle(0, 10, 1, 0.3), OneCycle(-5, 10, 1, 0.3))
	require.Equal(t, OneCycle(9, 10, 1, 0.3), OneCycle(50, 10, 1, 0.3))
	for _, steps := range []int{-1, 0, 1, 2, 10} {
		for _, warm := range []float64{-1, 0, 0.1, 0.5, 1, 2} {
			for step := -2; step < steps+3; step++ {
				rate := OneCycle(step, steps, 1, warm)
				require.False(t, math.IsNaN(rate) || rate < 0 || rate > 1, "OneCycle(%d, %d, 1, %g) = %g", step, steps, warm, rate)
			}
		}
	}
}

// A negative limit, which would turn the gradients around, is an error.
func TestClipNormOfNoLimit(t *testing.T) {
	ad := New(NewCPU(), None{})
	x := ad.Track(Floats(ad, []float32{3, 4}))
	g, err := ad.Backward(x, WithSeed(Floats(ad.InnerBackend(), []float32{3, 4})))
	require.NoError(t, err)
	for _, limit := range []float64{-1, math.Inf(-1), math.NaN()} {
		_, err := g.ClipNorm(limit)
		require.ErrorContains(t, err, "want 0 or more")
	}
	norm, err := g.ClipNorm(math.Inf(1))
	require.NoError(t, err)
	require.Equal(t, 5.0, norm)
	dx, _ := ad.Grad(x, g)
	got, err := dx.Float32s()
	require.NoError(t, err)
	require.Equal(t, []float32{3, 4}, got)
}

// Settings that turn the descent around, or end in NaN, are refused before a parameter changes.
func TestSettingsOfOptimizers(t *testing.T) {
	ad := New(NewCPU(), None{})
	p := NewParams(ad, 1)
	w := p.Full("w", 1, 2)
	g, err := ad.Backward(w.Mul(w).Sum())
	require.NoError(t, err)
	nan := math.NaN()
	for want, o := range map[string]Optimizer{
		"SGD: Rate is NaN":        &SGD{Rate: nan},
		"SGD: Rate is -1":         &SGD{Rate: -1},
		"SGD: Momentum is -2":     &SGD{Rate: 1, Momentum: -2},
		"SGD: WeightDecay is +In": &SGD{Rate: 1, WeightDecay: math.Inf(1)},
		"Adam: Rate is NaN":       &Adam{Rate: nan},
		"Adam: Beta1 is 1; want ": &Adam{Rate: 1, Beta1: 1},
		"Adam: Beta2 is -1; want": &Adam{Rate: 1, Beta2: -1},
		"Adam: Eps is NaN":        &Adam{Rate: 1, Eps: nan},
		"AdamW: Beta2 is 1; want": &AdamW{Rate: 1, Beta2: 1},
		"AdamW: WeightDecay is -": &AdamW{Rate: 1, WeightDecay: -1},
	} {
		require.ErrorContains(t, o.Step(p, g), "autodiff: "+want)
		require.ErrorContains(t, (&SGD{Rate: 1}).Step((*Params[*Autodiff[*CPU, None]])(nil), g), "the parameters are nil")
		got, err := w.Float32s()
		require.NoError(t, err)
		require.Equal(t, []float32{1, 1}, got)
	}
	require.NoError(t, (&SGD{Rate: 1, Momentum: 2}).Step(p, g))
}

// Views that cannot be read are errors: the memory of a slice is known.
func TestViewsThatCannotBeRead(t *testing.T) {
	be := New(NewCPU(), None{})
	for want, change := range map[string]func(v *tensor.View){
		"it has 3 strides":            func(v *tensor.View) { v.Strides = []int64{1, 1, 1} },
		"its data is nil":             func(v *tensor.View) { v.Data = nil },
		"it spans bytes [0, 20)":      func(v *tensor.View) { v.Strides = []int64{2, 2} },
		"it spans bytes [-8, 8)":      func(v *tensor.View) { v.Strides = []int64{-2, 1} },
		"elements have bytes of the":  func(v *tensor.View) { v.DType = tensor.S4 },
		"elements have bytes of thei": func(v *tensor.View) { v.DType = tensor.DType(99) },
		"want a tensor in host":       func(v *tensor.View) { v.Device.Kind = tensor.CUDA },
		"it reaches beyond all":       func(v *tensor.View) { v.Strides, v.Low, v.High = []int64{1 << 60, 1}, 0, 0 },
		"no tensor has this shape":    func(v *tensor.View) { v.Shape = []int64{-2, -2} },
	} {
		v := tensor.Of([]float32{1, 2, 3, 4}, 2, 2)
		change(&v)
		require.ErrorContains(t, FromView(be, v).Err(), want)
	}
	v := tensor.Of([]float32{1, 2, 3, 4}, 2, 2)
	v.Strides = []int64{1, 2}
	got, err := FloatView(be, v).Float32s()
	require.NoError(t, err)
	require.Equal(t, []float32{1, 3, 2, 4}, got)
}

// Run is public: any operation, with any number of inputs and any attributes, is an error and no panic.
func TestRunOfWrongInputs(t *testing.T) {
	ad := New(NewCPU(), None{})
	f, err := ad.FromView(tensor.Of([]float32{1, 2, 3, 4}, 2, 2))
	require.NoError(t, err)
	i, err := ad.FromView(tensor.Of([]int64{0, 1}))
	require.NoError(t, err)
	attrs := []*Attr{nil, {}, {Axis: -9, Axes: []int{5, -7, 5}, Shape: []int64{-1, 1 << 62}, Starts: []int{-9}, DType: 77, Mode: "?"}}
	for op := Op(0); op < opCount+3; op++ {
		for _, be := range []Backend{ad, ad.InnerBackend()} {
			for _, at := range attrs {
				for _, in := range [][]Value{nil, {nil}, {f}, {f, nil}, {f, f}, {f, i}, {i, f}, {nil, f, i, f, f}, {f, f, f, f, f, f, f, f, f, f}} {
					require.NotPanics(t, func() { _, _ = be.Run(op, at, in...) }, "%v of %d inputs, %+v", op, len(in), at)
				}
			}
		}
	}
}

// Zero values say that they have no backend, whichever method is asked.
func TestZeroValues(t *testing.T) {
	for name, zero := range map[string]*Autodiff[*CPU, None]{"zero": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) { isNoBackend(t, zero) })
	}
	for _, s := range []Strategy{(*Budget)(nil), (*Balanced)(nil)} {
		require.Equal(t, "none", New(NewCPU(), s).Strategy())
	}
}

func isNoBackend(t *testing.T, zero *Autodiff[*CPU, None]) {
	made := New(NewCPU(), None{})
	x := made.Track(Full(made, 1))
	require.Equal(t, "autodiff(nil)", zero.Name())
	require.Equal(t, tensor.Device{}, zero.Device())
	require.Equal(t, "none", zero.Strategy())
	require.False(t, zero.Owns(x.v))
	_, backward := zero.Backward(x)
	_, viewed := zero.View(Full(NewCPU(), 1).v)
	_, run := zero.Run(OpFill, &Attr{DType: tensor.F32})
	_, copied := zero.FromView(tensor.Of([]float32{1}))
	var params Params[*CPU]
	for name, err := range map[string]error{
		"backward": backward, "view": viewed, "run": run, "copy": copied, "full": Full(zero, 1, 2).Exp().Err(), "from view": FromView(zero, tensor.Of([]float32{1})).Err(),
		"track": zero.Track(x).Err(), "inner": zero.Inner(x).Err(), "from inner": zero.FromInner(made.Inner(x)).Err(), "detach": zero.Detach(x).Err(),
		"within": Full(New(zero, None{}), 1).Err(), "params of it": NewParams(zero, 1).Zeros("a", 2).Err(), "params over it": new(Params[*Autodiff[*CPU, None]]).Add("a", x).Err(),
		"params": params.Full("a", 1, 2).Err(), "a buffer of them": params.Buffer("b", 0, 2).Err(), "params of any": new(Params[Backend]).Zeros("a", 2).Err(),
	} {
		require.ErrorIs(t, err, errNoBackend, name)
	}
	require.Equal(t, []string{"a", "b"}, params.Names())
	g, err := made.Backward(x.Exp())
	require.NoError(t, err)
	require.Error(t, zero.GradReplace(x, g, Full(NewCPU(), 1)))
	require.Nil(t, zero.InnerBackend())
	require.False(t, zero.IsTracked(zero.Keep(zero.Label(Ones(zero, 1), "nothing"))))
}

// The zero value of every tensor stands for an absent one, everywhere.
func TestAbsentTensors(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		var z Float[adf]
		var i Int[adf]
		var b Bool[adf]
		x := Ones(ad, 2, 2)
		ad.Keep(z)
		ad.Label(z, "nothing")
		z.Release()
		require.Equal(t, "none", z.String())
		for n, err := range []error{
			z.Exp().Err(), z.Flip(0).Err(), z.Transpose(0, 1).Err(), z.Squeeze(0).Err(), z.Unsqueeze(0).Err(), z.Unsqueeze(5).Err(), z.Flatten(0).Err(),
			z.AddScalar(1).Err(), z.Recip().Err(), z.Slice(0, 0, 1).Err(), z.Cast(tensor.F16).Err(), Cat(0, z, x).Err(), Stack(0, x, z).Err(),
			z.MSE(x).Err(), z.BCEWithLogits(x).Err(), x.BCEWithLogits(z).Err(), z.Softplus().Err(), z.ConvTranspose2d(x, x, Window{}).Err(), x.ConvTranspose2d(z, z, Window{}).Err(), z.LayerNorm(x, x, 1).Err(), z.GroupNorm(1, x, x, 1).Err(), z.Silu().Err(), z.Dropout(0.5, 1).Err(), z.Interpolate(2, 2, SampleMode{}).Err(),
			z.ScaledDotProductAttention(x, x, b).Err(), x.ScaledDotProductAttention(z, x, b).Err(), z.MultiheadAttention(1, Attention[adf]{}, b).Err(), z.QuantizeDynamic(PerTensor(-8, 7)).Dequantize(tensor.F32).Err(),
			z.MaxPool2d(Window{Kernel: [2]int{2, 2}}).Err(), z.MaxAll().Err(), z.IsNaN().Any(0).Err(), z.MaskFill(b, 0).Err(), x.MaskFill(b, 0).Err(),
			x.MatMul(z).Err(), x.Less(z).Err(), Where(b, x, x).Err(), Where(x.Less(x), z, x).Err(), x.SliceAssign(0, 0, z).Err(),
			x.Gather(0, i).Err(), x.Embedding(i).Err(), x.Linear(z, z).Err(), x.FakeQuantize(z, PerTensor(-8, 7)).Err(),
			i.OneHot(3).Err(), i.AddScalar(1).Err(), i.EqualScalar(1).Err(), i.ToFloat().Err(), CatInts(0, i, i).Err(), b.All(0).Err(),
			ad.Track(z).Err(), ad.Detach(z).Err(), ad.Inner(z).Err(), ad.FromInner(Float[*CPU]{}).Err(), ad.QInner(Quantized[adf]{}).Err(),
		} {
			require.ErrorContains(t, err, "absent", "%d", n)
		}
		_, err := ad.Backward(z)
		require.ErrorContains(t, err, "absent")
	})
}
