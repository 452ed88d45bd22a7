package autodiff

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Of 16 bits, what is computed on the way is f32, and numbers are those of f32: counts,
// squares and factors are often infinite in f16.
func TestSixteenBitsComputeIn32(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		ad := over(s)
		f16 := func(v ...float64) Float[adf] { return Floats(ad, v).Cast(tensor.F16) }
		x := ad.Track(Ones(ad, 65520).Cast(tensor.F16))
		g, err := ad.Backward(x.Mean(), WithSeed(Scalar(ad.InnerBackend(), 1024.0).Cast(tensor.F16)))
		require.NoError(t, err)
		dx, ok := ad.Grad(x, g)
		require.True(t, ok)
		require.InDelta(t, 1024.0/65520, list(t, dx)[0], 1e-5)

		require.Equal(t, []float64{-1, 1, -1, 1}, list(t, f16(-300, 300, -300, 300).LayerNorm(Float[adf]{}, Float[adf]{}, 1e-5)))
		w := ad.Track(f16(1, 2, 3, 4))
		g, err = ad.Backward(f16(-300, 300, -300, 300).LayerNorm(w, f16(0, 0, 0, 0), 1e-5).Sum())
		require.NoError(t, err)
		dw, _ := ad.Grad(w, g)
		require.Equal(t, tensor.F16, dw.DType())
		require.Equal(t, []float64{-1, 1, -1, 1}, list(t, dw))

		for _, c := range []struct {
			got  Float[adf]
			want float64
		}{
			{f16(60000).MulScalar(1e-8), 6e-4}, {f16(60000).DivScalar(1e5), 0.6}, {f16(-60000).AddScalar(70000), 10000},
			{f16(6e-8).DivScalar(1e-8), 5.96}, {Floats(ad, []float64{-60000}).Cast(tensor.BF16).DivScalar(1e5), -0.5977},
		} {
			require.InEpsilon(t, c.want, list(t, c.got)[0], 1e-3)
		}
		require.True(t, math.IsNaN(list(t, f16(1).MulScalar(math.NaN()))[0]))

		for _, size := range []float64{300, 1e-4} {
			v := ad.Track(f16(1, 1, 1, 1))
			g, err := ad.Backward(v.MulScalar(size).Sum())
			require.NoError(t, err)
			norm, err := g.ClipNorm(size)
			require.NoError(t, err)
			require.InEpsilon(t, 2*size, norm, 1e-2)
			dv, _ := ad.Grad(v, g)
			require.InEpsilon(t, size/2, list(t, dv)[0], 1e-2)
		}

		p := NewParams(ad, 1)
		a, b := p.Full("a", 1, 2), p.Add("b", f16(1, 1))
		g, err = ad.Backward(a.Sum().Add(b.Sum().Cast(tensor.F32)))
		require.NoError(t, err)
		require.ErrorContains(t, (&SGD{Rate: 0.5}).Step(p, g), `the parameter "b" is f16; want f32 or f64`)
		require.Equal(t, []float64{1, 1}, list(t, a)) // none was changed
	})
}

// Optimizers take the gradients of a backend whose inner one has gradients, too.
func TestOptimizersOverTwoLevels(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		twice := New(over(s), None{})
		for _, o := range []Optimizer{&SGD{Rate: 0.1}, &SGD{Rate: 0.1, Momentum: 0.9}, &Adam{Rate: 0.1}, &AdamW{Rate: 0.1}} {
			p := NewParams(twice, 1)
			w := p.Full("w", 1, 2)
			g, err := twice.Backward(w.Mul(w).Sum())
			require.NoError(t, err)
			require.NoError(t, o.Step(p, g))
			v, err := w.Float64s()
			require.NoError(t, err)
			require.Less(t, v[0], 0.91)
		}
	})
}

func TestCornersOfShapes(t *testing.T) {
	ad := over(None{})
	m := Ones(ad, 2, 3)
	require.Equal(t, []int{}, m.Sum([]int{}...).Shape())
	require.Equal(t, []int{1, 1}, m.MeanKeep([]int{}...).Shape())
	require.Equal(t, []int{}, Ints(ad, []int64{1, 2}).Sum([]int{}...).Shape())
	x, part := Floats(ad, []float64{1, 2, 3}), Floats(ad, []float64{8, 9})
	require.Equal(t, []float64{1, 8, 9}, list(t, x.SliceAssign(0, -2, part)))
	require.Equal(t, []float64{8, 9, 3}, list(t, x.SliceAssign(0, -3, part)))
	require.ErrorContains(t, x.SliceAssign(0, -4, part).Err(), "slice_assign: elements from -4 on of axis 0 of f64[3]; want at least -3")
	none := Bools(ad, nil, 2, 0)
	for _, c := range []struct {
		got  Bool[adf]
		want bool
	}{{none.All(1), true}, {none.Any(1), false}} {
		v, err := c.got.Values()
		require.NoError(t, err)
		require.Equal(t, []bool{c.want, c.want}, v)
	}
	start := min(int64(1<<53+1), math.MaxInt-3) // int has 32 bits somewhere
	v, err := Arange(ad, int(start), 1, 3).Int64s()
	require.NoError(t, err)
	require.Equal(t, []int64{start, start + 1, start + 2}, v)
	require.ErrorContains(t, Uniform(ad, 1, 2, 1, 3).Err(), "uniform: the bounds are 2 and 1")
	require.ErrorContains(t, Uniform(ad, 1, math.NaN(), 1, 3).Err(), "uniform: the bounds are NaN and 1")
	require.ErrorContains(t, Normal(ad, 1, 0, -1, 3).Err(), "normal: std is -1; want 0 or more")
}

// A gradient of 16 bits is computed in f32 and rounded once, however many steps its rule
// has: y-1 of Pow is not rounded, and what leaves the range of f16 on the way is finite.
func TestGradientsOfSixteenBitsRoundOnce(t *testing.T) {
	type f32 = Float[*CPU]
	for name, c := range map[string]struct {
		f  func(x, y Float[adf]) Float[adf]
		dx func(x, y, z, g f32) f32
		dy func(x, y, z, g f32) f32
	}{
		"pow": {Float[adf].Pow,
			func(x, y, z, g f32) f32 { return g.Mul(y).Mul(x.Pow(y.SubScalar(1))) },
			func(x, y, z, g f32) f32 { return g.Mul(z).Mul(x.Log()) }},
		"div": {Float[adf].Div,
			func(x, y, z, g f32) f32 { return g.Div(y) },
			func(x, y, z, g f32) f32 { return g.Mul(z).Div(y).Neg() }},
		"mul, broadcast": {func(x, y Float[adf]) Float[adf] { return x.Unsqueeze(0).Mul(y.Unsqueeze(1)) },
			func(x, y, z, g f32) f32 { return g.Mul(y.Unsqueeze(1)).Sum(0) },
			func(x, y, z, g f32) f32 { return g.Mul(x.Unsqueeze(0)).Sum(1) }},
		"erf": {func(x, y Float[adf]) Float[adf] { return x.Erf() },
			func(x, y, z, g f32) f32 { return g.Mul(x.PowScalar(2).Neg().Exp().MulScalar(2 / math.SqrtPi)) }, nil},
		"cos": {func(x, y Float[adf]) Float[adf] { return x.Cos() },
			func(x, y, z, g f32) f32 { return g.Mul(x.Sin()).Neg() }, nil},
		"pow_scalar": {func(x, y Float[adf]) Float[adf] { return x.PowScalar(2.3) },
			func(x, y, z, g f32) f32 { return g.Mul(x.PowScalar(1.3).MulScalar(2.3)) }, nil},
		"log1p": {func(x, y Float[adf]) Float[adf] { return x.Log1p() },
			func(x, y, z, g f32) f32 { return g.Div(x.AddScalar(1)) }, nil},
		"sqrt": {func(x, y Float[adf]) Float[adf] { return x.Sqrt() },
			func(x, y, z, g f32) f32 { return g.Div(z.MulScalar(2)) }, nil},
	} {
		for _, d := range []tensor.DType{tensor.F16, tensor.BF16} {
			forStrategies(t, func(t *testing.T, s Strategy) {
				ad := over(s)
				x, y := ad.Track(Uniform(ad, 1, 0.1, 3, 200).Cast(d)), ad.Track(Uniform(ad, 2, 0.2, 3, 200).Cast(d))
				z := ad.Keep(c.f(x, y))
				seed := Normal(ad.InnerBackend(), 3, 0, 30, z.Shape()...).Cast(d)
				wide := func(x Float[adf]) f32 { return ad.Inner(x).Cast(tensor.F32) }
				args := [4]f32{wide(x), wide(y), wide(z), seed.Cast(tensor.F32)}
				g, err := ad.Backward(z, WithSeed(seed))
				require.NoError(t, err)
				for i, want := range []func(x, y, z, g f32) f32{c.dx, c.dy} {
					if want != nil {
						got, _ := ad.Grad([]Float[adf]{x, y}[i], g)
						require.Equal(t, list(t, want(args[0], args[1], args[2], args[3]).Cast(d)), list(t, got), "%s of %v, input %d", name, d, i)
					}
				}
			})
		}
	}
	ad := over(None{})
	x, y := ad.Track(Floats(ad, []float64{60000}).Cast(tensor.F16)), ad.Track(Floats(ad, []float64{100}).Cast(tensor.F16))
	g, err := ad.Backward(x.Div(y), WithSeed(Scalar(ad.InnerBackend(), 200.0).Cast(tensor.F16).Reshape(1)))
	require.NoError(t, err)
	dy, _ := ad.Grad(y, g)
	require.Equal(t, []float64{-1200}, list(t, dy))
}

// The gradients of a tensor that was used often add up in f32: in bf16 a sum of ones
// ends at 256.
func TestSumsOfGradientsInSixteenBits(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		for d, want := range map[tensor.DType]float64{tensor.BF16: 1000, tensor.F16: 1000, tensor.F32: 1000, tensor.F64: 1000} {
			ad := over(s)
			w := ad.Track(Ones(ad, 2).Cast(d))
			inner := ad.Keep(w.Neg())
			sum := w.Cast(tensor.F32)
			for range 499 {
				sum = sum.Add(w.Cast(tensor.F32))
			}
			for range 500 {
				sum = sum.Sub(inner.Cast(tensor.F32))
			}
			g, err := ad.Backward(sum, WithSum())
			require.NoError(t, err)
			dw, _ := ad.Grad(w, g)
			require.Equal(t, d, dw.DType())
			require.Equal(t, []float64{want, want}, list(t, dw))
			di, _ := ad.Grad(inner, g)
			require.Equal(t, d, di.DType())
			require.Equal(t, []float64{-500, -500}, list(t, di))
		}
	})
}

// Every case has the same bits under each strategy in the narrower types, too, and a
// second derivative.
func TestStrategiesAgreeInEveryType(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F16, tensor.BF16, tensor.F32} {
		for _, c := range cases {
			if c.name == "grid_sample, of a grid only" { // its image is f64
				continue
			}
			narrow := c
			narrow.f = func(x []dyn) dyn {
				cast := make([]dyn, len(x))
				for i := range x {
					cast[i] = x[i].Cast(d)
				}
				return c.f(cast).Cast(tensor.F64)
			}
			t.Run(c.name+" "+d.String(), func(t *testing.T) {
				cpu := NewCPUThreads(2)
				_, want := narrow.gradient(t, cpu, None{}, c.points())
				twice := !c.once && !c.estimate && c.want == nil
				var second [][]float64
				if twice {
					second = narrow.squared().second(t, cpu, None{}, None{}, c.points())
				}
				for _, s := range strategies[1:] {
					_, got := narrow.gradient(t, cpu, s, c.points())
					require.Equal(t, want, got, s.String())
					if twice {
						require.Equal(t, second, narrow.squared().second(t, cpu, s, s, c.points()), s.String())
					}
				}
			})
		}
	}
}
