package cpu

import "unsafe"

// Images of a batch with few positions each: a block has those of several, so that kernels take
// many at a time. Places go on from image to image, as if all were one.

// Joined says which images a block's positions are of.
type Joined struct {
	Images, Each              int   // how many images, and positions of each; no images: all are of one
	Input, GradOutput, Output int64 // bytes from one image to the next
}

// continuePlaces has places, a plane for each tap, go on from image to image; a negative one is of no pixel.
// Behind the whole vectors are those of the last positions, or of none: see locateBlock.
func (b *GridBlock) continuePlaces(places *byte, taps, lanes int, repeats bool) {
	j := &b.Joined
	if j.Images == 0 {
		return
	}
	rest, step := b.N%lanes, int32(j.Input/b.Input.DType.Size())
	whole := b.N - rest
	if !repeats {
		rest, whole = 0, b.N
	}
	for tap := range taps {
		plane := (*[cellPitch]int32)(unsafe.Add(unsafe.Pointer(places), tap*cellPitch*4))
		for image := 1; image < j.Images; image++ {
			shiftPlaces(plane[min(image*j.Each, whole):min((image+1)*j.Each, whole)], int32(image)*step)
		}
		for i := range min(rest, 1) * lanes {
			shiftPlaces(plane[whole+i:][:1], int32((b.N-lanes+i)/j.Each)*step)
		}
	}
}

func shiftPlaces(places []int32, by int32) {
	for i, p := range places {
		if p >= 0 {
			places[i] = p + by
		}
	}
}

// eachImage calls f with the positions of one image after the other.
func (b *GridBlock) eachImage(f func(b *GridBlock)) {
	all := *b
	b.N, b.Joined = all.Joined.Each, Joined{}
	for image := range int64(all.Joined.Images) {
		b.Input.P = unsafe.Add(all.Input.P, image*all.Joined.Input)
		b.GradOutput.P = unsafe.Add(all.GradOutput.P, image*all.Joined.GradOutput)
		b.Output.P = unsafe.Add(all.Output.P, image*all.Joined.Output)
		for axis := range b.Dims {
			b.Coords[axis] = all.Coords[axis].At(image * int64(b.N))
		}
		f(b)
	}
	*b = all
}

// apart reports whether the parts of a row that belong to images do not follow one another.
func (b *GridBlock) apart(rows *Rows, next int64) bool {
	return b.Joined.Images > 0 && next != int64(b.Joined.Each)*rows.Stride
}

// copyParts copies a row, whose part of an image lies so many bytes after that of the one before.
func (b *GridBlock) copyParts(to Span, toNext int64, from Span, fromNext int64) {
	if b.Joined.Images == 0 {
		CopyRow(to, from, int64(b.N))
		return
	}
	for image := range int64(b.Joined.Images) {
		one, other := to, from
		one.P, other.P = unsafe.Add(to.P, image*toNext), unsafe.Add(from.P, image*fromNext)
		CopyRow(one, other, int64(b.Joined.Each))
	}
}
