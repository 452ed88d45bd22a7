package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/tensor"
)

// halves are the two 16-bit types: how they widen and round.
var halves = []struct {
	dtype tensor.DType
	widen func(bits uint16) float32
	round func(f float32) uint16
}{
	{tensor.F16, func(b uint16) float32 { return tensor.F16Bits(b).Float32() }, func(f float32) uint16 { return uint16(tensor.ToF16(f)) }},
	{tensor.BF16, func(b uint16) float32 { return tensor.BF16Bits(b).Float32() }, func(f float32) uint16 { return uint16(tensor.ToBF16(f)) }},
}

// All patterns widen to their value, and round back to themselves.
func TestHalfWidens(t *testing.T) {
	for _, h := range halves {
		for i := range 1 << 16 {
			bits := uint16(i)
			want, got := testcase.HalfValue(h.dtype, bits), h.widen(bits)
			if want != want {
				require.True(t, got != got, "%s %#x", h.dtype, bits)
				back := h.widen(h.round(got))
				require.True(t, back != back, "%s %#x", h.dtype, bits)
				continue
			}
			if math.Float64bits(want) != math.Float64bits(float64(got)) || h.round(got) != bits {
				t.Fatalf("%s %#x: %v, want %v; back %#x", h.dtype, bits, got, want, h.round(got))
			}
		}
	}
}

// Values between all neighbours round to the nearer, ties to even: the middle,
// the float32 on both sides of it, and others.
func TestHalfRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, h := range halves {
		check := func(f float32) {
			want, got := testcase.NearestHalf(h.dtype, float64(f)), h.round(f)
			if got != want && f == f {
				t.Fatalf("%s of %v (%#x): %#x, want %#x", h.dtype, f, math.Float32bits(f), got, want)
			}
		}
		for i := range 1 << 16 {
			a, b := testcase.HalfValue(h.dtype, uint16(i)), testcase.HalfValue(h.dtype, uint16(i+1))
			if math.IsNaN(a) || math.IsNaN(b) {
				continue
			}
			middle := float32((a + b) / 2)
			if math.IsInf(b, 0) {
				middle = float32(a + (a-testcase.HalfValue(h.dtype, uint16(i-1)))/2)
			}
			for _, f := range []float32{middle, float32(a*0.75 + b*0.25), float32(a)} {
				check(f)
				check(math.Nextafter32(f, float32(math.Inf(1))))
				check(math.Nextafter32(f, float32(math.Inf(-1))))
			}
		}
		for range 1_000_000 {
			check(math.Float32frombits(r.Uint32()))
		}
	}
}

func TestHalfOfNaNIsNaN(t *testing.T) {
	for _, h := range halves {
		for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0xffffffff, 0xff800001, 0x7fffffff, 0x7f80ffff} {
			f := h.widen(h.round(math.Float32frombits(bits)))
			require.True(t, f != f, "%s of NaN %#x", h.dtype, bits)
		}
	}
}
