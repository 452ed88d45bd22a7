package kernel

// Convolutions of f32 whose output channels have one input channel each, as depthwise ones, with
// strides of 1. The plane lies in a frame of zeros, so that all results take the same taps from it.

// taps is such a convolution, of a framed plane.
type taps[T Float] struct {
	rows, columns, down, across int // of the kernel; distances between taps, in elements
	width, height, line         int // of the results; distance between lines of the plane
	first                       int // where the first tap of the first result lies
	top, left                   int // of the plane within its frame
}

// fits reports whether there is assembly for it.
func (t *taps[T]) fits() bool {
	return hasAVX2() && t.width >= 8 && t.height >= tapLines && t.top >= 0 && t.left >= 0
}

// forwardTaps returns the taps of the convolution, and whether it is to take them: from five
// channels of output on, a product with columns, which all of them share, is faster.
func forwardTaps[T Float](d *Conv) (taps[T], bool) {
	t := taps[T]{
		rows: d.KH, columns: d.KW, width: d.OW, height: d.OH, line: d.W + 2*d.Pad[1],
		across: d.Dilation[1], top: d.Pad[0], left: d.Pad[1],
	}
	t.down = d.Dilation[0] * t.line
	return t, isFloat32[T]() && d.C == d.Groups && d.O <= 4*d.Groups && d.Stride == [2]int{1, 1} && t.fits()
}

// gradientTaps are those of its input's gradient: each lies before the last one.
func gradientTaps[T Float](d *Conv, w []T) (taps[T], bool) {
	reach := [2]int{(d.KH - 1) * d.Dilation[0], (d.KW - 1) * d.Dilation[1]}
	t := taps[T]{
		rows: d.KH, columns: d.KW, width: d.W, height: d.H,
		across: -d.Dilation[1], top: reach[0] - d.Pad[0], left: reach[1] - d.Pad[1],
	}
	t.line = d.OW + 2*t.left
	t.down, t.first = -d.Dilation[0]*t.line, reach[0]*t.line+reach[1]
	if !isFloat32[T]() || d.C != d.Groups || d.O != d.Groups || d.Stride != [2]int{1, 1} || !t.fits() {
		return t, false
	}
	for _, v := range w {
		if v-v != 0 { // a product with the frame would be a NaN
			return t, false
		}
	}
	return t, true
}

// forward computes planes of the convolution. It is apart, as is gradInput, so that others allocate
// nothing for it.
func (t taps[T]) forward(threads Threads, d *Conv, scratch Scratch[T], y, x, w, bias []T) {
	_, og, k, p := d.sizes()
	t.planes(threads, d, scratch, x, d.H, d.W, func(frame []T, plane int) {
		for o := range og {
			out, at := y[(plane*og+o)*p:][:p], plane%d.C*og+o
			t.run(out, frame, w[at*k:], true)
			if bias != nil {
				addVS(out, out, bias[at])
			}
		}
	})
}

// gradInput computes planes of the input's gradient.
func (t taps[T]) gradInput(threads Threads, d *Conv, scratch Scratch[T], dx, g, w []T) {
	t.planes(threads, d, scratch, g, d.OH, d.OW, func(frame []T, plane int) {
		t.run(dx[plane*d.H*d.W:], frame, w[plane%d.C*d.KH*d.KW:], false)
	})
}

// planes calls each with the planes of x in their frames.
func (t *taps[T]) planes(threads Threads, d *Conv, scratch Scratch[T], x []T, height, width int, each func(frame []T, plane int)) {
	threads.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		frame, done := scratch((height + 2*t.top) * t.line)
		defer done()
		clear(frame)
		for plane := lo * d.C; plane < hi*d.C; plane++ {
			for y := range height {
				copy(frame[(t.top+y)*t.line+t.left:][:width], x[(plane*height+y)*width:])
			}
			each(frame, plane)
		}
	})
}

// run computes a plane of results.
func (t *taps[T]) run(y, frame, w []T, fused bool) {
	for at := 0; ; at += tapLines {
		at = min(at, t.height-tapLines) // the last lines may be computed twice
		fastTaps(t, y[at*t.width:], frame[t.first+at*t.line:], w, fused)
		if at+tapLines == t.height {
			return
		}
	}
}
