package tensor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLittleEndian(t *testing.T) {
	v := Of([]float32{1, -2})
	require.Equal(t, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, LittleEndian(v))
	SetLittleEndian(v, []byte{0, 0, 0, 0x40, 0, 0, 0x80, 0x3f})
	require.Equal(t, []float32{2, 1}, Slice[float32](v))
	for _, n := range []int{0, 7, 9} {
		require.Panics(t, func() { SetLittleEndian(v, make([]byte, n)) })
	}
	require.Equal(t, []float32{2, 1}, Slice[float32](v))
	require.Equal(t, []byte{3, 4}, LittleEndian(Of([]uint8{3, 4})))
	require.Equal(t, []byte{4, 3, 2, 1, 8, 7, 6, 5}, littleEndian([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 4, true))
	require.Equal(t, []byte{1, 2}, littleEndian([]byte{1, 2}, 1, true))
	require.Empty(t, LittleEndian(New(F64, 0)))
}
