package autodiff

import "slices"

// Window3d is the Window of a convolution or of pooling of volumes: depth, height, width.
type Window3d struct {
	Kernel    [3]int // of pooling
	Stride    [3]int // of pooling: the kernel where 0
	Pad       [3]int // on either side
	Dilation  [3]int // of a convolution: the step between the elements of its kernel
	Groups    int    // of a convolution: parts of the channels that do not mix
	NoPad     bool   // an average leaves the padding out of its count
	CeilMode  bool   // of pooling: see Window
	OutputPad [3]int // of a transposed convolution: how many planes, lines and columns more its result has
}

// plane is the window within a plane, and depth that across planes, as the first of a Window's dimensions.
func (w Window3d) plane() Window { return w.window(1, 2) }

func (w Window3d) depth() Window {
	d := w.window(0, 0)
	if w.Kernel[0] != 0 {
		d.Kernel[1] = 1
	}
	d.Stride[1], d.Pad[1], d.Dilation[1], d.OutputPad[1] = 1, 0, 1, 0
	return d
}

func (w Window3d) window(i, j int) Window {
	return Window{
		Kernel: [2]int{w.Kernel[i], w.Kernel[j]}, Stride: [2]int{w.Stride[i], w.Stride[j]}, Pad: [2]int{w.Pad[i], w.Pad[j]},
		Dilation: [2]int{w.Dilation[i], w.Dilation[j]}, Groups: w.Groups, NoPad: w.NoPad, CeilMode: w.CeilMode, OutputPad: [2]int{w.OutputPad[i], w.OutputPad[j]},
	}
}

// Conv3d slides the weight [o, c/groups, kd, kh, kw] over the volumes x [n, c, d, h, w], and adds the bias [o] if it is
// present. It is a Conv2d of as many images as the result has planes, whose channels are those of all planes that one of them
// is made of: it takes kd times the memory of x.
func (x Float[B]) Conv3d(weight, bias Float[B], w Window3d) Float[B] {
	const name = "conv3d"
	if err := x.checkConv(name, "[n, c, d, h, w]", "[o, c/groups, kd, kh, kw]", 5, weight, bias, w.Groups); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	w.Kernel = [3]int{}
	plane, depth := w.plane(), w.depth()
	if err := depth.complete(); err != nil {
		return Float[B]{failed(x.be, "%s: along the depth: %w", name, err)}
	}
	in, k := x.Shape(), weight.Shape()
	planes := int(places(int64(in[2]), int64(k[2]), &depth, 0))
	if k[2] < 1 || planes < 1 {
		return Float[B]{failed(x.be, "%s: x is %v, smaller than the window %v", name, x, weight)}
	}
	if planes > maxParts || k[2] > maxParts/planes {
		return Float[B]{failed(x.be, "%s: x is %v, the weight %v and the padding %v; want at most %d planes of the kernel times planes of the result", name, x, weight, w.Pad, maxParts)}
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	from := depth.taps(planes, k[2], in[2])
	if slices.Contains(from, int64(in[2])) { // the padding is one plane of zeros
		x = keep(Cat(2, x, keep(Float[B]{fill(x.be, x.DType(), 0, wide([]int{in[0], in[1], 1, in[3], in[4]}))})))
	}
	columns := keep(keep(keep(x.rows(2, from)).Reshape(in[0], in[1], planes, k[2], in[3], in[4])).Permute(0, 2, 1, 3, 4, 5))
	images := keep(columns.Reshape(in[0]*planes, in[1]*k[2], in[3], in[4]))
	y := keep(images.Conv2d(keep(weight.Reshape(k[0], k[1]*k[2], k[3], k[4])), bias, plane))
	if y.Err() != nil {
		return Float[B]{failed(x.be, "%s: by planes: %w", name, y.Err())}
	}
	return keep(y.Reshape(in[0], planes, k[0], y.extent(2), y.extent(3))).Transpose(1, 2)
}

// taps are the lines, of n, that the kernel's elements lie at for each of some places; n where one lies outside.
func (w *Window) taps(places, kernel, n int) []int64 {
	at := make([]int64, 0, places*kernel)
	for i := range places {
		for k := range kernel {
			line := i*w.Stride[0] - w.Pad[0] + k*w.Dilation[0]
			if line < 0 || line > n {
				line = n
			}
			at = append(at, int64(line))
		}
	}
	return at
}

// ConvTranspose3d is ConvTranspose2d of volumes x [n, c, d, h, w] with the weight [c, o/groups, kd, kh, kw].
func (x Float[B]) ConvTranspose3d(weight, bias Float[B], w Window3d) Float[B] {
	const name = "conv_transpose3d"
	if err := x.checkTransposed(name, "[n, c, d, h, w]", "[c, o/groups, kd, kh, kw]", 5, weight, w.Groups); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	w.Kernel = [3]int{}
	plane, depth := w.plane(), w.depth()
	if err := depth.complete(); err != nil {
		return Float[B]{failed(x.be, "%s: along the depth: %w", name, err)}
	}
	in, k, out := x.Shape(), weight.Shape(), weight.extent(1)*depth.Groups
	switch {
	case bias.Err() == nil && (bias.Rank() != 1 || bias.extent(0) != out):
		return Float[B]{failed(x.be, "%s: the bias is %v; want shape [%d]", name, bias, out)}
	case w.OutputPad[0] < 0 || w.OutputPad[0] >= depth.Stride[0]:
		return Float[B]{failed(x.be, "%s: OutputPad is %v; want 0 or more, and less than the strides %v", name, w.OutputPad, w.Stride)}
	case min(in[2], k[2]) < 1 || max(in[2], k[2]) > maxWindow || in[2] > maxParts/k[2]:
		return Float[B]{failed(x.be, "%s: x is %v and the weight %v; want a plane of each at least, and at most %d of both multiplied", name, x, weight, maxParts)}
	}
	planes := (in[2]-1)*depth.Stride[0] - 2*depth.Pad[0] + depth.Dilation[0]*(k[2]-1) + w.OutputPad[0] + 1
	if planes < 1 {
		return Float[B]{failed(x.be, "%s: x is %v, the weight %v and the padding %v; want less padding: the result would have %d planes", name, x, weight, w.Pad, planes)}
	}
	return x.inFloat32(weight, bias, func(x, weight, bias Float[B]) Float[B] { // to round once
		var made temporaries[B]
		defer made.release()
		keep := made.add
		images := keep(keep(x.Transpose(1, 2)).Reshape(in[0]*in[2], in[1], in[3], in[4]))
		parts := keep(images.ConvTranspose2d(keep(weight.Reshape(k[0], k[1]*k[2], k[3], k[4])), Float[B]{}, plane))
		if parts.Err() != nil {
			return Float[B]{failed(x.be, "%s: by planes: %w", name, parts.Err())}
		}
		h, wd := parts.extent(2), parts.extent(3)
		columns := keep(keep(parts.Reshape(in[0], in[2], out, k[2], h, wd)).Permute(0, 2, 1, 3, 4, 5))
		at := Ints(x.be, depth.taps(in[2], k[2], planes)) // the last plane takes what lies outside, and is left out
		defer at.Release()
		zeros := keep(Float[B]{fill(x.be, x.DType(), 0, wide([]int{in[0], out, planes + 1, h, wd}))})
		y := keep(zeros.SelectAdd(2, at, keep(columns.Reshape(in[0], out, in[2]*k[2], h, wd))))
		return y.Slice(2, 0, planes).intoScaled(Float[B]{}, bias.perChannel(5))
	})
}
