package autodiff

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// TestRandomOperations runs operations on whatever: nothing may panic, every
// error names the operation, and results have the inferred types and shapes.
func TestRandomOperations(t *testing.T) {
	splitFinely(t)
	runs := 60_000
	if testing.Short() || raceEnabled {
		runs = 10_000
	}
	r := rand.New(rand.NewPCG(1, 9))
	be := NewCPUThreads(2)
	types := []tensor.DType{tensor.F32, tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.S8, tensor.U8, tensor.I32, tensor.I64, tensor.Bool}
	shapes := [][]int64{{}, {1}, {3}, {2, 3}, {3, 2}, {3, 3}, {2, 1, 3}, {2, 3, 4}, {1, 2, 3, 3}, {2, 2, 3, 3}, {1, 2, 2, 2}, {0, 3}, {2, 2, 2, 2, 1}}
	small := func() []int {
		var x []int
		for range r.IntN(5) {
			x = append(x, r.IntN(5)-2)
		}
		return x
	}
	value := func(d tensor.DType, shape []int64) Value {
		v := tensor.New(d, shape...)
		b := tensor.Bytes(v)
		for i := range b {
			if d == tensor.I32 || d == tensor.I64 || d == tensor.Bool {
				if i%int(d.Size()) == 0 {
					b[i] = byte(r.IntN(3)) % byte(1+boolByte(d != tensor.Bool)+1)
				}
				continue
			}
			b[i] = byte(r.Uint32())
		}
		out, err := be.FromView(v)
		require.NoError(t, err)
		return out
	}
	done := 0
	for range runs {
		op := Op(r.IntN(int(opCount)))
		at := &Attr{
			Axis: r.IntN(6) - 3, Axes: small(), Shape: shapes[r.IntN(len(shapes))], Starts: small(), Steps: small(),
			Floats: [10]float64{r.Float64(), 1 + r.Float64(), 0.9, 1e-8, 0, 1}, Seed: r.Uint64(), DType: types[r.IntN(len(types))],
			KeepDim: r.IntN(2) == 0, FromEnd: r.IntN(2) == 0, Descending: r.IntN(2) == 0, AlignCorners: r.IntN(2) == 0,
			Nesterov: r.IntN(2) == 0, Decoupled: r.IntN(2) == 0, TransA: r.IntN(2) == 0, TransB: r.IntN(2) == 0,
			Window: Window{Kernel: [2]int{r.IntN(4) - 1, r.IntN(3)}, Stride: [2]int{r.IntN(3), r.IntN(4) - 1}, Pad: [2]int{r.IntN(3), r.IntN(2)}, Dilation: [2]int{r.IntN(3), r.IntN(2)}, Groups: r.IntN(3)},
		}
		if r.IntN(8) > 0 {
			s := []Scheme{PerTensor(-8, 7), PerChannel(r.IntN(5)-2, -128, 127), PerToken(-8, 7), PerGroup(r.IntN(4), 0, 255), {}}[r.IntN(5)]
			at.Scheme = &s
		}
		var in []Value
		d, shape := types[r.IntN(len(types))], shapes[r.IntN(len(shapes))]
		for range r.IntN(5) {
			if r.IntN(3) == 0 {
				d = types[r.IntN(len(types))]
			}
			if r.IntN(3) == 0 {
				shape = shapes[r.IntN(len(shapes))]
			}
			if r.IntN(12) == 0 {
				in = append(in, nil)
			} else {
				in = append(in, value(d, shape))
			}
		}
		out, err := be.Run(op, at, in...)
		if err != nil {
			require.ErrorContains(t, err, op.String())
			require.True(t, strings.HasPrefix(err.Error(), "autodiff: "), err)
			continue
		}
		done++
		for _, v := range out {
			if v != nil {
				view, err := be.View(v)
				require.NoError(t, err)
				require.Equal(t, v.Shape(), view.Shape)
				v.Release()
			}
		}
	}
	t.Logf("%d of %d runs were well-formed", done, runs)
	require.Greater(t, done, runs/50)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
