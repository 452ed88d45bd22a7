package autodiff

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// run trains a network from one step to another, each with images of its own, and returns
// the parameters' elements.
func run(t *testing.T, ad adf, p *Params[adf], o Optimizer, from, to int) (all [][]float64) {
	net := newClassifier(p)
	for step := from; step < to; step++ {
		x, y := images(ad, rand.New(rand.NewPCG(1, uint64(step))))
		g, err := ad.Backward(net.forward(x).CrossEntropy(y, 0.1))
		require.NoError(t, err)
		require.NoError(t, o.Step(p, g))
	}
	for _, name := range p.Names() {
		x, _ := p.Get(name)
		all = append(all, list(t, x))
	}
	return all
}

// Training that is saved and loaded goes on with the same bits.
func TestResumedTraining(t *testing.T) {
	for name, optimizer := range map[string]func() Optimizer{
		"sgd":      func() Optimizer { return &SGD{Rate: 0.1, WeightDecay: 0.01} },
		"momentum": func() Optimizer { return &SGD{Rate: 0.1, Momentum: 0.9} },
		"nesterov": func() Optimizer { return &SGD{Rate: 0.1, Momentum: 0.9, Nesterov: true} },
		"adam":     func() Optimizer { return &Adam{Rate: 0.01, WeightDecay: 0.1} },
		"adamw":    func() Optimizer { return &AdamW{Rate: 0.01, WeightDecay: 0.1} },
	} {
		dir := t.TempDir()
		params, memory := filepath.Join(dir, "params"), filepath.Join(dir, "memory")
		ad := over(None{})
		want := run(t, ad, NewParams(ad, 7), optimizer(), 0, 8)

		p, o := NewParams(ad, 7), optimizer()
		run(t, ad, p, o, 0, 4)
		require.NoError(t, p.Save(params))
		require.NoError(t, o.Save(memory, p))
		first, err := os.ReadFile(memory)
		require.NoError(t, err)

		// The parameters are there, or come later, before the next save or the next step.
		for _, when := range []string{"before", "before the save", "before the step"} {
			other := over(None{})
			p, o = NewParams(other, 8), optimizer()
			require.NoError(t, p.Load(params))
			if when == "before" {
				newClassifier(p)
			}
			require.NoError(t, o.Load(memory, p))
			if when != "before the step" {
				newClassifier(p)
				again := filepath.Join(dir, "again")
				require.NoError(t, o.Save(again, p))
				second, err := os.ReadFile(again)
				require.NoError(t, err)
				require.Equal(t, first, second, name)
			}
			require.Equal(t, want, run(t, other, p, o, 4, 8), "%s, made %s", name, when)
		}
	}
}

// What an optimizer cannot go on with is refused, and leaves it as it was.
func TestMemoryOfAnotherOptimizer(t *testing.T) {
	dir := t.TempDir()
	ad := over(None{})
	p := NewParams(ad, 1)
	w := p.Full("w", 1, 2)
	step := func(o Optimizer) {
		g, err := ad.Backward(w.Mul(w).Sum())
		require.NoError(t, err)
		require.NoError(t, o.Step(p, g))
	}
	save := func(name string, o Optimizer, p Parameters) string {
		path := filepath.Join(dir, name)
		require.NoError(t, o.Save(path, p))
		return path
	}
	adam, sgd, momentum := &Adam{Rate: 0.1}, &SGD{Rate: 0.1}, &SGD{Rate: 0.1, Momentum: 0.5}
	none := save("none", adam, p)
	step(adam)
	step(sgd)
	step(momentum)
	ofAdam, ofSGD, ofMomentum := save("adam", adam, p), save("sgd", sgd, p), save("momentum", momentum, p)
	tensors, _, err := LoadSafetensors(ofAdam)
	require.NoError(t, err)
	names := map[string]string{}
	for _, x := range tensors {
		names[x.Name] = x.View.String()
	}
	require.Equal(t, map[string]string{"w.step": "i64[]", "w.exp_avg": "f32[2]", "w.exp_avg_sq": "f32[2]"}, names)

	p2 := NewParams(ad, 1)
	p2.Full("w", 1, 3)
	double := NewParams(ad, 1)
	double.Add("w", Floats(ad, []float64{1, 1}))
	p3 := NewParams(ad, 1)
	p3.Full("other", 1, 2)
	untracked := NewParams(ad.InnerBackend(), 1)
	untracked.Full("w", 1, 2)
	negative := filepath.Join(dir, "negative")
	require.NoError(t, SaveSafetensors(negative, []NamedView{{"w.step", tensor.Of([]int64{-1}, []int64{}...)}}, nil))
	odd := filepath.Join(dir, "odd")
	require.NoError(t, SaveSafetensors(odd, []NamedView{{"step", tensor.Of([]int64{1}, []int64{}...)}}, nil))
	two := filepath.Join(dir, "two")
	require.NoError(t, SaveSafetensors(two, []NamedView{
		{"a.step", tensor.Scalar(int64(0))}, {"a.exp_avg", tensor.Of([]float32{1})}, {"a.exp_avg_sq", tensor.Of([]float32{1})},
		{"b.step", tensor.Scalar(int64(1))}, {"b.exp_avg", tensor.Of([]float32{1})},
	}, nil))
	for _, c := range []struct {
		o    Optimizer
		path string
		p    Parameters
		want string
	}{
		{adam, ofSGD, p, `has no "w.exp_avg"`},
		{&AdamW{}, ofMomentum, p, `has no "w.exp_avg"`},
		{sgd, ofAdam, p, `"w.exp_avg" is of another optimizer`},
		{sgd, ofAdam, p3, `"w.exp_avg" is of another optimizer`},
		{adam, ofSGD, p3, `has no "w.exp_avg"`},
		{adam, negative, p3, `"w.step" is i64[]; want an i64 of 0 or more`},
		{adam, two, p3, `has no "b.exp_avg_sq"`},
		{adam, odd, p3, `"step" is of another optimizer`},
		{adam, ofAdam, p2, `"w.exp_avg" is f32[2]; want f32[3], as the parameter is`},
		{adam, ofAdam, double, `"w.exp_avg" is f32[2]; want f64[2], as the parameter is`},
		{adam, ofAdam, untracked, `the parameter "w" is not tracked`},
		{adam, ofAdam, nil, `the parameters are nil`},
		{adam, ofAdam, (*Params[adf])(nil), `the parameters are nil`},
		{adam, negative, p, `"w.step" is i64[]; want an i64 of 0 or more`},
		{adam, filepath.Join(dir, "missing"), p, "missing"},
	} {
		err := c.o.Load(c.path, c.p)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, filepath.Base(c.path))
	}
	require.ErrorContains(t, adam.Save(filepath.Join(dir, "x"), untracked), `the parameter "w" is not tracked`)
	require.ErrorContains(t, adam.Save(filepath.Join(dir, "x"), nil), `the parameters are nil`)
	again, err := os.ReadFile(save("again", adam, p))
	require.NoError(t, err)
	before, err := os.ReadFile(ofAdam)
	require.NoError(t, err)
	require.Equal(t, before, again)

	// Nothing remembered is a memory, too; AdamW's is Adam's.
	require.NoError(t, adam.Load(none, p))
	require.Empty(t, adam.state.of)
	require.NoError(t, (&AdamW{}).Load(ofAdam, p))

	// A parameter that comes later, and is not the file's: nothing changes.
	require.NoError(t, adam.Load(ofAdam, p3))
	late := p3.Full("w", 1, 3)
	g, err := ad.Backward(late.Sum())
	require.NoError(t, err)
	require.ErrorContains(t, adam.Step(p3, g), ofAdam+`: "w.exp_avg" is f32[2]; want f32[3], as the parameter is`)
	require.ErrorContains(t, adam.Save(filepath.Join(dir, "x"), p3), ofAdam)
	require.Equal(t, []float64{1, 1, 1}, list(t, late))
	require.NoError(t, adam.Load(none, p3)) // forgets it
	require.NoError(t, adam.Step(p3, g))
}

// Without a momentum the running mean of earlier steps rests, as in PyTorch: times
// 0 an infinity would be a NaN.
func TestMomentumThatRests(t *testing.T) {
	ad := over(None{})
	p := NewParams(ad, 1)
	w := p.Full("w", 1, 1)
	step := func(o *SGD, gradient float64) {
		t.Helper()
		g, err := ad.Backward(w, WithSeed(Full(ad.InnerBackend(), gradient, 1)))
		require.NoError(t, err)
		require.NoError(t, o.Step(p, g))
	}
	o := &SGD{Rate: 1, Momentum: 0.5}
	step(o, 2) // the mean is 2
	o.Momentum = 0
	step(o, 1)
	o.Momentum = 0.5
	step(o, 1) // 0.5 * 2 + 1
	require.Equal(t, []float64{1 - 2 - 1 - 2}, list(t, w))
}

// An optimizer of two sets of parameters loads each from its own file, and
// the second load keeps what the first has read.
func TestMemoryOfTwoSetsOfParameters(t *testing.T) {
	dir, ad := t.TempDir(), over(None{})
	one, two := NewParams(ad, 1), NewParams(ad, 2)
	x, y := one.Full("x", 1, 2), two.Full("y", 2, 3)
	o := &Adam{Rate: 0.1}
	files := map[string]*Params[adf]{"one": one, "two": two}
	g, err := ad.Backward(x.Sum().Add(y.Mul(y).Sum()))
	require.NoError(t, err)
	for name, p := range files {
		require.NoError(t, o.Step(p, g))
		require.NoError(t, o.Save(filepath.Join(dir, name), p))
	}
	fresh := &Adam{Rate: 0.1}
	for name, p := range files {
		require.NoError(t, fresh.Load(filepath.Join(dir, name), p))
	}
	for name, p := range files {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, fresh.Save(filepath.Join(dir, "again"), p))
		got, err := os.ReadFile(filepath.Join(dir, "again"))
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}
