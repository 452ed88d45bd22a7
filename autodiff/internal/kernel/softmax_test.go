package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
)

// TestSoftmax holds what works along a dimension to its formula, sequence by sequence: of sequences that
// lie whole, of few side by side and of many.
func TestSoftmax(t *testing.T) {
	t.Run("f32", testSoftmax[float32])
	t.Run("f64", testSoftmax[float64])
}

func testSoftmax[T Float](t *testing.T) {
	defer cpu.Limit(cpu.Best())
	exp := func(v T) T { z := []T{v}; Exp(z, z, nil); return z[0] }
	log := func(v T) T { z := []T{v}; Log(z, z, nil); return z[0] }
	each := func(x []T, f func(i int) T) []T {
		z := make([]T, len(x))
		for i := range z {
			z[i] = f(i)
		}
		return z
	}
	exps := func(x []T) (T, []T) {
		most := slices.MaxFunc(x, func(a, b T) int { return map[bool]int{true: 1, false: -1}[a > b || a != a] })
		return most, each(x, func(i int) T { return exp(x[i] - most) })
	}
	type along func(t Threads, z, x, y []T, a Axis)
	one := func(f func(t Threads, z, x []T, a Axis)) along {
		return func(t Threads, z, x, _ []T, a Axis) { f(t, z, x, a) }
	}
	for name, c := range map[string]struct {
		loop    along
		formula func(x, y []T) []T
	}{
		"softmax": {one(Softmax[T]), func(x, _ []T) []T {
			_, e := exps(x)
			return each(x, func(i int) T { return e[i] / testcase.Stripe(e) })
		}},
		"log_softmax": {one(LogSoftmax[T]), func(x, _ []T) []T {
			most, e := exps(x)
			return each(x, func(i int) T { return (x[i] - most) - log(testcase.Stripe(e)) })
		}},
		"softmax's gradient": {SoftmaxGrad[T], func(g, y []T) []T {
			sum := testcase.Stripe(each(g, func(i int) T { return g[i] * y[i] }))
			return each(g, func(i int) T { return y[i] * (g[i] - sum) })
		}},
		"log_softmax's gradient": {LogSoftmaxGrad[T], func(g, y []T) []T {
			sum := testcase.Stripe(g)
			return each(g, func(i int) T { return g[i] - T(exp(y[i])*sum) })
		}},
	} {
		for _, size := range [][2]int{{1, 1}, {2, 1}, {31, 1}, {33, 1}, {64, 1}, {65, 3}, {200, 1}, {1, 20}, {5, 3}, {5, 16}, {70, 17}, {3, 130}, {65, 257}} {
			const outer = 2
			n, inner := size[0], size[1]
			x, y := uniform[T](outer*n*inner, 3), uniform[T](outer*n*inner, 4)
			for i := range x {
				x[i] *= 20
				if i%97 == 5 {
					x[i] = []T{0, T(math.Copysign(0, -1)), T(math.Inf(-1)), T(math.Inf(1)), T(math.NaN())}[i/97%5]
				}
			}
			want := make([]T, len(x))
			cpu.Limit(cpu.Go)
			for s := range outer * inner {
				a, b := make([]T, n), make([]T, n)
				at := func(i int) int { return (s/inner*n+i)*inner + s%inner }
				for i := range n {
					a[i], b[i] = x[at(i)], y[at(i)]
				}
				for i, v := range c.formula(a, b) {
					want[at(i)] = v
				}
			}
			for _, isa := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
				cpu.Limit(isa)
				z := make([]T, len(x))
				c.loop(2, z, x, y, Axis{outer, n, inner})
				require.Equal(t, bits(want), bits(z), "%s of %v (%v)", name, size, isa)
			}
		}
	}
}
