package kernel

import "math"

// Convolutions of f32 of several channels, of framed planes: products whose right factor is the planes
// themselves, in place of columns. Results are computed along whole lines of the frame, also those
// between the end of a line and the next, which nobody wants.

// convolvePanel is how many results are computed at a time, at most.
const convolvePanel = 32

// convolveAs says what a product does with what its result holds.
type convolveAs int

const (
	moreOf convolveAs = 1 << iota // chains go on from it
	addTo                         // they are added to it
)

// dense is such a convolution: each group has so many planes, and makes so many.
type dense[T Float] struct {
	*Conv
	taps[T]
	inputs, outputs int
	lines, elements int // of a plane
}

func forwardDense[T Float](d *Conv) (dense[T], bool) {
	cg, og, _, _ := d.sizes()
	f := dense[T]{d, forwardFrame[T](d), cg, og, d.H, d.W}
	return f, f.fits()
}

func gradientDense[T Float](d *Conv, w []T) (dense[T], bool) {
	cg, og, _, _ := d.sizes()
	f := dense[T]{d, gradientFrame[T](d), og, cg, d.OH, d.OW}
	return f, f.fits() && finite(w)
}

// fits reports whether it is faster than columns are: those of few channels lie in the first cache.
func (d *dense[T]) fits() bool {
	cg, _, k, _ := d.sizes()
	return d.framed(d.Conv) && k > cg && cg >= 4 && d.inputs*d.KH*d.KW <= 1152 && 4*d.row() <= 5*d.height*d.width &&
		d.inputs*d.frame() <= math.MaxInt32
}

// row is how many results of a plane are computed.
func (d *dense[T]) row() int { return roundUp((d.height-1)*d.line+d.width, convolvePanel) }

// frame is the size of a framed plane.
func (d *dense[T]) frame() int { return (d.lines + 2*d.top) * d.line }

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// forward computes the convolution, and adds the bias where there is one.
func (d dense[T]) forward(threads Threads, _ *Conv, scratch Scratch[T], y, x, w, bias []T) {
	_, og, k, _ := d.sizes()
	memory, done := scratch(k)
	defer done()
	at := slice[int32](memory)[:0]
	for c := range d.inputs {
		for kh := range d.KH {
			for kw := range d.KW {
				at = append(at, int32(c*d.frame()+kh*d.down+kw*d.across))
			}
		}
	}
	panel := fastPanel()
	d.groups(threads, scratch, y, x, func(sums, frames []T, group int) {
		for j := 0; j < d.row(); j += panel {
			fastConvolve(panel, w[group*og*k:], k, og, frames[j:], at, sums[j:], d.row(), 0)
		}
	})
	for i := 0; i < d.N*d.O && bias != nil; i++ {
		row := y[i*d.OH*d.OW:][:d.OH*d.OW]
		addVS(row, row, bias[i%d.O])
	}
}

// gradInput computes the input's gradient, which adds chains over the output's channels.
func (d dense[T]) gradInput(threads Threads, _ *Conv, scratch Scratch[T], dx, g, w []T) {
	cg, og, _, _ := d.sizes()
	memory, done := scratch(og)
	defer done()
	at := slice[int32](memory)
	for o := range at {
		at[o] = int32(o * d.frame())
	}
	taps, size := d.KH*d.KW, cg*og
	permuted, donePermuted := scratch(d.Groups * taps * size) // [group, tap, input, output channel]
	defer donePermuted()
	for o := range d.O {
		for c := range cg {
			row := permuted[o/og*taps*size+c*og+o%og:]
			for tap, v := range w[(o*cg+c)*taps:][:taps] {
				row[tap*size] = v
			}
		}
	}
	panel := fastPanel()
	d.groups(threads, scratch, dx, g, func(sums, frames []T, group int) {
		clear(sums)
		for j := 0; j < d.row(); j += panel {
			for tap := range taps {
				from := d.first + tap/d.KW*d.down + tap%d.KW*d.across + j
				fastConvolve(panel, permuted[(group*taps+tap)*size:], og, cg, frames[from:], at, sums[j:], d.row(), addTo)
			}
		}
	})
}

// groups calls compute for every group of every image, with its planes in their frames and rows of
// results, which it copies to y.
func (d *dense[T]) groups(threads Threads, scratch Scratch[T], y, x []T, compute func(sums, frames []T, group int)) {
	row, frame := d.row(), d.frame()
	threads.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		sums, doneSums := scratch(d.outputs * row)
		defer doneSums()
		frames, doneFrames := scratch(d.inputs*frame + convolvePanel)
		defer doneFrames()
		clear(frames)
		for i := lo * d.Groups; i < hi*d.Groups; i++ {
			for c := range d.inputs {
				d.fill(frames[c*frame:], x[(i*d.inputs+c)*d.lines*d.elements:], d.lines, d.elements)
			}
			compute(sums, frames, i%d.Groups)
			for c := range d.outputs {
				for line := range d.height {
					copy(y[((i*d.outputs+c)*d.height+line)*d.width:][:d.width], sums[c*row+line*d.line:])
				}
			}
		}
	})
}
