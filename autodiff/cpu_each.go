package autodiff

import (
	"math"

	"github.com/isobit-ml/isobit/autodiff/internal/detmath"
	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// The CPU's loops over elements, and those that make tensors.

// rows1 and rows2 apply a loop to rows; cost is its price for an element, in plain additions.
func rows1[T any](cost int, f func(z, x, y []T)) loop {
	return func(k *call) error {
		kernel.Rows(k.t, cost, elements[T](k.out[0]), elements[T](k.in[0]), nil, f)
		return nil
	}
}

func rows2[T any](cost int, f func(z, x, y []T)) loop {
	return func(k *call) error {
		kernel.Rows(k.t, cost, elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[1]), f)
		return nil
	}
}

func powScalar[T kernel.Float](k *call) error {
	p := T(k.at.Floats[0])
	switch p {
	case 2:
		return rows1(1, kernel.Square[T])(k)
	case 1:
		return rows1(1, func(z, x, _ []T) { copy(z, x) })(k)
	case 0.5:
		return rows1(4, kernel.Sqrt[T])(k)
	case -1:
		return rows1(4, kernel.Reciprocal[T])(k)
	}
	power := kernel.Power[T]()
	return rows1(8, func(z, x, _ []T) { power.VS(z, x, p) })(k)
}

func clampOf[T kernel.Float](k *call) error {
	lo, hi := T(k.at.Floats[0]), T(k.at.Floats[1])
	return rows1(1, func(z, x, _ []T) { kernel.Clamp(z, x, lo, hi) })(k)
}

// clampGrad passes the gradient inside, bounds included.
func clampGrad[T kernel.Float](k *call) error {
	lo, hi := T(k.at.Floats[0]), T(k.at.Floats[1])
	return rows2(1, func(z, g, x []T) { kernel.ClampGrad(z, g, x, lo, hi) })(k)
}

func random(f32 func(kernel.Threads, []float32, uint64, float64, float64), f64 func(kernel.Threads, []float64, uint64, float64, float64)) loop {
	return func(k *call) error {
		a, b := k.at.Floats[0], k.at.Floats[1]
		if k.out[0].dtype == tensor.F64 {
			f64(k.t, elements[float64](k.out[0]), k.at.Seed, a, b)
		} else {
			f32(k.t, elements[float32](k.out[0]), k.at.Seed, a, b)
		}
		return nil
	}
}

func addInPlace[T kernel.Float](k *call) error {
	add := kernel.Add[T]()
	x := arrayOf[T](k.in[0])
	add.Run(k.t, x, x, arrayOf[T](k.in[1]))
	return nil
}

// sgd follows PyTorch: momentum * v + g, Nesterov's variant too.
func sgd[T kernel.Float](k *call) error {
	o := kernel.SGD[T]{Rate: T(k.at.Floats[0]), Momentum: T(k.at.Floats[1]), Decay: T(k.at.Floats[2]), Share: T(1 - k.at.Floats[3]), Nesterov: k.at.Nesterov}
	p, g, v := elements[T](k.in[0]), elements[T](k.in[1]), elements[T](k.in[2])
	k.t.For(len(p), 2, 64, func(lo, hi int) {
		switch {
		case v != nil:
			o.Step(p[lo:hi], g[lo:hi], v[lo:hi])
		case o.Decay != 0:
			o.Step(p[lo:hi], g[lo:hi], nil)
		default:
			kernel.Descend(p[lo:hi], g[lo:hi], o.Rate)
		}
	})
	return nil
}

// adam is Adam, or AdamW where Decoupled. Floats: rate, beta1, beta2, eps, weight
// decay, step (from 1).
func adam[T kernel.Float](k *call) error {
	a := k.at.Floats
	fix1 := 1 - detmath.Pow(a[1], a[5])
	fix2 := math.Sqrt(1 - detmath.Pow(a[2], a[5]))
	o := &kernel.Adam[T]{
		Keep: 1, Decay: T(a[4]), OneLessBeta1: T(1 - a[1]), Beta2: T(a[2]), OneLessBeta2: T(1 - a[2]),
		Rate: T(a[0] / fix1), Root: T(fix2), Eps: T(a[3]),
	}
	if k.at.Decoupled {
		o.Keep, o.Decay = T(1-float64(a[0]*a[4])), 0
	}
	p, g, m, v, most := elements[T](k.in[0]), elements[T](k.in[1]), elements[T](k.in[2]), elements[T](k.in[3]), elements[T](k.in[4])
	k.t.For(len(p), 8, 64, func(lo, hi int) {
		if most != nil {
			o.StepMost(p[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi], most[lo:hi])
		} else {
			o.Step(p[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi])
		}
	})
	return nil
}

// stepBy takes the loop of an optimizer.
func stepBy[T kernel.Float](steps map[string]kernel.Step[T]) loop {
	return func(k *call) error {
		var n kernel.Numbers[T]
		for i, v := range k.at.Floats {
			n[i] = T(v)
		}
		step, p, g := steps[k.at.Mode], elements[T](k.in[0]), elements[T](k.in[1])
		k.t.For(len(p), 8, 64, func(lo, hi int) {
			var memories [3][]T
			for i := range memories {
				if m := elements[T](k.in[2+i]); m != nil {
					memories[i] = m[lo:hi]
				}
			}
			step(&n, p[lo:hi], g[lo:hi], memories[0], memories[1], memories[2])
		})
		return nil
	}
}
