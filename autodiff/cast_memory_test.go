package autodiff

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// A cast or a fill of a few elements takes no blocks of its own.
func TestSmallCastsTakeLittle(t *testing.T) {
	be := NewCPUThreads(1)
	x, n := Full(be, 1.5, 16), Arange(be, 0, 1, 16)
	for name, f := range map[string]func() Tensor[*CPU]{
		"cast": func() Tensor[*CPU] { return x.Cast(tensor.BF16).Tensor },
		"fill": func() Tensor[*CPU] { return Full(be, 1.5, 16).Tensor },
		"ints": func() Tensor[*CPU] { return n.ToFloat().Tensor },
	} {
		const runs = 1000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f().Release()
		}
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)/runs, uint64(2000), name)
	}
}

// TestLayersReleaseWhatTheyMake runs layers again in the memory of the first time.
func TestLayersReleaseWhatTheyMake(t *testing.T) {
	cpu := NewCPU()
	type float = Float[*CPU]
	x, row := Ones(cpu, 2, 4, 6, 6), Ones(cpu, 6)
	channels, labels := Ones(cpu, 4), Ints(cpu, make([]int64, 100))
	sequence, r := Ones(cpu, 10, 8, 3), Recurrent[*CPU]{InWeight: Ones(cpu, 12, 3), HiddenWeight: Ones(cpu, 12, 3)}
	g := Recurrent[*CPU]{InWeight: Ones(cpu, 9, 3), HiddenWeight: Ones(cpu, 9, 3)}
	running := BatchNorm[*CPU]{channels, channels, Zeros(cpu, 4), Ones(cpu, 4)}
	for name, layer := range map[string]func() []float{
		"layer_norm": func() []float { return []float{x.LayerNorm(row, row, 1e-5)} },
		"rms_norm":   func() []float { return []float{x.RMSNorm(row, 1e-5)} },
		"group_norm": func() []float { return []float{x.GroupNorm(2, channels, channels, 1e-5)} },
		"batch_norm": func() []float { return []float{x.BatchNorm(running, true, 0.1, 1e-5)} },
		"silu":       func() []float { return []float{x.Silu()} },
		"dropout":    func() []float { return []float{x.Dropout(0.5, 1)} },
		"bilinear":   func() []float { return []float{x.Interpolate(40, 40, SampleMode{})} },
		"nearest":    func() []float { return []float{x.Interpolate(40, 40, SampleMode{Mode: "nearest"})} },
		"one axis":   func() []float { return []float{x.Interpolate(6, 40, SampleMode{}), x.Interpolate(40, 6, SampleMode{})} },
		"one hot":    func() []float { return []float{labels.OneHot(100)} },
		"16 bits": func() []float {
			y := x.Cast(tensor.BF16)
			defer y.Release()
			y.GreaterScalar(0.1).Release()
			return []float{y.AddScalar(0.1)}
		},
		"largest": func() []float {
			y := x.Add(x)
			defer y.Release()
			return []float{y.MaxAll(), y.MinAll()}
		},
		"masks": func() []float {
			y := CausalMask(cpu, 64)
			defer y.Release()
			y.Any(0).Release()
			y.All(0).Release()
			n, err := y.Count()
			require.NoError(t, err)
			require.Equal(t, 64*65/2, n)
			return nil
		},
		"bce": func() []float { return []float{x.BCEWithLogits(x)} },
		"transposed": func() []float {
			return []float{x.ConvTranspose2d(Ones(cpu, 4, 2, 3, 3), Ones(cpu, 2), Window{})}
		},
		"mse": func() []float { return []float{x.MSE(x)} },
		"attention": func() []float {
			return []float{sequence.ScaledDotProductAttention(sequence, sequence, CausalMask(cpu, 8))}
		},
		"multihead": func() []float {
			return []float{sequence.MultiheadAttention(3, Attention[*CPU]{InWeight: g.InWeight, OutWeight: Ones(cpu, 3, 3)}, Bool[*CPU]{})}
		},
		"stack": func() []float { return []float{Stack(0, x, x)} },
		"lstm": func() []float {
			y, h, c := sequence.LSTM(r, float{}, float{})
			return []float{y, h, c}
		},
		"gru": func() []float {
			y, h := sequence.GRU(g, float{})
			return []float{y, h}
		},
	} {
		made := [3]int64{}
		for i := range made {
			for _, y := range layer() {
				require.NoError(t, y.Err(), name)
				y.Release()
			}
			made[i], _ = cpu.MemoryStats()
		}
		require.Less(t, made[2]-made[1], int64(1024), "%s makes new buffers of %d bytes", name, made[2]-made[1])
	}
}
