package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// A call of the kernels for few rows of x goes through all codes of the groups whose parameters are loaded: of long groups
// those would be millions, while nothing can stop the thread.
func TestFewRowsOfGroupsTakeShortCalls(t *testing.T) {
	for _, size := range []struct {
		k, group int64
		few      bool
	}{
		{1 << 20, 256, true}, {1 << 15, 1 << 15, true}, {1 << 15, 4096, true},
		{1 << 20, 288 << 3, false}, {1 << 16, 1 << 16, false}, {1 << 20, 512, false},
	} {
		tile := GroupLinearTile{M: 1, N1: 16, K: size.k / size.group * size.group}
		tile.X.DType, tile.WeightRows = tensor.S8, WeightRows{Weight: Rows{Span: Span{DType: tensor.S8}}, GroupSize: size.group, Rows: 16}
		run := groupVNNI.begin(&tile)
		require.Equal(t, size.few, run.isFew, "%d codes in groups of %d", size.k, size.group)
	}
}
