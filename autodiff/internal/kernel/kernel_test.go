package kernel

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
)

func uniform[T Float](n int, seed uint64) []T {
	x := make([]T, n)
	Uniform(1, x, seed, -1, 1)
	return x
}

// sizes lie around the widths of vectors, lanes and blocks.
var sizes = []int{0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 200, 1000, 4099}

// TestAssembly compares every assembly loop with its Go loop.
func TestAssembly(t *testing.T) {
	if !hasAVX2() {
		t.Skip("this machine has no AVX2")
	}
	t.Run("f32", testAssembly[float32])
	t.Run("f64", testAssembly[float64])
	t.Run("lanes of f32", testLanes[float32])
	t.Run("lanes of f64", testLanes[float64])
}

func testLanes[T Float](t *testing.T) {
	defer cpu.Limit(cpu.Best())
	for _, n := range []int{64, 128, 640} {
		x := uniform[T](n, 3)
		var a, b [lanes]T
		addLanes(&a, x)
		cpu.Limit(cpu.Go)
		addLanes(&b, x)
		cpu.Limit(cpu.Best())
		require.Equal(t, b, a)
	}
}

func testAssembly[T Float](t *testing.T) {
	inf := T(math.Inf(1))
	special := []T{0, T(math.Copysign(0, -1)), inf, -inf, T(math.NaN()), 1e-45, -1e-45, 3e38, 0.5, -0.5, 1.5, 2.5, 1<<22 + 0.5, -3.5}
	binary := func(b Binary[T, T]) [3]func(z, x, y []T) {
		return [3]func(z, x, y []T){
			b.VV, func(z, x, y []T) { b.VS(z, x, y[0]) }, func(z, x, y []T) { b.SV(z, y[0], x) },
		}
	}
	one := func(loops ...func(z, x, y []T)) (all [3]func(z, x, y []T)) { copy(all[:], loops); return all }
	defer cpu.Limit(cpu.Best())
	for name, forms := range map[string][3]func(z, x, y []T){
		"add": binary(Add[T]()), "sub": binary(Sub[T]()), "mul": binary(Mul[T]()), "div": binary(Div[T]()),
		"maximum": binary(Maximum[T]()), "minimum": binary(Minimum[T]()),
		"descend": one(func(z, x, y []T) { Descend(z, x, y[0]) }),
		"neg":     one(Neg[T]), "abs": one(Abs[T]), "sign": one(Sign[T]), "sqrt": one(Sqrt[T]),
		"floor": one(Floor[T]), "ceil": one(Ceil[T]), "round": one(Round[T]), "reciprocal": one(Reciprocal[T]), "square": one(Square[T]),
		"relu": one(Relu[T], ReluGrad[T]), "tanh": one(TanhGrad[T]), "sigmoid": one(SigmoidGrad[T]),
		"clamp": one(func(z, x, y []T) { Clamp(z, x, y[0], 0.7) }, func(z, x, y []T) { Clamp(z, x, -0.7, y[0]) },
			func(z, x, y []T) { ClampGrad(z, y, x, -0.5, x[0]) }),
	} {
		for form, loop := range forms {
			for i, n := range slices.Concat(sizes[1:], sizes[1:], []int{8200}) {
				if loop == nil {
					continue
				}
				x, y := uniform[T](n, 1), uniform[T](n, 2)
				for i := range x {
					switch {
					case i%3 == 1:
						x[i] = special[i%len(special)]
					case i%5 == 2:
						y[i] = special[i/3%len(special)]
					}
				}
				y[0] = special[i%len(special)] // where it is a number
				run := func(rows cpu.ISA) []T {
					cpu.Limit(rows)
					// Guards on either side must stay as they are.
					z := append([]T{7}, slices.Clone(y)...)
					z = append(z, 7)
					loop(z[1:n+1], x, y)
					require.Equal(t, []T{7, 7}, []T{z[0], z[n+1]}, "%s of %d wrote outside", name, n)
					return z
				}
				want := bits(run(cpu.Go))
				for _, rows := range []cpu.ISA{cpu.AVX2, cpu.AVX512} {
					require.Equal(t, want, bits(run(rows)), "%s of %d, form %d, %v", name, n, form, rows)
				}
			}
		}
	}
}

// bits makes values comparable: NaNs are equal, zeros of both signs are not.
func bits[T Float](x []T) (out []uint64) {
	for _, v := range x {
		if v != v {
			v = T(math.NaN())
		}
		out = append(out, math.Float64bits(float64(v)))
	}
	return out
}

// TestGemm holds both types: one chain of fused steps over k, on every machine.
func TestGemm(t *testing.T) {
	t.Run("f32", testGemm[float32])
	t.Run("f64", testGemm[float64])
}

func testGemm[T Float](t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {65, 129, 33}, {70, 40, 300}, {130, 260, 5}, {2, 3, 0}, {3, 70, 1100}, {20, 40, 1100}, {90, 6, 1100}} {
		m, n, k := s[0], s[1], s[2]
		a, b, at, bt := uniform[T](m*k, 1), uniform[T](k*n, 2), make([]T, m*k), make([]T, k*n)
		want := make([]T, m*n)
		for i := range m {
			for j := range n {
				for l := range k {
					want[i*n+j] = fused(a[i*k+l], b[l*n+j], want[i*n+j])
				}
			}
		}
		transpose(at, a, m, k)
		transpose(bt, b, k, n)
		for _, threads := range []Threads{1, 2, 8} {
			c := make([]T, m*n)
			product := func(a, b Matrix[T], k int, add bool) {
				Gemm(threads, Product[T]{M: m, N: n, K: k, A: a, B: b, C: RowMajor(c, n), Add: add})
			}
			product(RowMajor(a, k), RowMajor(b, n), k, false)
			require.Equal(t, want, c, "%v", s)
			product(Transposed(at, m), RowMajor(b, n), k, false)
			require.Equal(t, want, c, "%v transposed", s)
			if k > 1 { // a chain goes on
				product(RowMajor(a, k), RowMajor(b, n), 1, false)
				product(RowMajor(a[1:], k), RowMajor(b[n:], n), k-1, true)
				require.Equal(t, want, c, "%v in two parts", s)
				product(RowMajor(a, k), Transposed(bt, k), 1, false)
				product(RowMajor(a[1:], k), Transposed(bt[1:], k), k-1, true)
				require.Equal(t, want, c, "%v in two parts, along columns", s)
			}
		}
	}
}

// fused is x*y + z, rounded once.
func fused[T Float](x, y, z T) T {
	exact := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
	exact.Add(exact, big.NewFloat(float64(z)))
	if is32[T]() {
		v, _ := exact.Float32()
		return T(v)
	}
	v, _ := exact.Float64()
	return T(v)
}

func transpose[T Float](z, x []T, rows, columns int) {
	for i := range rows {
		for j := range columns {
			z[j*rows+i] = x[i*columns+j]
		}
	}
}

// A zero in a does not hide an infinity or a NaN in b, wherever it is.
func TestGemmOfInfinities(t *testing.T) {
	const m, n, k, ld = 3, 37, 5, 40
	for at := range n {
		for _, v := range []float32{float32(math.Inf(1)), float32(math.NaN())} {
			a, b := make([]float32, m*k), uniform[float32](k*ld, 2)
			a[0], a[k] = 1, -1
			b[3*ld+at] = v // where every row of a is 0
			b[4*ld+n] = v  // beyond b
			transposed := make([]float32, m*k)
			transpose(transposed, a, m, k)
			for _, x := range []Matrix[float32]{RowMajor(a, k), Transposed(transposed, m)} {
				c := make([]float32, m*n)
				Gemm(2, Product[float32]{M: m, N: n, K: k, A: x, B: RowMajor(b, ld), C: RowMajor(c, n)})
				for i, got := range c {
					if i%n == at {
						require.True(t, got != got, "row %d, column %d is %v", i/n, i%n, got)
						continue
					}
					require.Equal(t, a[i/n*k]*b[i%n]+0, got)
				}
			}
		}
	}
}

func TestPermute(t *testing.T) {
	shape := []int64{3, 4, 5, 2}
	x := make([]uint32, 120)
	for i := range x {
		x[i] = uint32(i)
	}
	for _, axes := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 0, 3, 2}, {2, 3, 0, 1}, {0, 3, 1, 2}, {3, 0, 1, 2}} {
		z := make([]uint32, 120)
		Permute(2, z, x, shape, axes)
		var n [4]int
		for i, a := range axes {
			n[i] = int(shape[a])
		}
		for i := range z {
			at := [4]int{i / (n[1] * n[2] * n[3]), i / (n[2] * n[3]) % n[1], i / n[3] % n[2], i % n[3]}
			var from [4]int
			for k, a := range axes {
				from[a] = at[k]
			}
			require.Equal(t, x[((from[0]*4+from[1])*5+from[2])*2+from[3]], z[i], "%v at %v", axes, at)
		}
	}
}

// TestScatterOrder holds ScatterAdd to the Chunk order.
func TestScatterOrder(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 700, 1500} {
		x := uniform[float32](n, 9)
		dst := make([]int64, n)
		for i := range dst {
			dst[i] = 1
		}
		want := 3 + testcase.Chunk(x) // the finished sum is added once
		z := make([]float32, 3)
		ScatterAdd(1, z, []float32{1, 3, float32(math.Copysign(0, -1))}, x, dst, Axis{1, 3, 1})
		require.Equal(t, []float32{1, want, 0}, z, "%d contributions", n)
		require.False(t, math.Signbit(float64(z[2])), "a -0 without contributions becomes +0")
	}
}

func TestRandom(t *testing.T) {
	x := make([]float64, 100_000)
	Uniform(2, x, 5, 2, 4)
	require.GreaterOrEqual(t, slices.Min(x), 2.0)
	require.Less(t, slices.Max(x), 4.0)
	require.InDelta(t, 3, testcase.Stripe(x)/float64(len(x)), 0.01)
	y := make([]float64, len(x))
	Uniform(1, y, 5, 2, 4)
	require.Equal(t, x, y, "threads change nothing")
	Normal(2, x, 6, 1, 2)
	require.InDelta(t, 1, testcase.Stripe(x)/float64(len(x)), 0.03)
	for i, v := range x {
		y[i] = (v - 1) * (v - 1)
	}
	require.InDelta(t, 4, testcase.Stripe(y)/float64(len(y)), 0.1)
	f := make([]float32, len(x))
	Uniform(1, f, 5, -1, 1)
	require.Less(t, slices.Max(f), float32(1))
}

func TestSortAndBest(t *testing.T) {
	nan := math.NaN()
	x := []float64{3, 1, nan, 1, -2, 3}
	z, at := make([]float64, 6), make([]int64, 6)
	Sort(1, z, at, x, Axis{1, 6, 1}, false)
	require.Equal(t, []int64{4, 1, 3, 0, 5, 2}, at)
	Sort(1, z, at, x, Axis{1, 6, 1}, true)
	require.Equal(t, []int64{2, 0, 5, 1, 3, 4}, at)
	Best(1, z[:1], at[:1], x, Axis{1, 6, 1}, false)
	require.Equal(t, int64(2), at[0], "the first NaN")
	Best(1, z[:1], at[:1], []float64{1, 3, 3}, Axis{1, 3, 1}, false)
	require.Equal(t, int64(1), at[0], "the first of equals")
}
