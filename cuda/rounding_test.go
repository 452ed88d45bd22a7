package cuda

import (
	"math"
	"testing"

	"github.com/isobit-ml/isobit/tensor"
)

// TestRounding proves size and pack_usual (kernels/quant_quick.cuh, words.cuh), which round
// by a product and two sums. Powers of two change nothing, so that all significands of the
// exponents around the smallest normal number, and of one above them, stand for the rest.
func TestRounding(t *testing.T) {
	stride := significands()
	for _, f := range []struct {
		code     tensor.DType
		mantissa int
		least    int
		part     float64
	}{{tensor.F8E4M3, 3, -6, 1.0 / 256}, {tensor.F8E5M2, 2, -14, 1}} {
		spread := float32(uint32(1)<<(23-f.mantissa) + 1)
		floor := float32(1.5 * f.part * math.Ldexp(1, f.least+23-f.mantissa))
		for e := f.least - f.mantissa - 3; e <= f.least+3; e++ {
			for m := uint32(0); m < 1<<23; m += stride {
				u := float64(math.Float32frombits(uint32(e+127)<<23 | m))
				part := float32(u * f.part)
				far := max(float32(part*spread), floor)
				got := float64(far-float32(far-part)) / f.part
				if want := tensor.RoundFloat8(f.code, u); got != want {
					t.Fatalf("%v of %g is %g, want %g", f.code, u, got, want)
				}
			}
		}
	}
	for b := uint32(0x3f800000); b < 0x40000000; b += stride {
		v := math.Float32frombits(b)
		far := float32(v * 65537)
		got := far - float32(far-v)
		if want := math.Float32frombits((b + 0x7fff + b>>16&1) & 0xffff0000); got != want {
			t.Fatalf("bf16 of %g is %g, want %g", v, got, want)
		}
	}
}
