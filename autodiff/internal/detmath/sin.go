package detmath

import (
	"math"
	"math/bits"
)

// Sin returns the sine of x radians.
func Sin(x float64) float64 {
	if x-x != 0 { // an infinity or none
		return math.NaN()
	}
	quarter, r, rest := quarters(math.Abs(x))
	return math.Copysign(1, x) * sinAt(quarter, r, rest)
}

// Cos returns the cosine of x radians.
func Cos(x float64) float64 {
	if x-x != 0 {
		return math.NaN()
	}
	quarter, r, rest := quarters(math.Abs(x))
	return sinAt(quarter+1, r, rest)
}

// sinTaylor and cosTaylor are, in powers of r*r, sin(r) - r divided by r^3 and cos(r) - (1 - r*r/2) by r^4.
var sinTaylor, cosTaylor = func() (sin, cos []float64) {
	for i, c := range factorials(17)[1:] {
		if sign := 1 - float64(i&2); i%2 == 0 {
			sin = append(sin, -sign*c)
		} else {
			cos = append(cos, sign*c)
		}
	}
	return sin, cos
}()

// sinAt returns the sine of some quarters of a turn and r + rest, |r| being at most about pi/4.
func sinAt(quarter uint64, r, rest float64) float64 {
	square := float64(r * r)
	half := float64(0.5 * square)
	var s float64
	if quarter%2 == 0 {
		s = r + (float64(rest*(1-half)) + float64(float64(r*square)*horner(square, sinTaylor)))
	} else {
		s = 1 - half
		s += ((1 - s) - half) + (float64(float64(square*square)*horner(square, cosTaylor)) - float64(r*rest))
	}
	return math.Float64frombits(math.Float64bits(s) ^ quarter>>1<<63) // two quarters turn the sign
}

// quarters returns x, from 0, as a number of quarters of a turn, modulo 4, and r + rest of at most about pi/4.
func quarters(x float64) (quarter uint64, r, rest float64) {
	if x <= math.Pi/4 {
		return 0, x, 0
	}
	if x < 1e5 { // products of fewer than 2^16 quarters with the first part are exact
		k := float64(float64(x*(2/math.Pi))+rounder) - rounder
		hi, lo := x-float64(k*quarterHi), float64(k*quarterLo)
		if r = hi - lo; math.Abs(r) > 0x1p-12 { // else too few bits are left
			return uint64(k), r, (hi - r) - lo
		}
	}
	return exactQuarters(x)
}

// A quarter of a turn in two parts: the first has 18 zero bits at its end.
const (
	quarterHi = 0x1.921fb5444p0
	quarterLo = math.Pi/2 - quarterHi
)

// exactQuarters is quarters of any x above pi/4. It multiplies whole numbers: x's bits with those 192 of 1/(2*pi)
// that make less than a turn.
func exactQuarters(x float64) (quarter uint64, r, rest float64) {
	const fraction = 52
	b := math.Float64bits(x)
	whole := b&(1<<fraction-1) | 1<<fraction
	at := uint(b>>fraction) - (1023 + fraction - 61) // of the first bit: x is whole * 2^(at-61)
	word, shift := at/64, at%64
	var w [3]uint64
	for i := range w {
		w[i] = turns[word+uint(i)]<<shift | turns[word+uint(i)+1]>>(64-shift)
	}
	carried, _ := bits.Mul64(w[2], whole)
	hi, lo := bits.Mul64(w[1], whole)
	lo, carry := bits.Add64(lo, carried, 0)
	hi += w[0]*whole + carry // what is left of x is hi * 2^-64 + lo * 2^-128 turns

	quarter = (hi + 1<<61) >> 62 // the nearest
	hi -= quarter << 62
	below := uint64(int64(hi) >> 63) // all ones, if x is below the nearest: a branch would go either way
	hi, lo = hi^below, lo^below
	zeros := uint64(bits.LeadingZeros64(hi))
	radians, _ := bits.Mul64(hi<<zeros|lo>>(64-zeros), twoPi) // times 2^(61 + zeros)
	scale := math.Float64frombits(below<<63 | (1023-61-zeros)<<fraction)
	const low = 1<<11 - 1 // more than r can hold
	return quarter, float64(int64(radians&^low>>1)) * (2 * scale), float64(int64(radians&low)) * scale
}

// twoPi is 2*pi * 2^61, and turns are the words of 8/(2*pi), of which the first is the whole part.
const twoPi = 0xc90fdaa22168c235

var turns = [20]uint64{
	0x0000000000000001, 0x45f306dc9c882a53, 0xf84eafa3ea69bb81, 0xb6c52b3278872083, 0xfca2c757bd778ac3,
	0x6e48dc74849ba5c0, 0x0c925dd413a32439, 0xfc3bd63962534e7d, 0xd1046bea5d768909, 0xd338e04d68befc82,
	0x7323ac7306a673e9, 0x3908bf177bf25076, 0x3ff12fffbc0b301f, 0xde5e2316b414da3e, 0xda6cfd9e4f96136e,
	0x9e8c7ecd3cbfd45a, 0xea4f758fd7cbe2f6, 0x7a0e73ef14a525d4, 0xd7f6bf623f1aba10, 0xac06608df8f6d757,
}
