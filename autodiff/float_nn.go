package autodiff

import "slices"

// MatMul multiplies the matrices in the last two dimensions; the dimensions
// before them broadcast.
func (x Float[B]) MatMul(y Float[B]) Float[B] { return x.matmul(y, asIs, asIs) }

// How matmul reads a matrix.
const asIs, transposed = false, true

// matmul multiplies with either matrix transposed.
func (x Float[B]) matmul(y Float[B], transX, transY bool) Float[B] {
	return Float[B]{x.run(OpMatMul, &Attr{TransA: transX, TransB: transY}, y.Tensor)}
}

// Linear returns x times the transposed weight [n, k], plus the bias [n] if
// it is present: a fully connected layer over the last dimension of x.
func (x Float[B]) Linear(weight, bias Float[B]) Float[B] {
	return Float[B]{x.run(OpLinear, nil, weight.Tensor, bias.Tensor)}
}

// QuantizedLinear is Linear as an integer kernel serves it: the rows of x and
// of the weight are quantized to s8 by their largest absolute value, and the
// sums are exact. The gradient is the straight-through estimate.
func (x Float[B]) QuantizedLinear(weight, bias Float[B]) Float[B] {
	return Float[B]{x.run(OpQuantizedLinear, nil, weight.Tensor, bias.Tensor)}
}

// Conv2d slides the weight [o, c/groups, kh, kw] over the images x
// [n, c, h, w], and adds the bias [o] if it is present.
func (x Float[B]) Conv2d(weight, bias Float[B], w Window) Float[B] {
	return Float[B]{x.run(OpConv2d, &Attr{Window: w}, weight.Tensor, bias.Tensor)}
}

// ConvTranspose2d lets each pixel of the images x [n, c, h, w] add the weight
// [c, o/groups, kh, kw] times itself to a window of the result, and adds the
// bias [o] if it is present: the input's gradient of a Conv2d with this weight.
// The window's Stride scales the images; its OutputPad says which of the sizes
// that a Conv2d would bring to x's it is.
func (x Float[B]) ConvTranspose2d(weight, bias Float[B], w Window) Float[B] {
	if x.Err() != nil {
		return x
	}
	if err := weight.Err(); err != nil {
		return Float[B]{failed(x.be, "conv_transpose2d: the weight: %w", err)}
	}
	w.Kernel = [2]int{}
	if err := w.complete(); err != nil {
		return Float[B]{failed(x.be, "conv_transpose2d: %w", err)}
	}
	if x.Rank() != 4 || weight.Rank() != 4 || x.extent(1) != weight.extent(0) || x.extent(1)%w.Groups != 0 {
		return Float[B]{failed(x.be, "conv_transpose2d: x is %v and the weight %v, in %d groups; want [n, c, h, w] and [c, o/groups, kh, kw]", x, weight, w.Groups)}
	}
	if h, w, kh, kw := x.extent(2), x.extent(3), weight.extent(2), weight.extent(3); min(h, w, kh, kw) < 1 || max(h, w, kh, kw) > maxWindow {
		return Float[B]{failed(x.be, "conv_transpose2d: x is %v and the weight %v; want a pixel and a tap of the kernel at least, and nothing beyond %d", x, weight, maxWindow)}
	}
	out := weight.extent(1) * w.Groups
	if bias.Err() == nil && (bias.Rank() != 1 || bias.extent(0) != out) {
		return Float[B]{failed(x.be, "conv_transpose2d: the bias is %v; want shape [%d]", bias, out)}
	}
	size := [2]int{}
	for i := range size {
		if w.OutputPad[i] < 0 || w.OutputPad[i] >= w.Stride[i] {
			return Float[B]{failed(x.be, "conv_transpose2d: OutputPad is %v; want 0 or more, and less than the strides %v", w.OutputPad, w.Stride)}
		}
		size[i] = (x.extent(2+i)-1)*w.Stride[i] - 2*w.Pad[i] + w.Dilation[i]*(weight.extent(2+i)-1) + w.OutputPad[i] + 1
	}
	if size[0] < 1 || size[1] < 1 {
		return Float[B]{failed(x.be, "conv_transpose2d: x is %v, the weight %v and the padding %v; want less padding: the result would be %d by %d", x, weight, w.Pad, size[0], size[1])}
	}
	return x.inFloat32(weight, bias, func(x, weight, bias Float[B]) Float[B] {
		shape := []int64{int64(x.extent(0)), int64(out), int64(size[0]), int64(size[1])}
		y := Float[B]{x.run(OpConv2dDX, &Attr{Window: w, Shape: shape}, weight.Tensor)}
		return y.intoScaled(Float[B]{}, bias.perChannel(4))
	})
}

// MaxPool2d takes the largest element of every window over the last two
// dimensions: the first of equals, which alone gets the gradient.
func (x Float[B]) MaxPool2d(w Window) Float[B] {
	out := x.runAll(OpMaxPool2d, &Attr{Window: w})
	out[1].Release() // the graph holds the positions, if it needs them
	return Float[B]{out[0]}
}

// AvgPool2d takes the mean of every window over the last two dimensions.
func (x Float[B]) AvgPool2d(w Window) Float[B] {
	return Float[B]{x.run(OpAvgPool2d, &Attr{Window: w})}
}

// SampleMode says how GridSample reads an image.
type SampleMode struct {
	Mode         string // bilinear (the default), nearest or bicubic
	Padding      string // zeros (the default), border or reflection
	AlignCorners bool   // -1 and 1 are the centres of the outermost pixels, not their edges
}

// GridSample reads the images x [n, c, h, w] at the places of a grid
// [n, oh, ow, 2], x first, from -1 to 1: [n, c, oh, ow]. Or volumes
// [n, c, d, h, w] at those of a grid [n, od, oh, ow, 3].
func (x Float[B]) GridSample(grid Float[B], m SampleMode) Float[B] {
	return Float[B]{x.run(OpGridSample, &Attr{Mode: m.Mode, Padding: m.Padding, AlignCorners: m.AlignCorners}, grid.Tensor)}
}

// AffineGrid turns maps theta [n, 2, 3] into a grid [n, h, w, 2] for images of
// the shape [n, c, h, w]; or [n, 3, 4] into [n, d, h, w, 3] for volumes.
func (x Float[B]) AffineGrid(alignCorners bool, shape ...int) Float[B] {
	return Float[B]{x.run(OpAffineGrid, &Attr{Shape: wide(slices.Clone(shape)), AlignCorners: alignCorners})}
}
