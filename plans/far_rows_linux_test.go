package plans_test

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// farRows are two rows of codes that each end where a page does, with a page between them that is not mapped.
func farRows(t *testing.T, columns int) tensor.View {
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(memory)) })
	for i := range columns {
		memory[page-columns+i], memory[3*page-columns+i] = 1, byte(1+i%3)
	}
	require.NoError(t, syscall.Mprotect(memory[page:2*page], syscall.PROT_NONE))
	return tensor.View{Data: unsafe.Pointer(&memory[page-columns]), DType: tensor.S8, Shape: []int64{2, int64(columns)}, Strides: []int64{int64(2 * page), 1}}
}

// Of rows that lie more than a page apart nothing in between is read: it need not be mapped.
func TestBagsOfFarRows(t *testing.T) {
	indices, scale, y := tensor.Of([]int64{0, 1}, 1, 2), tensor.Of([]float32{1, 1}, 2, 1), tensor.New(tensor.F32, 1, 3)
	runFarRows(t, "weight_only_embedding_bag weight=s8[2,3] indices=i64[1,2] group_size=3 mode=sum", "", []tensor.View{farRows(t, 3), indices, {}, {}, scale, {}, y})
	require.Equal(t, []float32{2, 3, 4}, tensor.Slice[float32](y))
}

func TestWeightsOfFarRows(t *testing.T) {
	for _, row := range rowsOf("weight_only_linear") {
		for _, m := range []int64{1, 9} {
			x, scale, y := tensor.New(tensor.F32, m, 100), tensor.Of([]float32{1, 1}, 2, 1), tensor.New(tensor.F32, m, 2)
			fill(x, func() float32 { return 1 })
			text := fmt.Sprintf("weight_only_linear x=f32[%d,100] weight=s8[2,100] group_size=100 bias=none", m)
			if !runFarRows(t, text, row, []tensor.View{x, farRows(t, 100), scale, {}, {}, y}) {
				continue
			}
			for i, v := range tensor.Slice[float32](y) {
				require.Equal(t, []float32{100, 199}[i%2], v, row)
			}
		}
	}
}

// runFarRows reports whether there is such a row here.
func runFarRows(t *testing.T, text, row string, args []tensor.View) bool {
	plan, err := plans.Select(0, plans.MustParse(text), plans.Preference{Threads: 1, Row: row})
	if err != nil {
		requireKind(t, err, plans.Unsupported)
		return false
	}
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
	return true
}
