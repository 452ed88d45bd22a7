package autodiff

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// The rules of operations of networks.

// matrices returns the extents of a product and the shape of its batch.
func matrices(at *Attr, a, b []int64) (m, n, k int64, batch []int64, err error) {
	if len(a) < 2 || len(b) < 2 {
		return 0, 0, 0, nil, fmt.Errorf("inputs have %d and %d dimensions; want at least 2", len(a), len(b))
	}
	m, k = a[len(a)-2], a[len(a)-1]
	if at.TransA {
		m, k = k, m
	}
	kb, n := b[len(b)-2], b[len(b)-1]
	if at.TransB {
		kb, n = n, kb
	}
	if k != kb {
		return 0, 0, 0, nil, fmt.Errorf("shapes %s and %s do not fit: the inner extents are %d and %d", tensor.ShapeText(a), tensor.ShapeText(b), k, kb)
	}
	batch, err = broadcast(a[:len(a)-2], b[:len(b)-2])
	return m, n, k, batch, err
}

func matmul(at *Attr, in []Info) ([3]Info, error) {
	m, n, _, batch, err := matrices(at, in[0].Shape, in[1].Shape)
	return [3]Info{{in[0].DType, append(slices.Clip(batch), m, n)}}, err
}

func linear(_ *Attr, in []Info) ([3]Info, error) {
	x, w := in[0].Shape, in[1].Shape
	if len(x) == 0 || len(w) != 2 || x[len(x)-1] != w[1] {
		return fail("x is %v and the weight %v; want [..., k] and [n, k]", in[0], in[1])
	}
	if in[2].DType != tensor.None && !slices.Equal(in[2].Shape, w[:1]) {
		return fail("the bias is %v; want shape [%d]", in[2], w[0])
	}
	shape := slices.Clone(x)
	shape[len(x)-1] = w[0]
	return one(in[0].DType, shape)
}

// maxWindow is beyond any image; sums and products of two numbers below it fit an int64.
const maxWindow = 1 << 30

// complete fills in a window's defaults and checks it.
func (w *Window) complete() error {
	if w.Groups == 0 {
		w.Groups = 1
	}
	good := true
	for i := range 2 {
		if w.Stride[i] == 0 {
			w.Stride[i] = max(w.Kernel[i], 1)
		}
		if w.Dilation[i] == 0 {
			w.Dilation[i] = 1
		}
		for _, n := range []int{w.Groups - 1, w.Kernel[i], w.Pad[i], w.Stride[i] - 1, w.Dilation[i] - 1} {
			good = good && n >= 0 && n < maxWindow
		}
	}
	if !good {
		return fmt.Errorf("the window is %+v; want groups, strides and dilations of at least 1, no negative padding, and nothing beyond %d", *w, maxWindow)
	}
	return nil
}

// places returns how many windows fit along one dimension, -1 where none does. A kernel
// without elements may be of any extent.
func places(in, kernel int64, w *Window, i int) int64 {
	room, dilation := in+2*int64(w.Pad[i])-1, int64(w.Dilation[i])
	if room < 0 || kernel-1 > room/dilation {
		return -1
	}
	return (room-dilation*(kernel-1))/int64(w.Stride[i]) + 1
}

func conv2d(at *Attr, in []Info) ([3]Info, error) {
	w := &at.Window
	w.Kernel = [2]int{}
	if err := w.complete(); err != nil {
		return fail("%w", err)
	}
	x, k, groups := in[0].Shape, in[1].Shape, int64(w.Groups)
	if len(x) != 4 || len(k) != 4 || x[1]%groups != 0 || x[1]/groups != k[1] || k[0]%groups != 0 || k[2] < 1 || k[3] < 1 {
		return fail("x is %v and the weight %v, in %d groups; want [n, c, h, w] and [o, c/groups, kh, kw]", in[0], in[1], groups)
	}
	if in[2].DType != tensor.None && !slices.Equal(in[2].Shape, k[:1]) {
		return fail("the bias is %v; want shape [%d]", in[2], k[0])
	}
	h, wd := places(x[2], k[2], w, 0), places(x[3], k[3], w, 1)
	if h < 1 || wd < 1 {
		return fail("x is %v, smaller than the window %v", in[0], in[1])
	}
	return one(in[0].DType, []int64{x[0], k[0], h, wd})
}

// toShape is the rule of gradients whose shape is given.
func toShape(at *Attr, in []Info) ([3]Info, error) {
	return one(in[0].DType, at.Shape)
}

// conv describes a convolution to the loops.
func (w *Window) conv(x, k, y []int64) *kernel.Conv {
	return &kernel.Conv{
		N: int(x[0]), C: int(x[1]), H: int(x[2]), W: int(x[3]),
		O: int(k[0]), KH: int(k[2]), KW: int(k[3]), OH: int(y[2]), OW: int(y[3]),
		Stride: w.Stride, Pad: w.Pad, Dilation: w.Dilation, Groups: w.Groups,
	}
}

// pool describes pooling of x to y.
func (w *Window) pool(x, y []int64) *kernel.Pool {
	r := len(x)
	return &kernel.Pool{
		Planes: int(tensor.NumElements(x[:r-2])), H: int(x[r-2]), W: int(x[r-1]), OH: int(y[r-2]), OW: int(y[r-1]),
		KH: w.Kernel[0], KW: w.Kernel[1], Stride: w.Stride, Pad: w.Pad, CountPad: !w.NoPad,
	}
}

// pooled returns how many windows of pooling there are along one dimension, less than 1 where none is.
func (w *Window) pooled(in int64, i int) int64 {
	if !w.CeilMode {
		return places(in, int64(w.Kernel[i]), w, i)
	}
	pad, stride := int64(w.Pad[i]), int64(w.Stride[i])
	room := in + 2*pad - int64(w.Kernel[i]) + stride - 1
	if room < 0 {
		return -1
	}
	n := room/stride + 1
	if (n-1)*stride >= in+pad { // the last would begin in the padding on the right
		n--
	}
	return n
}

// What pool2d has for results.
const valuesAlone, withPositions = false, true

func pool2d(positions bool) infer {
	return func(at *Attr, in []Info) ([3]Info, error) {
		w := &at.Window
		if err := w.complete(); err != nil {
			return fail("%w", err)
		}
		x := in[0].Shape
		r := len(x)
		if r < 2 || w.Dilation != [2]int{1, 1} || w.Kernel[0] < 1 || w.Kernel[1] < 1 || 2*w.Pad[0] > w.Kernel[0] || 2*w.Pad[1] > w.Kernel[1] {
			return fail("x is %v and the window %+v; want [..., h, w], a kernel, no dilation and padding of at most half the kernel", in[0], *w)
		}
		h, wd := w.pooled(x[r-2], 0), w.pooled(x[r-1], 1)
		if h < 1 || wd < 1 || x[r-2] < 1 || x[r-1] < 1 {
			return fail("x is %v, smaller than the window %s", in[0], tensor.ShapeText([]int64{int64(w.Kernel[0]), int64(w.Kernel[1])}))
		}
		shape := append(slices.Clone(x[:r-2]), h, wd)
		if positions {
			return [3]Info{{in[0].DType, shape}, {tensor.I32, shape}}, nil
		}
		return one(in[0].DType, shape)
	}
}

// planesOf checks that small has the planes of large, and positions in them.
func planesOf(large, small []int64, at Info) error {
	r := len(large)
	if r < 2 || len(small) != r || !slices.Equal(large[:r-2], small[:r-2]) {
		return fmt.Errorf("planes of %s and %s do not fit", tensor.ShapeText(large), tensor.ShapeText(small))
	}
	if at.DType != tensor.I32 || !slices.Equal(at.Shape, small) {
		return fmt.Errorf("positions are %v; want %v", at, Info{tensor.I32, small})
	}
	return nil
}

func poolTake(_ *Attr, in []Info) ([3]Info, error) {
	return [3]Info{{in[0].DType, in[1].Shape}}, planesOf(in[0].Shape, in[1].Shape, in[1])
}

func poolPutShape(at *Attr, in []Info) ([3]Info, error) {
	return [3]Info{{in[0].DType, at.Shape}}, planesOf(at.Shape, in[0].Shape, in[1])
}

// avgPoolPutShape checks that pooling the wanted shape gives the gradient's.
func avgPoolPutShape(at *Attr, in []Info) ([3]Info, error) {
	out, err := pool2d(valuesAlone)(at, []Info{{in[0].DType, at.Shape}})
	if err == nil && !slices.Equal(out[0].Shape, in[0].Shape) {
		err = fmt.Errorf("the gradient is %v; want %v", in[0], out[0])
	}
	return [3]Info{{in[0].DType, at.Shape}}, err
}

// Which gradient convGrad is of.
const ofConvWeight, ofConvInput = false, true

// convGrad checks that a convolution of the wanted shape and the other input
// gives the gradient's shape.
func convGrad(input bool) infer {
	return func(at *Attr, in []Info) ([3]Info, error) {
		wanted := Info{in[0].DType, at.Shape}
		pair := []Info{in[1], wanted, {}}
		if input {
			pair = []Info{wanted, in[1], {}}
		}
		out, err := conv2d(at, pair)
		if err == nil && !slices.Equal(out[0].Shape, in[0].Shape) {
			err = fmt.Errorf("the gradient is %v; want %v", in[0], out[0])
		}
		return [3]Info{wanted}, err
	}
}

func crossEntropy(at *Attr, in []Info) ([3]Info, error) {
	if err := isIndex(in[1]); err != nil {
		return fail("%w", err)
	}
	if !in[0].DType.IsFloat() || len(in[0].Shape) != 2 || !slices.Equal(in[0].Shape[:1], in[1].Shape) || in[0].Shape[0] == 0 {
		return fail("logits are %v and labels %v; want [n, classes] and [n], n at least 1", in[0], in[1])
	}
	if s := at.Floats[0]; !(s >= 0 && s <= 1) {
		return fail("the label smoothing is %v; want 0 to 1", s)
	}
	return one(in[0].DType, []int64{})
}

func crossEntropyGrad(at *Attr, in []Info) ([3]Info, error) {
	loss, err := crossEntropy(at, in[:2])
	if g := in[2]; err == nil && (g.DType != in[0].DType || len(g.Shape) != 0) {
		err = fmt.Errorf("the gradient is %v; want %v", g, loss[0])
	}
	return [3]Info{in[0]}, err
}
