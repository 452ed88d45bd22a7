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

// unfold writes the columns of one group of one image: row (c, kh, kw) has
// the input at that tap for every output position, 0 outside.
func unfold[T Float](d *Conv, cols, x []T, channels int) {
	p := d.OH * d.OW
	for c := range channels {
		for kh := range d.KH {
			y0, y1 := window(d.OH, d.H, kh, d.Stride[0], d.Pad[0], d.Dilation[0])
			for kw := range d.KW {
				x0, x1 := window(d.OW, d.W, kw, d.Stride[1], d.Pad[1], d.Dilation[1])
				row := cols[((c*d.KH+kh)*d.KW+kw)*p:][:p]
				clear(row[:y0*d.OW])
				clear(row[y1*d.OW:])
				for y := y0; y < y1; y++ {
					src := x[(c*d.H+y*d.Stride[0]+kh*d.Dilation[0]-d.Pad[0])*d.W:][:d.W]
					dst := row[y*d.OW:][:d.OW]
					clear(dst[:x0])
					clear(dst[x1:])
					if x0 == x1 {
						continue // the tap lies in the padding, beyond the row
					}
					at := x0*d.Stride[1] + kw*d.Dilation[1] - d.Pad[1]
					if d.Stride[1] == 1 {
						copy(dst[x0:x1], src[at:])
						continue
					}
					for i := x0; i < x1; i++ {
						dst[i] = src[at]
						at += d.Stride[1]
					}
				}
			}
		}
	}
}

// fold adds the columns back to the input positions they came from.
func fold[T Float](d *Conv, x, cols []T, channels int) {
	p := d.OH * d.OW
	clear(x[:channels*d.H*d.W])
	for c := range channels {
		for kh := range d.KH {
			y0, y1 := window(d.OH, d.H, kh, d.Stride[0], d.Pad[0], d.Dilation[0])
			for kw := range d.KW {
				x0, x1 := window(d.OW, d.W, kw, d.Stride[1], d.Pad[1], d.Dilation[1])
				if x0 == x1 {
					continue
				}
				row := cols[((c*d.KH+kh)*d.KW+kw)*p:][:p]
				for y := y0; y < y1; y++ {
					dst := x[(c*d.H+y*d.Stride[0]+kh*d.Dilation[0]-d.Pad[0])*d.W:][:d.W]
					src := row[y*d.OW:][:d.OW]
					at := x0*d.Stride[1] + kw*d.Dilation[1] - d.Pad[1]
					if d.Stride[1] == 1 {
						addVV(dst[at:at+x1-x0], dst[at:], src[x0:x1])
						continue
					}
					for i := x0; i < x1; i++ {
						dst[at] += src[i]
						at += d.Stride[1]
					}
				}
			}
		}
	}
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
	cg, og, k, p := d.sizes()
	t.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		cols, done := scratch(k * p)
		defer done()
		for n := lo; n < hi; n++ {
			for g := range d.Groups {
				unfold(d, cols, x[(n*d.C+g*cg)*d.H*d.W:], cg)
				out := y[(n*d.O+g*og)*p:]
				Gemm(1, og, p, k, RowMajor(w[g*og*k:], k), RowMajor(cols, p), RowMajor(out, p), false)
				for o := 0; o < og && bias != nil; o++ {
					row := out[o*p:][:p]
					b := bias[g*og+o]
					for i := range row {
						row[i] += b
					}
				}
			}
		}
	})
}

// GradInput computes the gradient of the input from g, that of the output.
func GradInput[T Float](t Threads, d *Conv, scratch Scratch[T], dx, g, w []T) {
	cg, og, k, p := d.sizes()
	t.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		cols, done := scratch(k * p)
		defer done()
		for n := lo; n < hi; n++ {
			for gr := range d.Groups {
				Gemm(1, k, p, og, Transposed(w[gr*og*k:], k), RowMajor(g[(n*d.O+gr*og)*p:], p), RowMajor(cols, p), false)
				fold(d, dx[(n*d.C+gr*cg)*d.H*d.W:], cols, cg)
			}
		}
	})
}

// images is how many images share a partial sum of the weights' gradient.
const images = 8

// GradWeight computes the gradient of the weights: a chain over the output
// positions of 8 images, then the chains' results pairwise.
func GradWeight[T Float](t Threads, d *Conv, scratch Scratch[T], dw, g, x []T) {
	cg, og, k, p := d.sizes()
	size := d.O * k
	parts := (d.N + images - 1) / images
	if parts == 0 {
		clear(dw)
		return
	}
	sums, done := scratch(parts * size)
	defer done()
	t.For(parts, images*d.imageCost(), 1, func(lo, hi int) {
		cols, done := scratch(k * p)
		defer done()
		for b := lo; b < hi; b++ {
			for n := b * images; n < min((b+1)*images, d.N); n++ {
				for gr := range d.Groups {
					unfold(d, cols, x[(n*d.C+gr*cg)*d.H*d.W:], cg)
					up, sum := RowMajor(g[(n*d.O+gr*og)*p:], p), RowMajor(sums[b*size+gr*og*k:], k)
					Gemm(1, og, k, p, up, Transposed(cols, p), sum, n > b*images)
				}
			}
		}
	})
	foldRows(dw, sums)
}
