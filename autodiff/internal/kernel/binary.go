package kernel

// Binary is an operation on two numbers as three loops: over two rows, a row
// and a number, a number and a row.
type Binary[T, R any] struct {
	VV func(z []R, x, y []T)
	VS func(z []R, x []T, y T)
	SV func(z []R, x T, y []T)
	// fast does so many of the first elements, by assembly; x or y may be a number. nil: none.
	fast func(z []R, x, y []T) int
}

// Run applies the operation, broadcasting x and y to z.
func (b *Binary[T, R]) Run(t Threads, z Array[R], x, y Array[T]) {
	if len(z.Data) == 0 {
		return
	}
	l := NewLoop(z.Shape, x.Shape, y.Shape)
	l.Do(t, 1, func(o, n int, in [3]int) {
		z, x, y := z.Data[o:o+n], x.Data[in[0]:], y.Data[in[1]:]
		if b.fast != nil && l.Step[0]+l.Step[1] > 0 {
			done := b.fast(z, x[:1+l.Step[0]*(n-1)], y[:1+l.Step[1]*(n-1)])
			z, x, y, n = z[done:], x[l.Step[0]*done:], y[l.Step[1]*done:], n-done
		}
		switch {
		case l.Step[0] == 1 && l.Step[1] == 1:
			b.VV(z, x[:n], y[:n])
		case l.Step[1] == 0 && l.Step[0] == 1:
			b.VS(z, x[:n], y[0])
		case l.Step[0] == 0 && l.Step[1] == 1:
			b.SV(z, x[0], y[:n])
		default:
			b.VV(z[:1], x[:1], y[:1])
			for i := range z {
				z[i] = z[0]
			}
		}
	})
}

// Add returns x + y.
func Add[T Number]() Binary[T, T] {
	return Binary[T, T]{VV: addVV[T], VS: addVS[T], SV: func(z []T, x T, y []T) { addVS(z, y, x) }}
}

// Sub returns x - y.
func Sub[T Number]() Binary[T, T] {
	return Binary[T, T]{
		VV: func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := fastVV(subOf, z, x, y); i < len(z); i++ {
				z[i] = x[i] - y[i]
			}
		},
		VS: func(z, x []T, y T) {
			x = x[:len(z)]
			for i := fastVS(subOf, z, x, y); i < len(z); i++ {
				z[i] = x[i] - y
			}
		},
		SV: func(z []T, x T, y []T) {
			y = y[:len(z)]
			for i := fastSV(subOf, z, x, y); i < len(z); i++ {
				z[i] = x - y[i]
			}
		},
	}
}

// Mul returns x * y.
func Mul[T Number]() Binary[T, T] {
	return Binary[T, T]{
		VV: mulVV[T],
		VS: mulVS[T],
		SV: func(z []T, x T, y []T) { mulVS(z, y, x) },
	}
}

// Div returns x / y; whole numbers are cut towards zero, and y has no zeros.
func Div[T Number]() Binary[T, T] {
	return Binary[T, T]{
		VV: func(z, x, y []T) {
			x, y = x[:len(z)], y[:len(z)]
			for i := fastVV(divOf, z, x, y); i < len(z); i++ {
				z[i] = x[i] / y[i]
			}
		},
		VS: divVS[T],
		SV: divSV[T],
	}
}

// Maximum returns the larger of x and y, a NaN if there is one.
func Maximum[T Number]() Binary[T, T] {
	return extreme(maxOf, func(x, y T) T { return max(x, y) })
}

// Minimum returns the smaller one.
func Minimum[T Number]() Binary[T, T] {
	return extreme(minOf, func(x, y T) T { return min(x, y) })
}

// extreme takes the name of an assembly loop, and what it does.
func extreme[T Number](of arithmetic, f func(x, y T) T) Binary[T, T] {
	rest := Of(f)
	vs := func(z, x []T, y T) {
		n := fastVS(of, z, x, y)
		rest.VS(z[n:], x[n:], y)
	}
	return Binary[T, T]{
		VV: func(z, x, y []T) {
			n := fastVV(of, z, x, y)
			rest.VV(z[n:], x[n:], y[n:])
		},
		VS: vs,
		SV: func(z []T, x T, y []T) { vs(z, y, x) },
	}
}

func divVS[T Number](z, x []T, y T) {
	x = x[:len(z)]
	for i := fastVS(divOf, z, x, y); i < len(z); i++ {
		z[i] = x[i] / y
	}
}

func divSV[T Number](z []T, x T, y []T) {
	y = y[:len(z)]
	for i := fastSV(divOf, z, x, y); i < len(z); i++ {
		z[i] = x / y[i]
	}
}

func addVV[T Number](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := fastVV(addOf, z, x, y); i < len(z); i++ {
		z[i] = x[i] + y[i]
	}
}

func addVS[T Number](z, x []T, y T) {
	x = x[:len(z)]
	for i := fastVS(addOf, z, x, y); i < len(z); i++ {
		z[i] = x[i] + y
	}
}

func mulVV[T Number](z, x, y []T) {
	x, y = x[:len(z)], y[:len(z)]
	for i := fastVV(mulOf, z, x, y); i < len(z); i++ {
		z[i] = x[i] * y[i]
	}
}

func mulVS[T Number](z, x []T, y T) {
	x = x[:len(z)]
	for i := fastVS(mulOf, z, x, y); i < len(z); i++ {
		z[i] = x[i] * y
	}
}

// Of makes the three loops of any function, which they call for each number.
func Of[T, R any](f func(x, y T) R) Binary[T, R] {
	return Binary[T, R]{
		VV: func(z []R, x, y []T) {
			for i := range z {
				z[i] = f(x[i], y[i])
			}
		},
		VS: func(z []R, x []T, y T) {
			for i := range z {
				z[i] = f(x[i], y)
			}
		},
		SV: func(z []R, x T, y []T) {
			for i := range z {
				z[i] = f(x, y[i])
			}
		},
	}
}

// Where writes x where c is not 0, else y, broadcasting all three to z.
func Where[T Bits](t Threads, z Array[T], c Array[uint8], x, y Array[T]) {
	if len(z.Data) == 0 {
		return
	}
	l := NewLoop(z.Shape, c.Shape, x.Shape, y.Shape)
	sc, sx, sy := l.Step[0], l.Step[1], l.Step[2]
	l.Do(t, 1, func(o, n int, in [3]int) {
		z, c, x, y := z.Data[o:o+n], c.Data[in[0]:], x.Data[in[1]:], y.Data[in[2]:]
		switch {
		case sc == 1 && sx == 0 && sy == 1:
			fillWhere(z, c, x[0], y)
		case sc == 1 && sx == 1 && sy == 1:
			chooseWhere(z, c, x, y)
		default:
			for i := range z {
				v := y[i*sy]
				if w := x[i*sx]; c[i*sc] != 0 {
					v = w
				}
				z[i] = v
			}
		}
	})
}

// chooseWhere is Where of rows.
func chooseWhere[T Bits](z []T, c []uint8, x, y []T) {
	c, x, y = c[:len(z)], x[:len(z)], y[:len(z)]
	for i := range z {
		v := y[i]
		if w := x[i]; c[i] != 0 {
			v = w
		}
		z[i] = v
	}
}

// fillWhere is Where with a number for x.
func fillWhere[T Bits](z []T, c []uint8, x T, y []T) {
	c, y = c[:len(z)], y[:len(z)]
	for i := range z {
		v := y[i]
		if c[i] != 0 {
			v = x
		}
		z[i] = v
	}
}

// Expand copies x to a larger shape.
func Expand[T Bits](t Threads, z, x Array[T]) {
	if len(z.Data) == 0 {
		return
	}
	l := NewLoop(z.Shape, x.Shape)
	l.Do(t, 1, func(o, n int, in [3]int) {
		z, x := z.Data[o:o+n], x.Data[in[0]:]
		if l.Step[0] == 1 {
			copy(z, x[:n])
			return
		}
		repeat(z, x[0])
	})
}

// repeat writes equal elements: some, and copies of those.
func repeat[T any](z []T, v T) {
	const most = 4096
	if len(z) == 0 {
		return
	}
	z[0] = v
	for n := 1; n < len(z); n += copy(z[n:], z[:min(n, most)]) {
	}
}
