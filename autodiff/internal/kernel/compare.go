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
	return comparing(assembled{loop: equalOf}, func(x, y T) bool { return x == y })
}

// NotEqual is x != y.
func NotEqual[T Number]() Binary[T, uint8] {
	return comparing(assembled{loop: equalOf, not: true}, func(x, y T) bool { return x != y })
}

// Less is x < y.
func Less[T Number]() Binary[T, uint8] {
	return comparing(assembled{loop: lessOf}, func(x, y T) bool { return x < y })
}

// LessEqual is x <= y.
func LessEqual[T Number]() Binary[T, uint8] {
	return comparing(assembled{loop: lessEqualOf}, func(x, y T) bool { return x <= y })
}

// Greater is x > y.
func Greater[T Number]() Binary[T, uint8] {
	return comparing(assembled{loop: lessOf, swapped: true}, func(x, y T) bool { return x > y })
}

// GreaterEqual is x >= y.
func GreaterEqual[T Number]() Binary[T, uint8] {
	return comparing(assembled{loop: lessEqualOf, swapped: true}, func(x, y T) bool { return x >= y })
}

// assembled is a comparison by a loop whose result is turned, or whose operands change places.
type assembled struct {
	loop         comparison
	not, swapped bool
}

// comparing takes the assembly for a comparison, and its definition.
func comparing[T Number](by assembled, holds func(x, y T) bool) Binary[T, uint8] {
	b := Of(func(x, y T) uint8 { return Truth(holds(x, y)) })
	b.fast = func(z []uint8, x, y []T) int {
		if by.swapped {
			x, y = y, x
		}
		return fastCompare(by.loop, kindOf[T](), by.not, z, x, y)
	}
	return b
}
