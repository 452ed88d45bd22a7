package plans_test

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Of rows that lie more than a page apart nothing in between is read: it need not be mapped.
func TestBagsOfFarRows(t *testing.T) {
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer syscall.Munmap(memory)
	copy(memory[2*page:], []byte{1, 2, 3})
	require.NoError(t, syscall.Mprotect(memory[page:2*page], syscall.PROT_NONE))
	weight := tensor.View{Data: unsafe.Pointer(&memory[0]), DType: tensor.S8, Shape: []int64{2, 3}, Strides: []int64{int64(2 * page), 1}}
	indices, scale, y := tensor.Of([]int64{1, 1}, 1, 2), tensor.Of([]float32{1, 1}, 2, 1), tensor.New(tensor.F32, 1, 3)
	p, err := plans.Parse("weight_only_embedding_bag weight=s8[2,3] indices=i64[1,2] group_size=3 mode=sum")
	require.NoError(t, err)
	plan, err := plans.Select(0, p, plans.Preference{Threads: 1})
	require.NoError(t, err)
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{weight, indices, {}, {}, scale, {}, y}))
	require.Equal(t, []float32{2, 4, 6}, tensor.Slice[float32](y))
}
