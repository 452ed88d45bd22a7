package tensor_test

import (
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

// A view of another layout of the same memory: strides count elements, and may
// be 0 or negative.
func ExampleView() {
	matrix := tensor.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	transposed := matrix
	transposed.Shape, transposed.Strides = []int64{3, 2}, []int64{1, 3}
	repeated := matrix
	repeated.Shape, repeated.Strides = []int64{2, 2, 3}, []int64{0, 3, 1}
	fmt.Println(matrix, transposed, repeated)
	fmt.Println(matrix.IsContiguous(), transposed.IsContiguous(), repeated.IsContiguous())
	// Output:
	// f32[2,3] f32[3,2] f32[2,2,3]
	// true false false
}
