package plans_test

import (
	"errors"
	"fmt"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// A plan is made once and may run any number of times. A workspace may be kept,
// too; calls at the same time need one each.
func Example() {
	problem, err := plans.Parse("matmul input=f32[2,3] other=f32[3,2]")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := plans.Select(0, problem, plans.Preference{})
	if err != nil {
		fmt.Println(err)
		return
	}
	workspace := make([]byte, plan.WorkspaceSize())
	y := make([]float32, 4)
	err = plan.Run(0, workspace, []tensor.View{
		tensor.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3),
		tensor.Of([]float32{1, 0, 0, 1, 1, 1}, 3, 2),
		{}, // no bias
		tensor.Of(y, 2, 2),
	})
	fmt.Println(y, err)
	// Output: [4 5 10 11] <nil>
}

// Keys come in any order; what equals its default is left out.
func ExampleParse() {
	p, err := plans.Parse("quantize_per_channel x=f32[64,128,3,3] qmax=127 qmin=-128 q=s8 axis=0 scale=f32")
	fmt.Println(p, err)
	// Output: quantize_per_channel x=f32[64,128,3,3] q=s8 axis=0 qmin=-128 qmax=127 <nil>
}

// Describe lists what Run takes, in order.
func ExampleDescribe() {
	plan, err := plans.Select(0, plans.MustParse("quantize_per_channel x=f32[2,3] q=s8 axis=0 qmin=-128 qmax=127"), plans.Preference{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range plans.Describe(plan).Args {
		fmt.Println(a.Name, a.DType, a.Shape, a.Direction)
	}
	// Output:
	// x f32 [2 3] in
	// scale f32 [2] in
	// zero_point i32 [2] in
	// q s8 [2 3] out
}

// An error says what is wrong with which argument, and is of a kind.
func ExampleError() {
	plan, err := plans.Select(0, plans.MustParse("matmul input=f32[2,3] other=f32[3,2]"), plans.Preference{})
	if err != nil {
		fmt.Println(err)
		return
	}
	x, y := tensor.New(tensor.F32, 2, 3), tensor.New(tensor.F32, 2, 2)
	err = plan.Run(0, nil, []tensor.View{x, x, {}, y})
	fmt.Println(err)
	fmt.Println(errors.Is(err, plans.InvalidArgument))
	// Output:
	// matmul: other has shape [2, 3]; want [3, 2]
	// true
}
