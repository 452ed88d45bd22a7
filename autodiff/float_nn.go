package autodiff

import "slices"

// MatMul multiplies the matrices in the last two dimensions; the dimensions
// before them broadcast.
func (x Float[B]) MatMul(y Float[B]) Float[B] { return x.matmul(y, false, false) }

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

// CrossEntropy is the mean over the rows of logits [n, classes] of the
// negative logarithm of the label's softmax. With smoothing s the label has
// weight 1 - s, and s is spread over all classes.
func (x Float[B]) CrossEntropy(labels Int[B], smoothing float64) Float[B] {
	return Float[B]{x.run(OpCrossEntropy, &Attr{Floats: [6]float64{smoothing}}, labels.Tensor)}
}

// MSE is the mean of the squared differences.
func (x Float[B]) MSE(target Float[B]) Float[B] {
	var made temporaries[B]
	defer made.release()
	return made.add(made.add(x.Sub(target)).PowScalar(2)).Mean()
}

// Embedding looks up rows of the weight [v, d]: for indices of any shape the
// result has one dimension more. An index out of range is an error.
func (x Float[B]) Embedding(indices Int[B]) Float[B] {
	return Float[B]{x.run(OpEmbedding, nil, indices.Tensor)}
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
