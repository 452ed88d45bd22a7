package kernel

// Conv describes a 2-D convolution of images of C channels.
type Conv struct {
	N, C, H, W, O, KH, KW, OH, OW int
	Stride, Pad, Dilation         [2]int
	Groups                        int
}

// window returns the range of output positions whose tap k falls inside the
// input, along one dimension.
func window(out, in, k, stride, pad, dilation int) (lo, hi int) {
	off := k*dilation - pad // input position of output position 0
	if off < 0 {
		lo = (-off + stride - 1) / stride
	}
	if in-1-off < 0 {
		return 0, 0
	}
	hi = min(out, (in-1-off)/stride+1)
	return min(lo, hi), hi
}

// tap is what one element of the kernel meets: in a row of columns, lines from an
// offset on, each of a width, and in a channel the elements from at on. Where image and
// output are equally wide they lie alike, and the lines are one piece, with what is
// between them.
type tap struct{ from, at, lines, width, pieces, size int }

func (d *Conv) tap(kh, kw int) tap {
	y0, y1 := window(d.OH, d.H, kh, d.Stride[0], d.Pad[0], d.Dilation[0])
	x0, x1 := window(d.OW, d.W, kw, d.Stride[1], d.Pad[1], d.Dilation[1])
	if y0 == y1 || x0 == x1 {
		return tap{} // it lies in the padding
	}
	t := tap{from: y0*d.OW + x0, lines: y1 - y0, width: x1 - x0, pieces: y1 - y0, size: x1 - x0}
	t.at = (y0*d.Stride[0]+kh*d.Dilation[0]-d.Pad[0])*d.W + x0*d.Stride[1] + kw*d.Dilation[1] - d.Pad[1]
	if d.OW == d.W && d.Stride == [2]int{1, 1} {
		t.pieces, t.size = 1, (t.lines-1)*d.OW+t.width
	}
	return t
}

// overTaps calls move for every element of the kernel and every channel, with their row
// of the columns and their plane of the image.
func overTaps[T Float](d *Conv, cols, x []T, channels int, move func(t tap, row, plane []T)) {
	if channels == 0 { // the kernel, without elements, may be of any extent
		return
	}
	p, size := d.OH*d.OW, d.H*d.W
	for kh := range d.KH {
		for kw := range d.KW {
			t := d.tap(kh, kw)
			for c := range channels {
				move(t, cols[((c*d.KH+kh)*d.KW+kw)*p:][:p], x[c*size:][:size])
			}
		}
	}
}

// clearPadding clears what the tap does not meet.
func clearPadding[T Float](d *Conv, t tap, row []T) {
	at := 0
	for i := range t.lines {
		clear(row[at : t.from+i*d.OW])
		at = t.from + i*d.OW + t.width
	}
	clear(row[at:])
}

// unfold writes the columns of one group of one image: row (c, kh, kw) has
// the input at that tap for every output position, 0 outside.
func unfold[T Float](d *Conv, cols, x []T, channels int) {
	overTaps(d, cols, x, channels, func(t tap, row, plane []T) {
		for i := range t.pieces {
			dst, src := row[t.from+i*d.OW:][:t.size], plane[t.at+i*d.Stride[0]*d.W:]
			if d.Stride[1] == 1 {
				copy(dst, src)
				continue
			}
			for j := range dst {
				dst[j] = src[j*d.Stride[1]]
			}
		}
		clearPadding(d, t, row)
	})
}

// columnsOf are those of one group of one image: itself, where the kernel has one element.
func columnsOf[T Float](d *Conv, cols, x []T, channels int) []T {
	if d.KH*d.KW == 1 && d.Stride == [2]int{1, 1} && d.Pad == [2]int{} {
		return x
	}
	unfold(d, cols, x, channels)
	return cols
}

// fold adds the columns back to the input positions they came from. It clears those
// that came from none.
func fold[T Float](d *Conv, x, cols []T, channels int) {
	clear(x[:channels*d.H*d.W])
	overTaps(d, cols, x, channels, func(t tap, row, plane []T) {
		if t.pieces < t.lines {
			clearPadding(d, t, row) // sums from +0 on are no -0, which +0 would change
		}
		for i := range t.pieces {
			src, dst := row[t.from+i*d.OW:][:t.size], plane[t.at+i*d.Stride[0]*d.W:]
			if d.Stride[1] == 1 {
				addVV(dst[:t.size], dst, src)
				continue
			}
			for j, v := range src {
				dst[j*d.Stride[1]] += v
			}
		}
	})
}

// Scratch lends memory for the time of a call.
type Scratch[T any] func(n int) (x []T, done func())

func (d *Conv) sizes() (cg, og, k, p int) {
	cg, og = d.C/d.Groups, d.O/d.Groups
	return cg, og, cg * d.KH * d.KW, d.OH * d.OW
}

// imageCost is the arithmetic of one image, in elements.
func (d *Conv) imageCost() int {
	_, _, k, p := d.sizes()
	return d.O * k * p / 4
}

// Forward computes the convolution, and adds the bias where there is one.
func Forward[T Float](t Threads, d *Conv, scratch Scratch[T], y, x, w, bias []T) {
	if len(y) == 0 {
		return
	}
	cg, og, k, p := d.sizes()
	if f, ok := forwardTaps[T](d); ok {
		f.forward(t, d, scratch, y, x, w, bias)
		return
	}
	if f, ok := forwardDense[T](d); ok {
		f.forward(t, d, scratch, y, x, w, bias)
		return
	}
	t.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		cols, done := scratch(k * p)
		defer done()
		for n := lo; n < hi; n++ {
			for g := range d.Groups {
				columns := columnsOf(d, cols, x[(n*d.C+g*cg)*d.H*d.W:], cg)
				out := y[(n*d.O+g*og)*p:]
				Gemm(1, Product[T]{M: og, N: p, K: k, A: RowMajor(w[g*og*k:], k), B: RowMajor(columns, p), C: RowMajor(out, p)})
				for o := 0; o < og && bias != nil; o++ {
					row := out[o*p:][:p]
					addVS(row, row, bias[g*og+o])
				}
			}
		}
	})
}

// GradInput computes the gradient of the input from g, that of the output.
func GradInput[T Float](t Threads, d *Conv, scratch Scratch[T], dx, g, w []T) {
	if len(w) == 0 {
		clear(dx)
		return
	}
	cg, og, k, p := d.sizes()
	if f, ok := gradientTaps(d, w); ok {
		f.gradInput(t, d, scratch, dx, g, w)
		return
	}
	if f, ok := gradientDense(d, w); ok {
		f.gradInput(t, d, scratch, dx, g, w)
		return
	}
	t.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		cols, done := scratch(k * p)
		defer done()
		for n := lo; n < hi; n++ {
			for gr := range d.Groups {
				up := RowMajor(g[(n*d.O+gr*og)*p:], p)
				Gemm(1, Product[T]{M: k, N: p, K: og, A: Transposed(w[gr*og*k:], k), B: up, C: RowMajor(cols, p)})
				fold(d, dx[(n*d.C+gr*cg)*d.H*d.W:], cols, cg)
			}
		}
	})
}

// hasElements reports whether images and weights have some: the loops of framed planes do not ask.
func (d *Conv) hasElements() bool { return d.H*d.W*d.O > 0 }

// images is how many images share a partial sum of the weights' gradient.
const images = 8

// parts is how many such sums there are.
func (d *Conv) parts() int { return (d.N + images - 1) / images }

// GradWeight computes the gradient of the weights: a chain over the output
// positions of 8 images, then the chains' results pairwise.
func GradWeight[T Float](t Threads, d *Conv, scratch Scratch[T], dw, g, x []T) {
	if d.N == 0 || len(dw) == 0 {
		clear(dw)
		return
	}
	sums, done := scratch(d.parts() * len(dw))
	defer done()
	switch {
	case depthwiseWeights[T](d):
		gradDepthwise(t, d, scratch, sums, g, x)
	case denseWeights[T](d):
		gradDense(t, d, scratch, sums, g, x)
	default:
		gradColumns(t, d, scratch, sums, g, x)
	}
	foldRows(dw, sums)
}

// gradColumns computes the chains by columns.
func gradColumns[T Float](t Threads, d *Conv, scratch Scratch[T], sums, g, x []T) {
	cg, og, k, p := d.sizes()
	size := d.O * k
	t.For(d.parts(), images*d.imageCost(), 1, func(lo, hi int) {
		cols, done := scratch(k * p)
		defer done()
		for b := lo; b < hi; b++ {
			for n := b * images; n < min((b+1)*images, d.N); n++ {
				for gr := range d.Groups {
					columns := columnsOf(d, cols, x[(n*d.C+gr*cg)*d.H*d.W:], cg)
					up, sum := RowMajor(g[(n*d.O+gr*og)*p:], p), RowMajor(sums[b*size+gr*og*k:], k)
					Gemm(1, Product[T]{M: og, N: k, K: p, A: up, B: Transposed(columns, p), C: sum, Add: n > b*images})
				}
			}
		}
	})
}
