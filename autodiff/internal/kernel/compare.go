package kernel

// truthValues are a kind of their own beside those of kindOf.
const truthValues = 4

// Comparisons write 1 where they hold, else 0.

// comparison names an assembly loop (internal/gen/row_compare.go).
type comparison int

const (
	equalOf comparison = iota
	lessOf
	lessEqualOf
	andOf // of truth values
	orOf
	xorOf
	comparisons
)

// Equal is x == y.
func Equal[T Number]() Binary[T, uint8] {
	return comparing(equalOf, false, false, func(x, y T) bool { return x == y })
}

// NotEqual is x != y.
func NotEqual[T Number]() Binary[T, uint8] {
	return comparing(equalOf, true, false, func(x, y T) bool { return x != y })
}

// Less is x < y.
func Less[T Number]() Binary[T, uint8] {
	return comparing(lessOf, false, false, func(x, y T) bool { return x < y })
}

// LessEqual is x <= y.
func LessEqual[T Number]() Binary[T, uint8] {
	return comparing(lessEqualOf, false, false, func(x, y T) bool { return x <= y })
}

// Greater is x > y.
func Greater[T Number]() Binary[T, uint8] {
	return comparing(lessOf, false, true, func(x, y T) bool { return x > y })
}

// GreaterEqual is x >= y.
func GreaterEqual[T Number]() Binary[T, uint8] {
	return comparing(lessEqualOf, false, true, func(x, y T) bool { return x >= y })
}

// comparing takes a definition and the assembly for it: a loop whose result is turned where not holds,
// and whose operands change places where swapped does.
func comparing[T Number](of comparison, not, swapped bool, holds func(x, y T) bool) Binary[T, uint8] {
	b := Of(func(x, y T) uint8 { return Truth(holds(x, y)) })
	b.fast = func(z []uint8, x, y []T) int {
		if swapped {
			x, y = y, x
		}
		return fastCompare(of, kindOf[T](), not, z, x, y)
	}
	return b
}
