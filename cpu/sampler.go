package cpu

import (
	"math"
	"unsafe"
)

// Mode is how grid_sample reads between pixels.
type Mode int

// The interpolation modes.
const (
	Bilinear Mode = iota // trilinear for volumes
	Nearest
	Bicubic // tricubic for volumes
)

// Padding is what grid_sample finds outside the image.
type Padding int

// The padding modes.
const (
	Zeros Padding = iota
	Border
	Reflection
)

// Sampler is the geometry of grid_sample for images (Dims 2) and volumes
// (Dims 3). Axes count from the innermost: 0 is x, 1 is y, 2 is z.
type Sampler struct {
	Dims         int
	Size         [3]int64 // extents of the input along x, y, z
	Mode         Mode
	Padding      Padding
	AlignCorners bool
}

// Most is the most positions of a block: those of tricubic, which have 64 taps,
// take blocks in quarters, so that taps take no more memory than those of others.
func (g *Sampler) Most() int64 {
	if g.Mode == Bicubic && g.Dims == 3 {
		return Block / 4
	}
	return Block
}

// Taps is how many pixels a position reads, or may: 1, 4, 8, 16 or 64.
func (g *Sampler) Taps() int {
	switch g.Mode {
	case Bilinear:
		return 1 << g.Dims
	case Bicubic:
		return 1 << (2 * g.Dims)
	}
	return 1
}

// taps are the pixels that a block of output positions reads. All slices lie
// in a Scratch.
type taps[C Compute] struct {
	Count      int              // taps per position
	Pixel      [maxTaps][]int64 // row-major number of the tap's pixel, or outside
	Weight     [maxTaps][]C
	Fraction   [3][]C                // the distance to the near pixel along an axis; until it is known, and with Nearest, the coordinate
	Complement [3][]C                // Bilinear: the distance to the far pixel
	Derivative [3][]C                // of the padded coordinate; 0 (Bicubic: a NaN) where it has none
	Cubic      [3][3 * cubicTaps][]C // Bicubic: the weights along an axis, their derivatives and, by locateBends, second ones
}

const maxTaps = cubicTaps * cubicTaps * cubicTaps

// part returns n elements, part i of those that blocks from a first one on are
// cut into: blocks of positions of the sampler.
func part[C Compute](s *Scratch, g *Sampler, first, i, n int) []C {
	at := i * int(g.Most())
	return unsafe.Slice((*C)(unsafe.Pointer(&s.blocks[first+at/Block][at%Block])), n)
}

// intPart is part of the integer blocks.
func intPart(s *Scratch, g *Sampler, first, i, n int) []int64 {
	at := i * int(g.Most())
	return s.ints[first+at/Block][at%Block:][:n]
}

// newTaps lays out taps for n positions in scratch.
func newTaps[C Compute](g *Sampler, n int, s *Scratch) taps[C] {
	t := taps[C]{Count: g.Taps()}
	if g.Mode == Bicubic {
		for axis := range g.Dims {
			for i := range 2 * cubicTaps {
				t.Cubic[axis][i] = part[C](s, g, cubicBlocks, axis*2*cubicTaps+i, n)
			}
		}
	}
	for i := range t.Count {
		t.Pixel[i], t.Weight[i] = intPart(s, g, 0, i, n), part[C](s, g, tapWeights, i, n)
	}
	for axis := range g.Dims {
		t.Complement[axis] = BlockOf[C](s, axisBlocks+axis, n)
		t.Fraction[axis] = BlockOf[C](s, axisBlocks+3+axis, n)
		t.Derivative[axis] = BlockOf[C](s, axisBlocks+6+axis, n)
	}
	return t
}

// locate computes the taps of the positions whose coordinates along each axis
// are coords (NUMERICS.md, section 6).
func locate[C Compute](g *Sampler, coords [3]Span, t *taps[C]) {
	for axis := range g.Dims {
		c := t.Fraction[axis]
		Load(c, coords[axis])
		if g.Mode == Bicubic {
			continue
		}
		for i := range c {
			c[i], t.Derivative[axis][i] = coordinate(c[i], g.Size[axis], g.AlignCorners, g.Padding)
		}
	}
	switch g.Mode {
	case Nearest:
		nearestTaps(g, t)
		return
	case Bicubic:
		locateCubic(g, t)
		return
	}
	var base [3]C
	for i := range t.Pixel[0] {
		for axis := range g.Dims {
			x := t.Fraction[axis][i]
			base[axis] = C(math.Floor(float64(x)))
			t.Fraction[axis][i] = x - base[axis]
			t.Complement[axis][i] = (base[axis] + 1) - x
		}
		for tap := range t.Count {
			t.Pixel[tap][i], t.Weight[tap][i] = corner(g, t, base, tap, i)
		}
	}
}

// corner returns the pixel and the weight of one corner of the cell at base;
// bit k of tap says whether it is the near (0) or the far one along axis k.
func corner[C Compute](g *Sampler, t *taps[C], base [3]C, tap, i int) (int64, C) {
	pixel, weight := int64(0), C(1)
	for axis := g.Dims - 1; axis >= 0; axis-- {
		p, ok := wholeBelow(base[axis]+C(tap>>axis&1), g.Size[axis])
		if !ok {
			return outside, 0
		}
		pixel = pixel*g.Size[axis] + p
	}
	for axis := range g.Dims {
		d := t.Complement[axis][i]
		if tap>>axis&1 == 1 {
			d = t.Fraction[axis][i]
		}
		if axis == 0 {
			weight = d
		} else {
			weight *= d
		}
	}
	return pixel, weight
}

// wholeBelow returns the whole number p as an integer if it is in [0, size).
func wholeBelow[C Compute](p C, size int64) (int64, bool) {
	if !(p >= 0 && p < 1<<62) {
		return 0, false
	}
	return int64(p), int64(p) < size
}

func nearestTaps[C Compute](g *Sampler, t *taps[C]) {
	for i := range t.Pixel[0] {
		pixel := int64(0)
		for axis := g.Dims - 1; axis >= 0; axis-- {
			p, ok := wholeBelow(rint(t.Fraction[axis][i]), g.Size[axis])
			if !ok {
				pixel = outside
				break
			}
			pixel = pixel*g.Size[axis] + p
		}
		t.Pixel[0][i], t.Weight[0][i] = pixel, 1
	}
}

// coordinate maps a grid value to a padded pixel coordinate and returns the
// derivative of the latter, 0 where the padding sets it so.
func coordinate[C Compute](grid C, size int64, alignCorners bool, padding Padding) (c, k C) {
	s := C(size)
	if alignCorners {
		c, k = C((grid+1)/2)*(s-1), (s-1)/2
	} else {
		c, k = (C((grid+1)*s)-1)/2, s/2
	}
	return pad(c, k, s, alignCorners, padding)
}

// pad puts a coordinate with a derivative through the rule of the padding.
func pad[C Compute](c, k, size C, alignCorners bool, padding Padding) (C, C) {
	switch padding {
	case Border:
		return border(c, k, size)
	case Reflection:
		low, span := C(-0.5), size
		if alignCorners {
			low, span = 0, size-1
		}
		c, k = reflect(c, k, low, span)
		return border(c, k, size)
	}
	return c, k
}

// border clips a coordinate to [0, size-1].
func border[C Compute](c, k, size C) (C, C) {
	switch {
	case c >= size-1 && size > 1:
		return size - 1, 0
	case c > 0 && size > 1:
		return c, k
	}
	return 0, 0 // at or before pixel 0, a NaN, or a single pixel
}

// reflect folds a coordinate at low and at low+span. A NaN tells border to
// take pixel 0.
func reflect[C Compute](c, k, low, span C) (C, C) {
	a := C(math.Abs(float64(c - low)))
	extra := math.Mod(float64(a), float64(span))
	flips := (float64(a) - extra) / float64(span)
	if !(span > 0) || !(flips < 1<<23) {
		return C(math.NaN()), 0
	}
	odd := int64(flips)&1 == 1
	if odd != (c < low) {
		k = -k
	}
	if odd {
		return C(span-C(extra)) + low, k
	}
	return C(extra) + low, k
}
