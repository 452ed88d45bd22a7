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
		if fromStep == 2*size && toStep == size && n > 32/size {
			whole := (n - 1) / (32 / size) * (32 / size)
			kernel((*byte)(to), (*byte)(from), int(whole*size))
			to, from, n = unsafe.Add(to, whole*size), unsafe.Add(from, whole*fromStep), n-whole
		}
		rest(to, toStep, from, fromStep, n)
	}, ok
}}}

// repeatEachKernels copy each of some elements, to at least 32 bytes, by the size of elements.
var repeatEachKernels = [...]func(to, from *byte, step, count, size int){
	1: repeatEach8AVX2, 2: repeatEach16AVX2, 4: repeatEach32AVX2, 8: repeatEach64AVX2,
}

var repeatEachRows = []Row[RepeatEach]{{"avx2", AVX2, func(t Types) (RepeatEach, bool) {
	size := t.In[0].Size()
	kernel := repeatEachKernels[size]
	short, ok := pickRepeatEach(t)
	return func(to, from unsafe.Pointer, fromStep, count, times int64) {
		if times*size < 32 {
			short(to, from, fromStep, count, times)
			return
		}
		kernel((*byte)(to), (*byte)(from), int(fromStep), int(count), int(times*size))
	}, ok
}}}
