package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

var expandRows = []Row[Expand]{
	{"avx2", AVX2, func(t Types) (Expand, bool) {
		return func(dst, src unsafe.Pointer, count, run int) {
			expandAVX2((*float32)(dst), (*float32)(src), count, run)
		}, t.Compute == tensor.F32
	}},
}

// StoreFence orders stores around the caches before those that come after.
func StoreFence() { storeFence() }
