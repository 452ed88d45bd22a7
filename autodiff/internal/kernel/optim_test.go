package kernel

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
)

// TestOptimizers holds steps to the same of one number after the other, without assembly.
func TestOptimizers(t *testing.T) {
	t.Run("f32", testOptimizers[float32])
	t.Run("f64", testOptimizers[float64])
}

func testOptimizers[T Float](t *testing.T) {
	defer cpu.Limit(cpu.Best())
	adam := &Adam[T]{Keep: 0.99, Decay: 0.01, OneLessBeta1: 0.1, Beta2: 0.9, OneLessBeta2: 0.1, Rate: 0.3, Root: 0.7, Eps: 1e-8}
	for name, step := range map[string]func(p, g, m, v []T){
		"adam":       adam.Step,
		"sgd":        func(p, g, m, _ []T) { SGD[T]{0.3, 0.9, 0.01, 1, false}.Step(p, g, m) },
		"nesterov":   func(p, g, m, _ []T) { SGD[T]{0.3, 0.9, 0, 1, true}.Step(p, g, m) },
		"dampening":  func(p, g, m, _ []T) { SGD[T]{0.3, 0.9, 0.01, 0.6, false}.Step(p, g, m) },
		"only decay": func(p, g, _, _ []T) { SGD[T]{Rate: 0.3, Decay: 0.01}.Step(p, g, nil) },
	} {
		for _, n := range append(sizes[1:], 8200) {
			rows := [4][]T{uniform[T](n+2, 1), uniform[T](n+2, 2), uniform[T](n+2, 3), uniform[T](n+2, 4)}
			for i, v := range rows[3] {
				rows[3][i] = v * v
			}
			run := func(isa cpu.ISA, piece int) [4][]T {
				cpu.Limit(isa)
				x := [4][]T{slices.Clone(rows[0]), slices.Clone(rows[1]), slices.Clone(rows[2]), slices.Clone(rows[3])}
				for at := 1; at <= n; at += piece {
					end := min(at+piece, n+1)
					step(x[0][at:end], x[1][at:end], x[2][at:end], x[3][at:end])
				}
				return x
			}
			want := run(cpu.Go, 1)
			for _, isa := range []cpu.ISA{cpu.Go, cpu.AVX2, cpu.AVX512} {
				require.Equal(t, want, run(isa, n), "%s of %d (%v)", name, n, isa)
			}
		}
	}
}
