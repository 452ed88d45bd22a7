package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// launches is a cuda.Driver that holds launches against CUDA's limits.
type launches struct{ loads }

func (l *launches) Enter(int) (func(), error) { return func() {}, nil }

func (l *launches) Launch(f cuda.Function, _ uintptr, grid, block [3]uint32, _ unsafe.Pointer, size uintptr) error {
	switch {
	case f == 0:
		return errors.New("a kernel is launched that was not loaded")
	case min(grid[0], grid[1], grid[2], block[0], block[1], block[2]) == 0, grid[0] >= 1<<31, max(grid[1], grid[2]) >= 1<<16,
		block[2] > 64, block[0]*block[1]*block[2] > 1024, size > 4096:
		return fmt.Errorf("%s is launched as %v blocks of %v threads, with %d bytes", l.kernels[f-1], grid, block, size)
	}
	return nil
}

// nowhere describes a plan's tensors at addresses without memory, at which a launch does not look.
func nowhere(plan plans.Plan, random *rand.Rand) (views []tensor.View, workspace []byte) {
	for i, a := range plans.Describe(plan).Args {
		v := tensor.View{}
		if a.Present {
			at := uint64(i+1)<<52 + 8*random.Uint64N(2) // farther apart than the largest tensor reaches, some not aligned
			v = tensor.View{DType: tensor.U8, Shape: a.Shape, Data: devicePointer(at), Device: tensor.Device{Kind: tensor.CUDA}}
			if d, _ := tensor.ParseDType(a.DType); !d.Packed() {
				v.DType = d
			}
		}
		views = append(views, v)
	}
	return views, unsafe.Slice((*byte)(devicePointer(15<<52)), plan.WorkspaceSize())
}

var shapes, extents = regexp.MustCompile(`\[[0-9,]+\]`), regexp.MustCompile(`[0-9]+`)

// stretched is a problem's text with other extents: some, which are equal, become one, of any size.
func stretched(text string, random *rand.Rand) string {
	become := map[string]string{}
	return shapes.ReplaceAllStringFunc(text, func(shape string) string {
		return extents.ReplaceAllStringFunc(shape, func(extent string) string {
			if become[extent] == "" {
				become[extent] = extent
				if random.IntN(2) == 0 {
					become[extent] = strconv.FormatInt(max(0, random.Int64N(5)-2+1<<random.IntN(34)), 10)
				}
			}
			return become[extent]
		})
	})
}

// TestCUDALaunches holds the launches of problems that are as large, and as empty, as they may be.
func TestCUDALaunches(t *testing.T) {
	defer cuda.ReplaceDriver(&launches{})()
	random := rand.New(rand.NewPCG(3, 5))
	texts := []string{
		"grid_sample_backward grad_output=f32[2,4,0,70] input=f32[2,4,4,4] grid=f32[2,0,70,2]",
		"grid_sample_backward grad_output=f32[1,2000000,3,3] input=f32[1,2000000,2,2] grid=f32[1,3,3,2]",
	}
	for i, c := range deviceCases(t) {
		if i%4 == 0 {
			texts = append(texts, stretched(c.text, random))
		}
	}
	ran := 0
	for _, text := range texts {
		problem, err := plans.Parse(text + " device=cuda:0")
		if err != nil {
			continue // shapes that do not fit each other any more, or are too large
		}
		plan, err := plans.Select(0, problem, plans.Preference{})
		var e *plans.Error
		if errors.As(err, &e) && e.Kind == plans.Unsupported {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		views, workspace := nowhere(plan, random)
		if err := plan.Run(0, workspace, views); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		ran++
	}
	if ran < len(texts)/4 {
		t.Errorf("%d of %d problems ran", ran, len(texts))
	}
}
