package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// torchOptimizers are optimizers with what PyTorch's made of three numbers in eight steps: see descend.
var torchOptimizers = map[string]struct {
	make func() Optimizer
	want []float64
}{
	"dampening": {func() Optimizer { return &SGD{Rate: 0.1, Momentum: 0.9, Dampening: 0.3, WeightDecay: 0.01} }, []float64{-0.5308031460113354, 0.5099655186852524, 3.940859323692145}},
	"maximize":  {func() Optimizer { return &SGD{Rate: 0.01, Momentum: 0.9, WeightDecay: 0.01, Maximize: true} }, []float64{1.3315433694413747, -2.5414194473446297, -0.2619414132574708}},
	"amsgrad":   {func() Optimizer { return &Adam{Rate: 0.1, Beta1: 0.8, Beta2: 0.5, WeightDecay: 0.2, AMSGrad: true} }, []float64{0.2659406168374615, -1.2248548738571496, 1.2798325665915617}},
	"amsgrad, up": {func() Optimizer {
		return &AdamW{Rate: 0.1, Beta1: 0.8, Beta2: 0.5, WeightDecay: 0.2, AMSGrad: true, Maximize: true}
	}, []float64{1.5700813015749835, -2.4338209115815777, -0.3029256194499156}},
	"adagrad": {func() Optimizer { return &Adagrad{Rate: 0.1} }, []float64{0.5999506206590692, -1.5845582466382435, 0.9218235311441986}},
	"adagrad, all": {func() Optimizer {
		return &Adagrad{Rate: 0.1, RateDecay: 0.2, WeightDecay: 0.1, Initial: 0.5, Eps: 1e-3}
	}, []float64{0.7310031942267909, -1.710392744203878, 0.7944191077981989}},
	"rmsprop":      {func() Optimizer { return &RMSprop{Rate: 0.1} }, []float64{-0.09999999857430106, -0.2056874235182926, 2.904498836398136}},
	"centered":     {func() Optimizer { return &RMSprop{Rate: 0.01, Alpha: 0.9, Eps: 1e-3, WeightDecay: 0.1, Centered: true} }, []float64{0.8231904771314476, -1.820640514091771, 0.6800413372900718}},
	"momentum":     {func() Optimizer { return &RMSprop{Rate: 0.01, Momentum: 0.8, Maximize: true} }, []float64{2.582645563668956, -3.529056282549693, -1.001823183208228}},
	"rmsprop, all": {func() Optimizer { return &RMSprop{Rate: 0.01, Alpha: 0.9, Eps: 1e-3, Momentum: 0.8, Centered: true} }, []float64{0.4807639505716829, -1.4642718746835417, 1.0424606296065697}},
	"adamax":       {func() Optimizer { return &Adamax{Rate: 0.1} }, []float64{0.33102526122264037, -1.2812786706071846, 1.2415228795194087}},
	"adamax, all":  {func() Optimizer { return &Adamax{Rate: 0.1, Beta1: 0.8, Beta2: 0.6, Eps: 1e-3, WeightDecay: 0.2} }, []float64{-0.10593518338963287, -1.111998238503526, 1.3767640299837307}},
	"nadam":        {func() Optimizer { return &NAdam{Rate: 0.1} }, []float64{0.4295120525102039, -1.3994406114456437, 1.1127075030929492}},
	"nadam, all": {func() Optimizer {
		return &NAdam{Rate: 0.1, Beta1: 0.8, Beta2: 0.9, Eps: 1e-3, WeightDecay: 0.2, MomentumDecay: 0.3}
	}, []float64{0.35583239779957176, -1.3172569317594047, 1.1869243132531857}},
	"nadam, apart":   {func() Optimizer { return &NAdam{Rate: 0.1, WeightDecay: 0.2, Decoupled: true} }, []float64{0.3388759636512521, -1.1643562392335696, 0.9997909478039089}},
	"radam":          {func() Optimizer { return &RAdam{Rate: 0.1} }, []float64{0.49851417652175023, -1.1851675249061882, 1.6281782358249874}},
	"radam, all":     {func() Optimizer { return &RAdam{Rate: 0.1, Beta1: 0.8, Beta2: 0.99, Eps: 1e-3, WeightDecay: 0.2} }, []float64{0.41122282498320295, -1.0218538798988528, 1.5646649222461468}},
	"radam, apart":   {func() Optimizer { return &RAdam{Rate: 0.1, WeightDecay: 0.2, Decoupled: true} }, []float64{0.40656463603974974, -0.9837463319217374, 1.4504812715829878}},
	"adadelta":       {func() Optimizer { return &Adadelta{Rate: 1} }, []float64{0.9734351250146778, -1.973362584154768, 0.5266692986704938}},
	"adadelta, all":  {func() Optimizer { return &Adadelta{Rate: 0.7, Rho: 0.8, Eps: 1e-2, WeightDecay: 0.2, Maximize: true} }, []float64{2.745777181981544, -3.654889611725459, -1.0543172982088616}},
	"rprop":          {func() Optimizer { return &Rprop{Rate: 0.01} }, []float64{0.8350091520000001, -1.8350091519999998, 0.6649908479999999}},
	"rprop, turning": {func() Optimizer { return &Rprop{Rate: 0.5, Shrink: 0.3, Grow: 1.5, Least: 0.2, Most: 0.6} }, []float64{0.25000000000000017, -0.20000000000000012, 2.9000000000000004}},
}

// descend takes steps down a parabola with its lowest point at -slope, from elements that repeat.
func descend(t *testing.T, threads, n int, d tensor.DType, o Optimizer, steps int) (elements []float64, p *Params[adf]) {
	t.Helper()
	ad := New[*CPU, Strategy](NewCPUThreads(threads), None{})
	p = NewParams(ad, 1)
	from, slope := make([]float64, n), make([]float64, n)
	for i := range n {
		from[i] = []float64{1, -2, 0.5}[i%3] + float64(i/3)/1000
		slope[i] = []float64{0.1, 0.2, -3}[i%3]
	}
	x, s := p.Add("x", Floats(ad, from).Cast(d)), Floats(ad, slope).Cast(d)
	for range steps {
		g, err := ad.Backward(x.PowScalar(2).Sum().MulScalar(0.5).Add(x.Mul(s).Sum()))
		require.NoError(t, err)
		require.NoError(t, o.Step(p, g))
	}
	return list(t, x), p
}

func TestOptimizersBesidePyTorch(t *testing.T) {
	for name, c := range torchOptimizers {
		got, _ := descend(t, 1, 3, tensor.F64, c.make(), 8)
		require.InDeltaSlice(t, c.want, got, 1e-13, name)
		if name == "rprop, turning" { // by the sign of a gradient that is nearly 0
			continue
		}
		narrow, _ := descend(t, 1, 3, tensor.F32, c.make(), 8)
		require.InDeltaSlice(t, c.want, narrow, 1e-5, name)
	}
}

// Steps have the same bits with any number of threads, and when what an optimizer remembers was saved and loaded between them.
func TestOptimizersOfThreadsAndFiles(t *testing.T) {
	for name, c := range torchOptimizers {
		want, _ := descend(t, 1, 3001, tensor.F32, c.make(), 6)
		got, _ := descend(t, 3, 3001, tensor.F32, c.make(), 6)
		require.Equal(t, want, got, name)

		first := c.make()
		_, p := descend(t, 2, 3001, tensor.F32, first, 3)
		path, params := t.TempDir()+"/memory", t.TempDir()+"/params"
		require.NoError(t, first.Save(path, p))
		require.NoError(t, p.Save(params))
		later, q := c.make(), NewParams(p.be, 1)
		require.NoError(t, q.Load(params))
		x := q.Zeros("x", 3001)
		require.NoError(t, later.Load(path, q))
		slope := make([]float32, 3001)
		for i := range slope {
			slope[i] = []float32{0.1, 0.2, -3}[i%3]
		}
		for range 3 {
			g, err := p.be.Backward(x.PowScalar(2).Sum().MulScalar(0.5).Add(x.Mul(Floats(p.be, slope)).Sum()))
			require.NoError(t, err)
			require.NoError(t, later.Step(q, g))
		}
		require.Equal(t, want, list(t, x), name)
	}
}

// What one setting needs is remembered beside what another one needed, and rests meanwhile.
func TestRMSpropThatChanges(t *testing.T) {
	ad := over(None{})
	p := NewParams(ad, 1)
	w := p.Add("w", Floats(ad, []float64{1}))
	o := &RMSprop{Rate: 1, Alpha: 0.5, Centered: true}
	step := func(gradient float64) {
		t.Helper()
		g, err := ad.Backward(w, WithSeed(Floats(ad.InnerBackend(), []float64{gradient})))
		require.NoError(t, err)
		require.NoError(t, o.Step(p, g))
	}
	names := func() (all []string) {
		path := t.TempDir() + "/memory"
		require.NoError(t, o.Save(path, p))
		tensors, _, err := LoadSafetensors(path)
		require.NoError(t, err)
		for _, x := range tensors {
			all = append(all, x.Name)
		}
		require.NoError(t, o.Load(path, p))
		return all
	}
	step(2) // squares 2, mean 1: 1 - 2/1
	require.InDelta(t, -1, list(t, w)[0], 1e-7)
	require.ElementsMatch(t, []string{"w.step", "w.square_avg", "w.grad_avg"}, names())
	o.Centered, o.Momentum = false, 0.5
	step(2) // squares 3: -1 - 2/sqrt(3)
	require.InDelta(t, -1-2/math.Sqrt(3), list(t, w)[0], 1e-7)
	require.ElementsMatch(t, []string{"w.step", "w.square_avg", "w.grad_avg", "w.momentum_buffer"}, names())
	o.Centered, o.Momentum = true, 0
	step(2) // squares 3.5, mean 1.5: 2/sqrt(1.25)
	require.InDelta(t, -1-2/math.Sqrt(3)-2/math.Sqrt(1.25), list(t, w)[0], 1e-7)
}

// What would turn a descent around is refused, and so are steps that no optimizer takes.
func TestOptimizersRefuse(t *testing.T) {
	ad := over(None{})
	p := NewParams(ad, 1)
	w := p.Full("w", 1, 2)
	g, err := ad.Backward(w.Sum())
	require.NoError(t, err)
	for want, o := range map[string]Optimizer{
		"SGD: Nesterov needs a momentum, and no dampening":    &SGD{Rate: 1, Momentum: 0.5, Dampening: 0.5, Nesterov: true},
		"SGD: Dampening is NaN":                               &SGD{Rate: 1, Dampening: math.NaN()},
		"Adagrad: RateDecay is -1; want 0 or more":            &Adagrad{RateDecay: -1},
		"Adagrad: Initial is -1":                              &Adagrad{Initial: -1},
		"RMSprop: Alpha is -1":                                &RMSprop{Alpha: -1},
		"Adamax: Beta1 is 1; want 0 or more, and less than 1": &Adamax{Beta1: 1},
		"NAdam: Beta2 is 2":                                   &NAdam{Beta2: 2},
		"NAdam: MomentumDecay is -1":                          &NAdam{MomentumDecay: -1},
		"RAdam: Eps is -1":                                    &RAdam{Eps: -1},
		"Adadelta: Rho is 1":                                  &Adadelta{Rho: 1},
		"Rprop: Shrink is 1; want 0 or more, and less than 1": &Rprop{Shrink: 1},
		"Rprop: Grow is 1; want more than 1":                  &Rprop{Grow: 1},
		"Rprop: Rate is -1; want 0 or more":                   &Rprop{Rate: -1},
	} {
		require.ErrorContains(t, o.Step(p, g), "autodiff: "+want)
	}
	require.Equal(t, []float64{1, 1}, list(t, w))
	in := []Info{{tensor.F32, []int64{2}}, {tensor.F32, []int64{2}}, {tensor.F32, []int64{2}}, {}, {}}
	for want, at := range map[string]*Attr{
		`step_: there is no mode "sgd"`:                       {Mode: "sgd"},
		"step_: the second memory is absent, which nadam has": {Mode: "nadam"},
	} {
		_, err := OpStep.Infer(at, in)
		require.ErrorContains(t, err, "autodiff: "+want)
	}
	require.NotPanics(t, func() { _, _ = OpStep.Infer(nil, in) })
}
