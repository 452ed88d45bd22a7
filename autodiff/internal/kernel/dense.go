package kernel

import "math"

// Convolutions of f32 of several channels, or with strides, of framed planes: products whose right
// factor is the planes themselves, in place of columns. Results are computed along whole lines of
// the frame, also those between the end of a line and the next, which nobody wants.

// convolvePanel is how many results are computed at a time, at most.
const convolvePanel = 32

// convolveAs says what a product does with what its result holds.
type convolveAs int

const (
	moreOf convolveAs = 1 << iota // chains go on from it
	addTo                         // they are added to it
)

// grid lays planes out in frames of zeros, in as many parts as a line and a column leave remainders when they are
// divided by the strides, so that what one tap takes lies side by side.
type grid struct {
	stride     [2]int
	before     [2]int // zeros above and to the left
	first      [2]int // the line and the column that parts begin with: those before are not kept
	part, line int    // the sizes of a part and of a line
}

// size is that of all parts.
func (g *grid) size() int { return g.stride[0] * g.stride[1] * g.part }

// at is where an element of a plane lies.
func (g *grid) at(y, x int) int {
	y, x = y+g.before[0], x+g.before[1]
	return (y%g.stride[0]*g.stride[1]+x%g.stride[1])*g.part + (y/g.stride[0]-g.first[0])*g.line + x/g.stride[1] - g.first[1]
}

// lines calls do for the elements of a plane that lie beside each other in a frame: n of them, which lie a stride
// apart in the plane.
func (g *grid) lines(height, width int, do func(frame, plane, n int)) {
	step := g.stride[1]
	for x := range min(step, width) {
		frame, part := g.at(0, x), g.before[0]%g.stride[0]
		for y := range height {
			do(frame, y*width+x, (width-x+step-1)/step)
			if part++; part < g.stride[0] {
				frame += step * g.part
				continue
			}
			frame += g.line - (part-1)*step*g.part
			part = 0
		}
	}
}

// lay copies a plane into its frame.
func lay[T Float](g *grid, frame, x []T, height, width int) {
	g.lines(height, width, func(at, from, n int) { column(frame[at:][:n], x[from:], g.stride[1]) })
}

// lift copies it out.
func lift[T Float](g *grid, x, frame []T, height, width int) {
	step := g.stride[1]
	g.lines(height, width, func(at, to, n int) {
		if step == 1 {
			copy(x[to:][:n], frame[at:])
			return
		}
		x := x[to:][:(n-1)*step+1]
		for i, v := range frame[at:][:n] {
			x[i*step] = v
		}
	})
}

// dense is such a convolution: each group has so many planes, and makes so many, of some lines and columns.
type dense[T Float] struct {
	*Conv
	inputs, outputs int
	in, out         grid
	from, to        [2]int // the sizes of planes
}

// forwardDense takes the taps of a result from the parts that they lie in.
func forwardDense[T Float](d *Conv) (dense[T], bool) {
	cg, og, _, _ := d.sizes()
	f := dense[T]{Conv: d, inputs: cg, outputs: og, from: [2]int{d.H, d.W}, to: [2]int{d.OH, d.OW}}
	f.in = grid{stride: d.Stride, before: d.Pad, line: (d.W+2*d.Pad[1]-1)/d.Stride[1] + 1}
	f.in.part = ((d.H+2*d.Pad[0]-1)/d.Stride[0] + 1) * f.in.line
	f.out = grid{stride: [2]int{1, 1}, line: f.in.line}
	f.out.part = inPanels((d.OH-1)*f.out.line + d.OW)
	return f, f.fits()
}

// gradientDense computes each part of the input's gradient from the taps that lie in it.
func gradientDense[T Float](d *Conv, w []T) (dense[T], bool) {
	cg, og, _, _ := d.sizes()
	f := dense[T]{Conv: d, inputs: og, outputs: cg, from: [2]int{d.OH, d.OW}, to: [2]int{d.H, d.W}}
	f.in.stride, f.out.stride, f.out.before = [2]int{1, 1}, d.Stride, d.Pad
	var frame, part [2]int // their sizes
	for i, k := range [2]int{d.KH, d.KW} {
		f.out.first[i] = d.Pad[i] / d.Stride[i]
		f.in.before[i] = max(0, (k-1)*d.Dilation[i]/d.Stride[i]-f.out.first[i])
		part[i] = (f.to[i]-1+d.Pad[i])/d.Stride[i] - f.out.first[i] + 1
		frame[i] = f.in.before[i] + max(f.from[i], part[i]+f.out.first[i])
	}
	f.in.line, f.out.line = frame[1], frame[1]
	f.in.part, f.out.part = frame[0]*frame[1], inPanels((part[0]-1)*frame[1]+part[1])
	return f, f.fits() && finite(w)
}

// fits reports whether there is assembly for it, frames are not much larger than planes, and it is faster than columns
// are: those of few channels lie in the first cache, unless strides make them slow.
func (d *dense[T]) fits() bool {
	cg, _, k, _ := d.sizes()
	least, deepest, most := 4, 1152, 5 // most is in quarters
	if d.Stride != [2]int{1, 1} {
		least, deepest, most = 1, 4608, 8
	}
	return hasAVX2() && isFloat32[T]() && d.hasElements() && k > cg && cg >= least && d.inputs*d.KH*d.KW <= deepest &&
		max(d.Stride[0], d.Stride[1]) <= 4 && d.in.size() <= 8*d.to[0]*d.to[1] && d.out.size() <= most*d.to[0]*d.to[1]/4 &&
		d.inputs*d.in.size() <= math.MaxInt32
}

// inPanels is how many elements whole panels have, n of them at least.
func inPanels(n int) int { return (n + convolvePanel - 1) / convolvePanel * convolvePanel }

// forward computes the convolution, and adds the bias where there is one.
func (d dense[T]) forward(threads Threads, _ *Conv, scratch Scratch[T], y, x, w, bias []T) {
	_, og, k, _ := d.sizes()
	memory, done := scratch(k)
	defer done()
	at := slice[int32](memory)[:0]
	for c := range d.inputs {
		for kh := range d.KH {
			for kw := range d.KW {
				at = append(at, int32(c*d.in.size()+d.in.at(kh*d.Dilation[0]-d.Pad[0], kw*d.Dilation[1]-d.Pad[1])))
			}
		}
	}
	panel := fastPanel()
	d.groups(threads, scratch, y, x, func(sums, frames []T, group int) {
		for j := 0; j < d.out.part; j += panel {
			fastConvolve(panel, RowMajor(w[group*og*k:], k), og, frames[j:], at, RowMajor(sums[j:], d.out.size()), 0)
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
		at[o] = int32(o * d.in.size())
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
		for tap := range taps {
			y, x := tap/d.KW*d.Dilation[0], tap%d.KW*d.Dilation[1]
			from := d.in.at(d.out.first[0]-y/d.Stride[0], d.out.first[1]-x/d.Stride[1])
			to := (y%d.Stride[0]*d.Stride[1] + x%d.Stride[1]) * d.out.part
			for j := 0; j < d.out.part; j += panel {
				fastConvolve(panel, RowMajor(permuted[(group*taps+tap)*size:], og), cg, frames[from+j:], at, RowMajor(sums[to+j:], d.out.size()), addTo)
			}
		}
	})
}

// groups calls compute for every group of every image, with its planes in their frames and rows of
// results, which it copies to y.
func (d *dense[T]) groups(threads Threads, scratch Scratch[T], y, x []T, compute func(sums, frames []T, group int)) {
	row, frame, size, result := d.out.size(), d.in.size(), d.from[0]*d.from[1], d.to[0]*d.to[1]
	threads.For(d.N, d.imageCost(), 1, func(lo, hi int) {
		sums, doneSums := scratch(d.outputs * row)
		defer doneSums()
		frames, doneFrames := scratch(d.inputs*frame + convolvePanel)
		defer doneFrames()
		clear(frames)
		for i := lo * d.Groups; i < hi*d.Groups; i++ {
			for c := range d.inputs {
				lay(&d.in, frames[c*frame:], x[(i*d.inputs+c)*size:], d.from[0], d.from[1])
			}
			compute(sums, frames, i%d.Groups)
			for c := range d.outputs {
				lift(&d.out, y[(i*d.outputs+c)*result:], sums[c*row:], d.to[0], d.to[1])
			}
		}
	})
}
