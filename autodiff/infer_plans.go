package autodiff

import (
	"errors"
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// The rules of operations that plans run. Plans check the rest themselves.

func gridSample(_ *Attr, in []Info) ([3]Info, error) {
	x, g := in[0].Shape, in[1].Shape
	if len(x) < 4 || len(g) != len(x) || g[len(g)-1] != int64(len(x)-2) {
		return fail("the image is %v and the grid %v; want [n, c, h, w] and [n, oh, ow, 2], or [n, c, d, h, w] and [n, od, oh, ow, 3]", in[0], in[1])
	}
	return one(in[0].DType, append(slices.Clone(x[:2]), g[1:len(g)-1]...))
}

// likeInputs is the rule of gradients: an output like each named input, none
// where that is absent or not of a float type. Codes get a gradient of the
// upstream gradient's type.
func likeInputs(like ...int) infer {
	return func(at *Attr, in []Info) (out [3]Info, err error) {
		for k, i := range like {
			if in[i].DType.IsFloat() && !at.Skip[k] {
				out[k] = in[i]
			}
		}
		if !in[0].DType.IsFloat() {
			return fail("takes %v; want a float tensor", in[0])
		}
		return out, nil
	}
}

func affineGrid(at *Attr, in []Info) ([3]Info, error) {
	r := len(at.Shape)
	if r < 4 || !slices.Equal(in[0].Shape, []int64{at.Shape[0], int64(r - 2), int64(r - 1)}) {
		return fail("theta is %v, for an image of shape %s; want [n, 2, 3] and [n, c, h, w], or [n, 3, 4] and [n, c, d, h, w]", in[0], tensor.ShapeText(at.Shape))
	}
	shape := append([]int64{at.Shape[0]}, at.Shape[2:]...)
	return one(in[0].DType, append(shape, int64(r-2)))
}

func affineGridBackward(_ *Attr, in []Info) ([3]Info, error) {
	g := in[0].Shape
	if len(g) < 4 {
		return fail("the gradient is %v; want [n, h, w, 2]", in[0])
	}
	d := int64(len(g) - 2)
	return one(in[0].DType, []int64{g[0], d, d + 1})
}

func quantize(at *Attr, in []Info) ([3]Info, error) {
	if d := at.Scheme.storage(); d.Packed() {
		return fail("the scheme stores %v; want a type that is not packed, such as s8", d)
	}
	return one(at.Scheme.storage(), in[0].Shape)
}

func dequantize(at *Attr, in []Info) ([3]Info, error) {
	if !at.DType.IsFloat() {
		return fail("gives %v; want a float type", at.DType)
	}
	return one(at.DType, in[0].Shape)
}

// parameters returns the shape of a scheme's scales for a tensor.
func (s *Scheme) parameters(x []int64) ([]int64, error) {
	r := len(x)
	switch s.Granularity {
	case "per_tensor":
		return []int64{}, nil
	case "per_channel":
		axis := s.Axis
		if err := axisOf(&axis, r); err != nil {
			return nil, err
		}
		return []int64{x[axis]}, nil
	case "per_block":
		if len(s.BlockSize) != r || (r > 0 && slices.Min(s.BlockSize) < 1) {
			return nil, fmt.Errorf("the scheme's block size is %s; want one extent of at least 1 for each dimension of shape %s", tensor.ShapeText(s.BlockSize), tensor.ShapeText(x))
		}
		shape := slices.Clone(x)
		for i, b := range s.BlockSize {
			shape[i] = blocksOf(x[i], b)
		}
		return shape, nil
	}
	last := r - 1
	switch {
	case last < 0:
		return nil, errors.New("the input has shape []; want at least one dimension")
	case s.Granularity == "per_token":
		return slices.Clone(x[:last]), nil
	case s.GroupSize < 1:
		return nil, fmt.Errorf("the scheme's group size is %d; want at least 1", s.GroupSize)
	}
	return append(slices.Clone(x[:last]), blocksOf(x[last], int64(s.GroupSize))), nil
}

// blocksOf returns how many blocks of an extent of at least 1 cover n elements,
// however large the extent.
func blocksOf(n, extent int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)/extent + 1
}

func chooseQParams(at *Attr, in []Info) ([3]Info, error) {
	shape, err := at.Scheme.parameters(in[0].Shape)
	if err != nil {
		return [3]Info{}, err
	}
	scale := in[0].DType.Compute()
	if at.Scheme.Asymmetric {
		return [3]Info{{scale, shape}, {tensor.I32, shape}}, nil
	}
	return one(scale, shape)
}
