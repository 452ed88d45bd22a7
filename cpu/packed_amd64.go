package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

var packingRows = []Row[Packing]{{"avx2", AVX2, always(Packing{unpackByKernel, packByKernel, unpackRowsByKernel, packRowsByKernel})}}

// packedStep is what the number of codes of the packing kernels is a multiple of, packedVector how many codes a vector of
// the kernels of rows has.
const packedStep, packedVector = 32, 16

// unpackByKernel is unpack; codes that begin or end within a byte, and those
// that do not follow each other, are left to the definition.
func unpackByKernel(codes []int8, base unsafe.Pointer, number, stride int64, d tensor.DType) {
	head := min(int(number&1), len(codes))
	whole := (len(codes) - head) / packedStep * packedStep
	if stride != 1 || whole == 0 {
		unpack(codes, base, number, stride, d)
		return
	}
	unpack(codes[:head], base, number, 1, d)
	run := unpackU4
	if d == tensor.S4 {
		run = unpackS4
	}
	run(&codes[head], (*byte)(unsafe.Add(base, (number+int64(head))>>1)), whole)
	unpack(codes[head+whole:], base, number+int64(head+whole), 1, d)
}

// packByKernel is pack, likewise.
func packByKernel(base unsafe.Pointer, number, stride int64, codes []int8) {
	head := min(int(number&1), len(codes))
	whole := (len(codes) - head) / packedStep * packedStep
	if stride != 1 || whole == 0 {
		pack(base, number, stride, codes)
		return
	}
	pack(base, number, 1, codes[:head])
	pack4((*byte)(unsafe.Add(base, (number+int64(head))>>1)), &codes[head], whole)
	pack(base, number+int64(head+whole), 1, codes[head+whole:])
}

var unpackEachByKernel, packEachByKernel = unpackEach(unpackByKernel), packEach(packByKernel)

// nibbles are what halves of bytes mean.
var nibbles = map[tensor.DType]*[packedVector]byte{
	tensor.U4: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	tensor.S4: {0, 1, 2, 3, 4, 5, 6, 7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff},
}

// rowTurns is how the kernels of rows take codes: each turn has some rows or, of long ones, one in some vectors.
type rowTurns struct{ count, rows, vectors, codes, bytes int }

// turnsOf returns how they take rows of n codes. Their last vectors end within the codes.
func turnsOf(codes, n int) (t rowTurns) {
	width := int(rowWidth(n))
	t.rows, t.vectors = max(1, packedVector/width), (n+packedVector-1)/packedVector
	t.codes, t.bytes = t.rows*n, t.rows*width/2
	if left := codes - t.vectors*packedVector; left >= 0 {
		t.count = left/t.codes + 1
	}
	return t
}

// unpackRowsByKernel is unpackRows.
func unpackRowsByKernel(codes []int8, packed unsafe.Pointer, n int, d tensor.DType) {
	t := turnsOf(len(codes), n)
	switch {
	case n%2 == 0:
		unpackByKernel(codes, packed, 0, 1, d)
		return
	case t.count == 0:
		unpackEachByKernel(codes, packed, n, d)
		return
	}
	order := [packedVector]byte{}
	for i := range order {
		if order[i] = byte(i); t.vectors == 1 {
			order[i] = byte(i + i/n) // those behind the last row are not kept
		}
	}
	unpackRowsAVX2((*byte)(unsafe.Pointer(&codes[0])), (*byte)(packed), t.count, t.vectors-1, t.codes, t.bytes, &order, nibbles[d])
	unpackEachByKernel(codes[t.count*t.codes:], unsafe.Add(packed, t.count*t.bytes), n, d)
}

// packRowsByKernel is packRows.
func packRowsByKernel(packed unsafe.Pointer, codes []int8, n int) {
	t := turnsOf(len(codes), n)
	switch {
	case n%2 == 0:
		packByKernel(packed, 0, 1, codes)
		return
	case t.count == 0:
		packEachByKernel(packed, codes, n)
		return
	}
	const none = 1 << 7
	order, last := [packedVector]byte{}, n-(t.vectors-1)*packedVector // codes of a row's last vector
	for i := range order {
		if order[i] = byte(i - i/(last+1)); i%(last+1) == last {
			order[i] = none
		}
	}
	packRowsAVX2((*byte)(packed), (*byte)(unsafe.Pointer(&codes[0])), t.count, t.vectors-1, t.bytes, t.codes, &order)
	packEachByKernel(unsafe.Add(packed, t.count*t.bytes), codes[t.count*t.codes:], n)
}
