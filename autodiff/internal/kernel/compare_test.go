package kernel

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// TestComparisons holds comparisons, on every instruction set and in every form, to Go's operators.
func TestComparisons(t *testing.T) {
	nan, inf, least := math.NaN(), math.Inf(1), math.Copysign(0, -1)
	t.Run("f32", func(t *testing.T) {
		testComparisons(t, 0, 1, float32(least), float32(nan), float32(inf), -float32(inf), 2)
	})
	t.Run("f64", func(t *testing.T) { testComparisons(t, 0, 1, least, nan, inf, -inf, 1+0x1p-52) })
	t.Run("i32", func(t *testing.T) { testComparisons[int32](t, 0, 1, -1, math.MaxInt32, math.MinInt32, 7) })
	t.Run("i64", func(t *testing.T) { testComparisons[int64](t, 0, 1, -1, math.MaxInt64, math.MinInt64, 1<<32) })
}

// lined is an array of one dimension.
func lined[T any](x []T) Array[T] { return Array[T]{x, []int64{int64(len(x))}} }

func testComparisons[T Number](t *testing.T, values ...T) {
	defer cpu.Limit(cpu.Best())
	for name, c := range map[string]struct {
		loop  Binary[T, uint8]
		holds func(x, y T) bool
	}{
		"equal":         {Equal[T](), func(x, y T) bool { return x == y }},
		"not equal":     {NotEqual[T](), func(x, y T) bool { return x != y }},
		"less":          {Less[T](), func(x, y T) bool { return x < y }},
		"less or equal": {LessEqual[T](), func(x, y T) bool { return x <= y }},
		"greater":       {Greater[T](), func(x, y T) bool { return x > y }},
		"not less":      {GreaterEqual[T](), func(x, y T) bool { return x >= y }},
	} {
		for i, n := range append(sizes[1:], 8200) {
			x, y := make([]T, n), make([]T, n)
			for j := range x {
				x[j], y[j] = values[j%len(values)], values[(j/len(values)+i)%len(values)]
			}
			testTruths(t, name, c.loop, c.holds, x, y)
		}
	}
}

// testTruths holds a loop over numbers x and y, and over one of either, to truth values of Go.
func testTruths[T any](t *testing.T, name string, loop Binary[T, uint8], holds func(x, y T) bool, x, y []T) {
	n := len(x)
	for _, numbers := range [][2]int{{n, n}, {n, 1}, {1, n}} {
		for _, isa := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
			cpu.Limit(isa)
			z := make([]uint8, n+2)
			z[0], z[n+1] = 7, 7
			loop.Run(1, lined(z[1:n+1]), lined(x[:numbers[0]]), lined(y[:numbers[1]]))
			require.Equal(t, [2]uint8{7, 7}, [2]uint8{z[0], z[n+1]}, "%s of %d wrote outside", name, n)
			for j, got := range z[1 : n+1] {
				a, b := x[j%numbers[0]], y[j%numbers[1]]
				if (got == 1) != holds(a, b) || got > 1 {
					t.Fatalf("%s(%v, %v), number %d of %v, is %d (%v)", name, a, b, j, numbers, got, isa)
				}
			}
		}
	}
}

// TestLogic holds operations on truth values, on every instruction set and in every form, to Go's.
func TestLogic(t *testing.T) {
	defer cpu.Limit(cpu.Best())
	for name, c := range map[string]struct {
		loop  Binary[uint8, uint8]
		holds func(x, y uint8) bool
	}{
		"and": {And(), func(x, y uint8) bool { return x == 1 && y == 1 }},
		"or":  {Or(), func(x, y uint8) bool { return x == 1 || y == 1 }},
		"xor": {Xor(), func(x, y uint8) bool { return x != y }},
	} {
		for _, n := range sizes[1:] {
			x, y := make([]uint8, n), make([]uint8, n)
			for j := range x {
				x[j], y[j] = uint8(j*7/3%2), uint8(j*j/5%2)
			}
			testTruths(t, name, c.loop, c.holds, x, y)
		}
	}
}

// TestWholeNumbers holds arithmetic on whole numbers, on every instruction set and in every form, to Go's operators.
func TestWholeNumbers(t *testing.T) {
	t.Run("i32", testWholeNumbers[int32])
	t.Run("i64", testWholeNumbers[int64])
}

func testWholeNumbers[T Integer](t *testing.T) {
	defer cpu.Limit(cpu.Best())
	for name, c := range map[string]struct {
		loop Binary[T, T]
		of   func(x, y T) T
	}{
		"add": {Add[T](), func(x, y T) T { return x + y }},
		"sub": {Sub[T](), func(x, y T) T { return x - y }},
		"mul": {Mul[T](), func(x, y T) T { return x * y }},
		"max": {Maximum[T](), func(x, y T) T { return max(x, y) }},
	} {
		for _, n := range append(sizes[1:], 8200) {
			x, y := make([]T, n), make([]T, n)
			for i := range x {
				bits := Bits64(5, uint64(i))
				x[i], y[i] = T(bits), T(bits>>(i%64))
			}
			for _, isa := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
				cpu.Limit(isa)
				for form, loop := range []func(z []T){
					func(z []T) { c.loop.VV(z, x, y) }, func(z []T) { c.loop.VS(z, x, y[0]) }, func(z []T) { c.loop.SV(z, x[0], y) },
				} {
					z := make([]T, n+2)
					z[0], z[n+1] = 7, 7
					loop(z[1 : n+1])
					require.Equal(t, []T{7, 7}, []T{z[0], z[n+1]}, "%s of %d wrote outside", name, n)
					for i, got := range z[1 : n+1] {
						a, b := []T{x[i], x[i], x[0]}[form], []T{y[i], y[0], y[i]}[form]
						if got != c.of(a, b) {
							t.Fatalf("%s(%v, %v) is %v, form %d, number %d of %d (%v)", name, a, b, got, form, i, n, isa)
						}
					}
				}
			}
		}
	}
}
