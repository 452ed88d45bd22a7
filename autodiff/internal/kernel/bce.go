package kernel

import "math"

// BCE writes the binary cross entropy of probabilities x and a target, with logarithms of at least -100.
func BCE[T Float](z, x, target []T) {
	var memory [2][lanes]T
	for at := 0; at < len(z); at += lanes {
		n := min(lanes, len(z)-at)
		p, y, loss := x[at:at+n], target[at:at+n], z[at:at+n]
		not, log := memory[0][:n], memory[1][:n]
		Neg(not, p, nil)
		Log1p(log, not, nil)
		Clamp(log, log, -100, T(math.Inf(1)))
		Sub[T]().VS(not, y, 1)
		mulVV(not, not, log)
		Log(log, p, nil)
		Clamp(log, log, -100, T(math.Inf(1)))
		mulVV(log, y, log)
		Sub[T]().VV(loss, not, log)
	}
}
