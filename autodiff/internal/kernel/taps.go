package kernel

// Convolutions of f32 with strides of 1, of planes in a frame of zeros, so that all results take the
// same taps. Here are those whose output channels have one input channel each, as depthwise ones.

// taps is such a convolution, of a framed plane.
type taps[T Float] struct {
	rows, columns, down, across int // of the kernel; distances between taps, in elements
	width, height, line         int // of the results; distance between lines of the plane
	first                       int // where the first tap of the first result lies
	top, left                   int // of the plane within its frame
}

// forwardFrame returns the taps of the convolution.
func forwardFrame[T Float](d *Conv) taps[T] {
	line := d.W + 2*d.Pad[1]
	return taps[T]{
		rows: d.KH, columns: d.KW, width: d.OW, height: d.OH, line: line,
		down: d.Dilation[0] * line, across: d.Dilation[1], top: d.Pad[0], left: d.Pad[1],
	}
}

// gradientFrame returns those of its input's gradient: each lies before the last one.
func gradientFrame[T Float](d *Conv) taps[T] {
	reach := [2]int{(d.KH - 1) * d.Dilation[0], (d.KW - 1) * d.Dilation[1]}
	left := reach[1] - d.Pad[1]
	line := d.OW + 2*left
	return taps[T]{
		rows: d.KH, columns: d.KW, width: d.W, height: d.H, line: line,
		down: -d.Dilation[0] * line, across: -d.Dilation[1], first: reach[0]*line + reach[1], top: reach[0] - d.Pad[0], left: left,
	}
}

// framed reports whether there is assembly for convolutions of framed planes, and frames are not
// much larger than these.
func (t *taps[T]) framed(d *Conv) bool {
	lines := t.height + (d.KH-1)*d.Dilation[0]
	return hasAVX2() && isFloat32[T]() && d.hasElements() && d.Stride == [2]int{1, 1} && t.top >= 0 && t.left >= 0 && lines*t.line <= 8*t.height*t.width
}

func forwardTaps[T Float](d *Conv) (taps[T], bool) {
	t := forwardFrame[T](d)
	// From five channels of output on, a product with columns, which all of them share, is faster.
	return t, d.C == d.Groups && d.O <= 4*d.Groups && t.framed(d) && t.fits()
}

func gradientTaps[T Float](d *Conv, w []T) (taps[T], bool) {
	t := gradientFrame[T](d)
	return t, d.C == d.Groups && d.O == d.Groups && t.framed(d) && t.fits() && finite(w)
}

func (t *taps[T]) fits() bool { return t.width >= 8 && t.height >= tapLines }

// finite reports whether products with the zeros of a frame are zeros.
func finite[T Float](x []T) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// forward computes planes of the convolution. It is apart, as is gradInput, so that others allocate
// nothing for it.
func (t taps[T]) forward(threads Threads, d *Conv, scratch Scratch[T], y, x, w, bias []T) {
	_, og, k, p := d.sizes()
	t.planes(threads, d, scratch, x, d.H, d.W, func(frame []T, plane int) {
		for o := range og {
			out, at := y[(plane*og+o)*p:][:p], plane%d.C*og+o
			t.run(out, frame, w[at*k:], fusedSteps)
			if bias != nil {
				addVS(out, out, bias[at])
			}
		}
	})
}

// gradInput computes planes of the input's gradient.
func (t taps[T]) gradInput(threads Threads, d *Conv, scratch Scratch[T], dx, g, w []T) {
	t.planes(threads, d, scratch, g, d.OH, d.OW, func(frame []T, plane int) {
		t.run(dx[plane*d.H*d.W:], frame, w[plane%d.C*d.KH*d.KW:], roundedSteps)
	})
}

// planes calls each with the planes of x in their frames.
func (t *taps[T]) planes(threads Threads, d *Conv, scratch Scratch[T], x []T, height, width int, each func(frame []T, plane int)) {
	threads.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		frame, done := scratch((height + 2*t.top) * t.line)
		defer done()
		clear(frame)
		for plane := lo * d.C; plane < hi*d.C; plane++ {
			t.fill(frame, x[plane*height*width:], height, width)
			each(frame, plane)
		}
	})
}

// fill copies a plane into its frame.
func (t *taps[T]) fill(frame, x []T, height, width int) {
	for y := range height {
		copy(frame[(t.top+y)*t.line+t.left:][:width], x[y*width:])
	}
}

// How a product is added: rounded before, or with it.
const roundedSteps, fusedSteps = false, true

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
