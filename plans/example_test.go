package plans_test

import (
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
