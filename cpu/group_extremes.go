package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// groupExtremeKernel is what is generated for extremes of groups of elements of a type, of a least number of them at least.
type groupExtremeKernel struct {
	needs ISA
	dtype tensor.DType
	least int
	run   func(x *byte, n, count int, lo, hi *byte)
}

// fewExtremesKernel takes groups of fewer elements than AVX2's kernels do: keep has all bits of the lanes that these are.
type fewExtremesKernel func(x *byte, n, count int, keep *int32, lo, hi *byte)

var groupExtremeRows, groupExtremeRows64 = fastRows(groupExtremesBy[float32]), fastRows(groupExtremesBy[float64])

// groupExtremesBy returns a row of GroupExtremes.
func groupExtremesBy[C Compute](isa ISA, t Types) (GroupExtremes[C], bool) {
	strided, ok := pickStridedCopy(t)
	for i := range groupExtremeKernels {
		k := &groupExtremeKernels[i]
		if !ok || k.needs != isa || k.dtype != t.In[0] || k.dtype.Compute().Size() != int64(unsafe.Sizeof(C(0))) {
			continue
		}
		return func(s *Scratch, x Span, n int, to [2][]C) {
			switch {
			case !x.Contiguous():
				extremesOfGroups(s, x, n, to)
			case n < k.least:
				extremesOfFew(k, s, x, n, to, strided)
			default:
				k.run((*byte)(x.P), n, len(to[0]), bytesOf(to[0]), bytesOf(to[1]))
			}
		}, true
	}
	return nil, false
}

// mostKept is the most lanes that fewExtremes keep some of.
const mostKept = 8

// keptLanes has all bits of n lanes from lane mostKept - n on.
var keptLanes = [2 * mostKept]int32{-1, -1, -1, -1, -1, -1, -1, -1}

// extremesOfFew takes groups of fewer elements than the kernel takes. Behind the last ones there are not as many as the
// kernel of few reads, so that these are copied, their last element as often as it takes.
func extremesOfFew[C Compute](k *groupExtremeKernel, s *Scratch, x Span, n int, to [2][]C, strided StridedCopy) {
	count, whole := len(to[0]), 0
	if few := fewExtremes[k.dtype]; few != nil {
		if whole = max(0, count-(k.least-1)/n); whole > 0 {
			few((*byte)(x.P), n, whole, &keptLanes[mostKept-n], bytesOf(to[0]), bytesOf(to[1]))
		}
	}
	size, memory, most := x.DType.Size(), s.block(groupBlock), Block/k.least
	for first := whole; first < count; first += most {
		groups := min(most, count-first)
		for i := range k.least {
			strided(unsafe.Add(memory, int64(i)*size), int64(k.least)*size, x.At(int64(first*n+min(i, n-1))).P, int64(n)*size, int64(groups))
		}
		k.run((*byte)(memory), k.least, groups, bytesOf(to[0][first:]), bytesOf(to[1][first:]))
	}
}
