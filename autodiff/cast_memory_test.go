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
