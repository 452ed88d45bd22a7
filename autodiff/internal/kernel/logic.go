package kernel

// Operations on truth values: bytes of 1 and 0.

// Truth is 1 for true.
func Truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// And is 1 where x and y are.
func And() Binary[uint8, uint8] { return logic(andOf, func(x, y uint8) uint8 { return x & y }) }

// Or is 1 where x or y is.
func Or() Binary[uint8, uint8] { return logic(orOf, func(x, y uint8) uint8 { return x | y }) }

// Xor is 1 where one of x and y is.
func Xor() Binary[uint8, uint8] { return logic(xorOf, func(x, y uint8) uint8 { return x ^ y }) }

// logic takes a definition and the assembly for it.
func logic(of comparison, f func(x, y uint8) uint8) Binary[uint8, uint8] {
	b := Of(f)
	b.fast = func(z, x, y []uint8) int { return fastCompare(of, truthValues, false, z, x, y) }
	return b
}
