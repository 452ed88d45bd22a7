package cpu

import "unsafe"

// everySecondKernels copy every second element, multiples of 32 bytes, by the size of elements.
var everySecondKernels = [...]func(to, from *byte, size int){
	1: everySecond8AVX2, 2: everySecond16AVX2, 4: everySecond32AVX2, 8: everySecond64AVX2,
}

// The kernels read what follows an element, too: they do not get the last one, behind which memory may end.
var stridedCopyRows = []Row[StridedCopy]{{"avx2", AVX2, func(t Types) (StridedCopy, bool) {
	size := t.In[0].Size()
	kernel := everySecondKernels[size]
	rest, ok := pickStridedCopy(t)
	return func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep, n int64) {
		if fromStep == 0 && toStep == size && n*size >= 32 {
			repeats[size](to, from, n)
			return
		}
		if fromStep == 2*size && toStep == size && n > 32/size {
			whole := (n - 1) / (32 / size) * (32 / size)
			kernel((*byte)(to), (*byte)(from), int(whole*size))
			to, from, n = unsafe.Add(to, whole*size), unsafe.Add(from, whole*fromStep), n-whole
		}
		rest(to, toStep, from, fromStep, n)
	}, ok
}}}

// repeats store copies of one element, by its size.
var repeats = [...]func(to, from unsafe.Pointer, n int64){1: repeat[uint8], 2: repeat[uint16], 4: repeat[uint32], 8: repeat[uint64]}

func repeat[T uint8 | uint16 | uint32 | uint64](to, from unsafe.Pointer, n int64) {
	word := uint64(*(*T)(from)) * (^uint64(0) / uint64(^T(0)))
	repeatAVX2((*byte)(to), word, int(n)*int(unsafe.Sizeof(T(0))))
}
