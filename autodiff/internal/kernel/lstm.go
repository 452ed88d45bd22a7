package kernel

// The cell of an LSTM. Its gates are rows of four parts of n elements: input, forget, cell and output.

const (
	inputGate = iota
	forgetGate
	cellGate
	outputGate
	gates
)

// cells calls row for each row of n elements, with where it begins; its gates begin four times as far.
func cells(t Threads, elements, n, cost int, row func(at int)) {
	t.For(elements/n, cost*n, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row(r * n)
		}
	})
}

// part is the elements of a gate in the row whose other tensors' elements begin at a place.
func part[T any](x []T, gate, at, n int) []T { return x[gates*at+gate*n:][:n] }

// LSTMGates writes the tanh of the cell's part, and the sigmoid of the others.
func LSTMGates[T Float](t Threads, z, x []T, n int) {
	cells(t, len(z)/gates, n, 32, func(at int) {
		for gate, f := range [gates]func(z, x, _ []T){Sigmoid[T], Sigmoid[T], Tanh[T], Sigmoid[T]} {
			f(part(z, gate, at, n), part(x, gate, at, n), nil)
		}
	})
}

// LSTMGatesGrad writes its gradient, in which there is no -0; y is its result.
func LSTMGatesGrad[T Float](t Threads, z, g, y []T, n int) {
	cells(t, len(z)/gates, n, 8, func(at int) {
		for gate, f := range [gates]func(z, g, y []T){SigmoidGrad[T], SigmoidGrad[T], TanhGrad[T], SigmoidGrad[T]} {
			z := part(z, gate, at, n)
			f(z, part(g, gate, at, n), part(y, gate, at, n))
			addVS(z, z, 0)
		}
	})
}

// LSTMCell writes forget * c + input * cell.
func LSTMCell[T Float](t Threads, z, y, c []T, n int) {
	cells(t, len(z), n, 4, func(at int) {
		z := z[at:][:n]
		mulVV(z, part(y, forgetGate, at, n), c[at:])
		in, cell := part(y, inputGate, at, n), part(y, cellGate, at, n)
		var products [lanes]T
		for len(z) > 0 {
			p := products[:min(len(z), lanes)]
			mulVV(p, in, cell)
			addVV(z[:len(p)], z, p)
			z, in, cell = z[len(p):], in[len(p):], cell[len(p):]
		}
	})
}

// LSTMCellGrad writes the gradients of the gates and of c.
func LSTMCellGrad[T Float](t Threads, dy, dc, g, y, c []T, n int) {
	cells(t, len(g), n, 8, func(at int) {
		g := g[at:][:n]
		mulVV(part(dy, inputGate, at, n), g, part(y, cellGate, at, n))
		mulVV(part(dy, forgetGate, at, n), g, c[at:])
		mulVV(part(dy, cellGate, at, n), g, part(y, inputGate, at, n))
		clear(part(dy, outputGate, at, n))
		mulVV(dc[at:][:n], g, part(y, forgetGate, at, n))
	})
}

// LSTMHidden writes output * tanh(c).
func LSTMHidden[T Float](t Threads, z, y, c []T, n int) {
	cells(t, len(z), n, 8, func(at int) {
		z := z[at:][:n]
		Tanh(z, c[at:at+n], nil)
		mulVV(z, part(y, outputGate, at, n), z)
	})
}

// LSTMHiddenGrad writes the gradients of the gates and of c.
func LSTMHiddenGrad[T Float](t Threads, dy, dc, g, y, c []T, n int) {
	cells(t, len(g), n, 8, func(at int) {
		g, dc, out := g[at:][:n], dc[at:][:n], part(dy, outputGate, at, n)
		clear(dy[gates*at:][:outputGate*n])
		Tanh(out, c[at:at+n], nil)
		mulVV(dc, g, part(y, outputGate, at, n))
		TanhGrad(dc, dc, out)
		mulVV(out, g, out)
	})
}
