package cpu

import (
	"math/bits"
	"unsafe"
)

// The input's gradient where there are few positions for an image. Sums begin where they are
// needed, a tile of pixels at a time, and elsewhere the gradient is cleared; those of a single
// channel, in the type that they are stored in, lie in the gradient itself.

// tilePixels is how many pixels, one after the other, begin at a time.
const tilePixels = squareSide

// fewPixels is the fewest pixels of a band for each tile that may begin, where contributions are few.
const fewPixels = 64

// tapsInRow is how many taps of a position lie side by side.
var tapsInRow = [...]int64{Bilinear: 2, Nearest: 1, Bicubic: 4}

// tilesOf is how many words note which tiles of so many pixels have begun.
func tilesOf(pixels int64) int64 { return (pixels + 64*tilePixels - 1) / (64 * tilePixels) }

// framedPixels is the fewest pixels for each position of an image whose sums lie in the gradient
// although there is a frame for them.
const framedPixels = 32

// startInPlace begins with sums in the image's gradient, where they can lie there; it reports
// whether they do.
func (s *GridScatter[C]) startInPlace(out Image) bool {
	size := int64(unsafe.Sizeof(C(0)))
	framed := s.g.takes(s.g.Size[0]) && size == 4 && s.most/4*framedPixels > s.band.Pixels
	if framed || s.channels != 1 || out.DType.Size() != size || !out.compact(s.g.Size, s.g.Dims) || !takesPixels[C](s.g) {
		return false
	}
	s.pixels, s.inPlace = unsafe.Add(out.P, s.band.First*size), true
	clear(unsafe.Slice((*C)(s.pixels), s.band.Pixels))
	clear(s.count[:s.band.Pixels])
	return true
}

// startTouched begins with no sums, where contributions are few; it reports whether they are.
func (s *GridScatter[C]) startTouched() bool {
	if s.most/tapsInRow[s.g.Mode]*fewPixels > s.band.Pixels || !takesPixels[C](s.g) {
		return false
	}
	s.beginNone()
	return true
}

// beginNone begins with no sums.
func (s *GridScatter[C]) beginNone() {
	s.touched = s.tiles
	clear(s.touched)
}

// touch begins the sums of the tiles that pixels are in; those of one tap after the other lie
// pitch numbers apart.
func (s *GridScatter[C]) touch(pixels *byte, taps, pitch, n int) {
	if s.touched == nil {
		return
	}
	for tap := range taps {
		for _, p := range unsafe.Slice((*int32)(unsafe.Add(unsafe.Pointer(pixels), tap*pitch*4)), n) {
			number := int64(p) / tilePixels
			if p < 0 || s.touched[number/64]>>(number%64)&1 == 1 {
				continue
			}
			s.touched[number/64] |= 1 << (number % 64)
			s.beginTile(number)
		}
	}
}

// beginTile begins the sums of a tile.
func (s *GridScatter[C]) beginTile(number int64) {
	first := number * tilePixels
	n := min(tilePixels, s.band.Pixels-first)
	clear(unsafe.Slice(s.sum(0, first), n*int64(s.pitch)))
	clear(s.count[first:][:n])
}

// storeTouched clears the image's gradient, and stores the sums that have begun by store.
func (s *GridScatter[C]) storeTouched(out Image, store func(s *GridScatter[C])) {
	switch {
	case s.inPlace:
		return
	case s.touched == nil:
		store(s)
		return
	case !out.compact(s.g.Size, s.g.Dims):
		s.eachTile(0, s.beginTile)
		store(s)
		return
	}
	size := out.DType.Size()
	for c := range s.channels {
		clear(unsafe.Slice((*byte)(unsafe.Add(out.Channel(int64(c)), s.band.First*size)), s.band.Pixels*size))
	}
	whole, sums := s.band, s.pixels
	direct := s.channels <= maxQuad && size == int64(unsafe.Sizeof(C(0))) // and so of C
	s.eachTile(1, func(number int64) {
		first := number * tilePixels
		if direct {
			s.storeTile(out, first)
			return
		}
		s.band, s.pixels = GridBand{whole.First + first, min(tilePixels, whole.Pixels-first)}, unsafe.Pointer(s.sum(0, first))
		store(s)
		s.band, s.pixels = whole, sums
	})
}

// eachTile calls f for the tiles that have begun (1), or for the others (0).
func (s *GridScatter[C]) eachTile(begun uint64, f func(number int64)) {
	for i, word := range s.touched {
		for rest := word ^ (begun - 1); rest != 0; rest &= rest - 1 {
			if number := int64(i*64 + bits.TrailingZeros64(rest)); number*tilePixels < s.band.Pixels {
				f(number)
			}
		}
	}
}

// storeTile stores the sums of a tile of few channels, in the type that they have.
func (s *GridScatter[C]) storeTile(out Image, first int64) {
	n := min(tilePixels, s.band.Pixels-first)
	sums := unsafe.Slice(s.sum(0, first), n*int64(s.pitch))
	for c := range s.channels {
		to := unsafe.Slice((*C)(out.Channel(int64(c))), s.band.First+first+n)[s.band.First+first:]
		for i := range to {
			to[i] = sums[i*s.pitch+c]
		}
	}
}
