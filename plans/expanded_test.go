package plans_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// viewed is a tensor of a shape with these strides in elements of memory, and the same row-major.
func viewed[T tensor.Element](memory []T, shape, strides []int64) (apart, plain tensor.View) {
	plain = tensor.Of(make([]T, tensor.NumElements(shape)), shape...)
	for i := range tensor.Slice[T](plain) {
		at, rest := int64(0), int64(i)
		for d := len(shape) - 1; d >= 0; d-- {
			at += rest % shape[d] * strides[d]
			rest /= shape[d]
		}
		tensor.Slice[T](plain)[i] = memory[at]
	}
	apart = tensor.Of(memory)
	apart.Shape, apart.Strides = shape, strides
	return apart, plain
}

func someRows(r *rand.Rand, n, rows int64) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = r.Int64N(rows)
	}
	return list
}

// Gradients that are expanded along some dimensions, as those of sums and means are, to embedding: all, along bags,
// along what bags have in common, with columns of their own or one for all, and with rows that lie unevenly.
func TestExpandedGradientOfEmbedding(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, d := range []int64{1, 16, 70} {
		memory := tensor.Slice[float32](random(r, 40*40*d))
		for _, strides := range [][]int64{{0, 0, 0, 0}, {0, 0, 0, 1}, {d, 0, 0, 1}, {0, d, 0, 1}, {0, 0, d, 1}, {3 * d, 0, 2 * d, 1}, {d, 5 * d, 0, 2}, {0, 1, 0, 40}, {40, 0, 1, 0}, {1, 3, 0, 0}} {
			dy, plain := viewed(memory, []int64{3, 5, 40, d}, strides)
			for _, rows := range []int64{30, 20_000} {
				index := tensor.Of(someRows(r, 600, rows), 3, 5, 40)
				text := fmt.Sprintf("embedding_backward grad_output=f32[3,5,40,%d] indices=i64[3,5,40] grad_weight=f32[%d,%[1]d]", d, rows)
				for _, attr := range []string{"", " accumulate=true", " scale_grad_by_freq=true"} {
					requireSame(t, outputs(t, text+attr, dy, index), outputs(t, text+attr, plain, index))
				}
			}
		}
	}
}

// Likewise to bags and the weights of their indices.
func TestExpandedGradientOfBags(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for _, d := range []int64{1, 9, 70} {
		memory := tensor.Slice[float32](random(r, 80*d))
		weight, factors, index := random(r, 30, d), random(r, 40, 7), tensor.Of(someRows(r, 40*7, 30), 40, 7)
		for _, strides := range [][]int64{{0, 0}, {0, 1}, {1, 0}, {1, 40}, {0, 2}} {
			dy, plain := viewed(memory, []int64{40, d}, strides)
			bags := fmt.Sprintf("embedding_bag_backward grad_output=f32[40,%d] indices=i64[40,7] grad_weight=f32[30,%[1]d]", d)
			requireSame(t, outputs(t, bags+" mode=mean", dy, index), outputs(t, bags+" mode=mean", plain, index))
			bags += " mode=sum per_sample_weights=f32"
			requireSame(t, outputs(t, bags, dy, index, factors), outputs(t, bags, plain, index, factors))
			weights := fmt.Sprintf("embedding_bag_per_sample_weights_backward grad_output=f32[40,%d] weight=f32[30,%[1]d] indices=i64[40,7]", d)
			requireSame(t, outputs(t, weights, dy, weight, index), outputs(t, weights, plain, weight, index))
		}
	}
}

// Likewise to grid_sample, of which batch and channels stay expanded, whose images and places may be, too.
func TestExpandedInputsOfGridSample(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	memory, shape := tensor.Slice[float32](random(r, 4000)), []int64{2, 3, 10, 30}
	grid, plainGrid := viewed(memory, []int64{2, 10, 30, 2}, []int64{0, 61, 2, 1})
	text := "grid_sample_backward grad_output=f32[2,3,10,30] input=f32[2,3,10,30] grid=f32[2,10,30,2] mode="
	for _, strides := range [][]int64{{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 10}, {1, 0, 60, 2}, {0, 1, 90, 3}} {
		v, plain := viewed(memory, shape, strides)
		for _, mode := range []string{"bilinear", "nearest", "bicubic"} {
			want := outputs(t, text+mode, plain, plain, plainGrid)
			requireSame(t, outputs(t, text+mode, v, v, grid), want)
		}
	}
}

// Likewise to affine_grid, beside those whose positions lie apart.
func TestExpandedGradientOfAffineGrid(t *testing.T) {
	memory := tensor.Slice[float32](random(rand.New(rand.NewPCG(31, 32)), 8000))
	for _, strides := range [][]int64{{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 140, 2, 1}, {2500, 70, 3, 1}, {1, 2, 140, 3}} {
		grad, plain := viewed(memory, []int64{3, 33, 20, 2}, strides)
		text := "affine_grid_backward grad_grid=f32[3,33,20,2]"
		requireSame(t, outputs(t, text, grad), outputs(t, text, plain))
	}
}

// Indices that lie apart, are expanded, or lie along a dimension that is not the last.
func TestIndicesThatLieApart(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	weight, memory := random(r, 50, 6), someRows(r, 2000, 50)
	short := make([]int32, len(memory))
	for i, row := range memory {
		short[i] = int32(row)
	}
	for _, shape := range [][]int64{{3, 300}, {300, 3}, {300, 1}, {1, 700}} {
		for _, strides := range [][]int64{{0, 1}, {1, 0}, {0, 0}, {1, shape[0]}, {2, 2}, {5, 1}} {
			long, plain := viewed(memory, shape, strides)
			narrow, _ := viewed(short, shape, strides)
			dims := tensor.ShapeString(shape)
			for text, first := range map[string]tensor.View{
				"embedding weight=f32[50,6] indices=%s":                                                            weight,
				"embedding_bag weight=f32[50,6] indices=%s mode=sum":                                               weight,
				"embedding_bag weight=f32[50,6] indices=%s padding_idx=3":                                          weight,
				"embedding_bag weight=f32[50,6] indices=%s mode=max chosen=i64":                                    weight,
				"embedding_backward grad_output=f32" + dims[:len(dims)-1] + ",2] indices=%s grad_weight=f32[50,2]": random(r, shape[0], shape[1], 2),
			} {
				want := outputs(t, fmt.Sprintf(text, "i64"+dims), first, plain)
				requireSame(t, outputs(t, fmt.Sprintf(text, "i64"+dims), first, long), want)
				requireSame(t, outputs(t, fmt.Sprintf(text, "i32"+dims), first, narrow), want)
			}
		}
	}
}

// One that is out of range among them is named by its position.
func TestIndexOutOfRangeThatLiesApart(t *testing.T) {
	for _, bad := range []int64{-1, 50} {
		for _, at := range []int64{0, 255, 256, 899} {
			memory := make([]int64, 1800)
			memory[2*at] = bad
			index, _ := viewed(memory, []int64{3, 300}, []int64{600, 2})
			p, err := plans.Parse("embedding weight=f32[50,2] indices=i64[3,300]")
			require.NoError(t, err)
			plan, err := plans.Select(0, p, plans.Preference{})
			require.NoError(t, err)
			err = plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{tensor.New(tensor.F32, 50, 2), index, tensor.New(tensor.F32, 3, 300, 2)})
			require.ErrorContains(t, err, fmt.Sprintf("is %d at position %d; want 0 to 49", bad, at))
		}
	}
}
