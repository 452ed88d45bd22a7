package cpu_test

import (
	"testing"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
	"github.com/stretchr/testify/require"
)

// TestTilesOfEachThread divides a product that came to nine tiles for two threads.
func TestTilesOfEachThread(t *testing.T) {
	for _, r := range cpu.Matmul {
		row, ok := r.Pick(cpu.Types{Compute: tensor.F32, In: cpu.InTypes{tensor.F32, tensor.F32}, Out: cpu.OutTypes{tensor.F32}})
		if !ok || r.Needs > cpu.Best() {
			continue
		}
		rows, columns := row.Divide(1, 640, 768, 2)
		require.Zero(t, (640+rows-1)/rows*((768+columns-1)/columns)%2, r.Name)
	}
}
