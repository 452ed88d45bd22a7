package autodiff

// Window1d is the Window of a convolution or of pooling along one dimension.
type Window1d struct {
	Kernel    int  // of pooling
	Stride    int  // of pooling: the kernel where 0
	Pad       int  // on either side
	Dilation  int  // of a convolution: the step between the elements of its kernel
	Groups    int  // of a convolution: parts of the channels that do not mix
	NoPad     bool // an average leaves the padding out of its count
	CeilMode  bool // of pooling: see Window
	OutputPad int  // of a transposed convolution: how many columns more its result has
}

// plane is the window in images of one line.
func (w Window1d) plane() Window {
	p := Window{Stride: [2]int{1, w.Stride}, Pad: [2]int{0, w.Pad}, Dilation: [2]int{1, w.Dilation}, Groups: w.Groups, NoPad: w.NoPad, CeilMode: w.CeilMode, OutputPad: [2]int{0, w.OutputPad}}
	if w.Kernel != 0 {
		p.Kernel = [2]int{1, w.Kernel}
	}
	return p
}

// Conv1d slides the weight [o, c/groups, k] along the sequences x [n, c, l], and adds the bias [o] if it is present.
func (x Float[B]) Conv1d(weight, bias Float[B], w Window1d) Float[B] {
	if err := x.checkConv("conv1d", "[n, c, l]", "[o, c/groups, k]", 3, weight, bias, w.Groups); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.asLines("conv1d", weight, func(x, weight Float[B]) Float[B] { return x.Conv2d(weight, bias, w.plane()) })
}

// ConvTranspose1d is ConvTranspose2d of sequences x [n, c, l] with the weight [c, o/groups, k].
func (x Float[B]) ConvTranspose1d(weight, bias Float[B], w Window1d) Float[B] {
	if err := x.checkTransposed("conv_transpose1d", "[n, c, l]", "[c, o/groups, k]", 3, weight, w.Groups); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return x.asLines("conv_transpose1d", weight, func(x, weight Float[B]) Float[B] { return x.ConvTranspose2d(weight, bias, w.plane()) })
}

// asLines computes with x and a weight as images of one line.
func (x Float[B]) asLines(name string, weight Float[B], of func(x, weight Float[B]) Float[B]) Float[B] {
	var made temporaries[B]
	defer made.release()
	y := made.add(of(made.add(x.Unsqueeze(-2)), made.add(weight.Unsqueeze(-2))))
	if y.Err() != nil {
		return Float[B]{failed(x.be, "%s: in images of one line: %w", name, y.Err())}
	}
	return y.Squeeze(-2)
}

// checkConv checks the ranks and channels of a convolution.
func (x Float[B]) checkConv(name, images, kernels string, rank int, weight, bias Float[B], groups int) error {
	groups = max(groups, 1) // another one is refused with the window
	switch {
	case x.Err() != nil:
		return x.Err()
	case weight.Err() != nil:
		return failed(x.be, "%s: the weight: %w", name, weight.Err()).err
	case x.Rank() != rank || weight.Rank() != rank || x.extent(1)%groups != 0 || x.extent(1)/groups != weight.extent(1) || weight.extent(0)%groups != 0:
		return failed(x.be, "%s: x is %v and the weight %v, in %d groups; want %s and %s", name, x, weight, groups, images, kernels).err
	case bias.Err() == nil && (bias.Rank() != 1 || bias.extent(0) != weight.extent(0)):
		return failed(x.be, "%s: the bias is %v; want shape [%d]", name, bias, weight.extent(0)).err
	}
	return nil
}

// checkTransposed checks the ranks and channels of a transposed convolution.
func (x Float[B]) checkTransposed(name, images, kernels string, rank int, weight Float[B], groups int) error {
	groups = max(groups, 1)
	switch {
	case x.Err() != nil:
		return x.Err()
	case weight.Err() != nil:
		return failed(x.be, "%s: the weight: %w", name, weight.Err()).err
	case x.Rank() != rank || weight.Rank() != rank || x.extent(1) != weight.extent(0) || x.extent(1)%groups != 0:
		return failed(x.be, "%s: x is %v and the weight %v, in %d groups; want %s and %s", name, x, weight, groups, images, kernels).err
	}
	return nil
}
