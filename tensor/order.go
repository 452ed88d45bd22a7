package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Elements lie in the machine's order of bytes; files and digests have the
// little-endian one, which is also that of nearly every machine.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// LittleEndian returns the elements of a compact CPU tensor as bytes in
// little-endian order: the tensor's own memory, or a copy where the machine
// has the other order. It panics where Bytes does.
func LittleEndian(v View) []byte { return littleEndian(Bytes(v), v.DType.Size(), bigEndian) }

// SetLittleEndian fills a compact CPU tensor from bytes in little-endian
// order. It panics where Bytes does, and when there are not as many as the
// tensor has.
func SetLittleEndian(v View, data []byte) {
	to := Bytes(v)
	if len(to) != len(data) {
		panic(fmt.Sprintf("tensor.SetLittleEndian: %s has %d bytes, the data has %d", v, len(to), len(data)))
	}
	copy(to, littleEndian(data, v.DType.Size(), bigEndian))
}

// littleEndian turns elements of a size around, in a copy, where they have to be.
func littleEndian(data []byte, size int64, turn bool) []byte {
	if !turn || size == 1 {
		return data
	}
	data = bytes.Clone(data)
	for element := range slices.Chunk(data, int(size)) {
		slices.Reverse(element)
	}
	return data
}
