package kernel

import "encoding/binary"

// Operations on truth values: bytes of 1 and 0.

// Truth is 1 for true.
func Truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// And is 1 where x and y are.
func And() Binary[uint8, uint8] { return logic(func(x, y uint64) uint64 { return x & y }) }

// Or is 1 where x or y is.
func Or() Binary[uint8, uint8] { return logic(func(x, y uint64) uint64 { return x | y }) }

// Xor is 1 where one of x and y is.
func Xor() Binary[uint8, uint8] { return logic(func(x, y uint64) uint64 { return x ^ y }) }

// logic takes an operation on bits, and takes eight bytes at a time.
func logic(f func(x, y uint64) uint64) Binary[uint8, uint8] {
	b := Of(func(x, y uint8) uint8 { return uint8(f(uint64(x), uint64(y))) })
	b.fast = func(z, x, y []uint8) int {
		const bytes = 0x0101010101010101
		word := binary.LittleEndian
		n := len(z) &^ 7
		switch {
		case n == 0:
		case len(x) < n:
			number := bytes * uint64(x[0])
			for i := 0; i < n; i += 8 {
				word.PutUint64(z[i:], f(number, word.Uint64(y[i:])))
			}
		case len(y) < n:
			number := bytes * uint64(y[0])
			for i := 0; i < n; i += 8 {
				word.PutUint64(z[i:], f(word.Uint64(x[i:]), number))
			}
		default:
			for i := 0; i < n; i += 8 {
				word.PutUint64(z[i:], f(word.Uint64(x[i:]), word.Uint64(y[i:])))
			}
		}
		return n
	}
	return b
}
