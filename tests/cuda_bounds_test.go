package tests

import (
	"bytes"
	"testing"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// TestCUDABounds runs an index out of bounds, which must stop the run with
// nothing written.
func TestCUDABounds(t *testing.T) {
	s := startShim(t, buildShim(t))
	defer cuda.ReplaceDriver(s)()
	for _, bounds := range []string{"error", "skip"} {
		problem := plans.MustParse("embedding weight=f32[4,8] indices=i64[300] bounds=" + bounds + " device=cuda:0")
		plan, err := plans.Select(0, problem, plans.Preference{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := deviceCase{text: problem.String(), data: "plain"}.draw()
		if err != nil {
			t.Fatal(err)
		}
		copy(c.Args[1].Before[299*8:], testcase.Encode(nil, tensor.I64, 4))
		placed, _, free := c.Place(plan, testcase.Options{})
		defer free()
		buffers, views, workspace := placedOnDevice(placed, plan.WorkspaceSize(), 0)
		if err := plan.Run(0, workspace, views); err != nil {
			t.Fatal(err)
		}
		err = s.execute(buffers, false)
		untouchedOutput := bytes.Equal(placed[2].Memory, c.Args[2].Before)
		if trapped := err == errTrap; trapped != (bounds == "error") || untouchedOutput != trapped || (err != nil && !trapped) {
			t.Errorf("bounds=%s: error %v, output untouched: %v", bounds, err, untouchedOutput)
		}
	}
}

// TestCUDAOffsets runs bags whose offsets are not in order, which must stop the
// run before anything is written.
func TestCUDAOffsets(t *testing.T) {
	s := startShim(t, buildShim(t))
	defer cuda.ReplaceDriver(s)()
	for _, text := range []string{
		"embedding_bag weight=f32[4,8] indices=i64[300] offsets=i64[3]",
		"weight_only_embedding_bag weight=s8[4,8] indices=i64[300] offsets=i64[3] group_size=8",
		"embedding_bag_backward grad_output=f32[3,8] indices=i64[300] offsets=i64[3] grad_weight=f32[4,8]",
		"embedding_bag_per_sample_weights_backward grad_output=f32[3,8] weight=f32[4,8] indices=i64[300] offsets=i64[3]",
	} {
		for _, bad := range [][]float64{{1, 2, 3}, {0, 5, 4}, {0, 5, 301}, {0, 5, 300}} {
			plan, err := plans.Select(0, plans.MustParse(text+" device=cuda:0"), plans.Preference{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := deviceCase{text: text, data: "valid"}.draw()
			if err != nil {
				t.Fatal(err)
			}
			offsets := c.Arg("offsets")
			offsets.Before = nil
			for _, v := range bad {
				offsets.Before = testcase.Encode(offsets.Before, tensor.I64, v)
			}
			placed, _, free := c.Place(plan, testcase.Options{})
			defer free()
			buffers, views, workspace := placedOnDevice(placed, plan.WorkspaceSize(), 0)
			if err := plan.Run(0, workspace, views); err != nil {
				t.Fatal(err)
			}
			if err := s.execute(buffers, false); (err == errTrap) == (bad[2] == 300) || err != nil && err != errTrap {
				t.Errorf("%s: offsets %v: error %v", text, bad, err)
			}
		}
	}
}
