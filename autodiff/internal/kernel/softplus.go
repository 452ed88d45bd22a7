package kernel

// Softplus writes log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)).
func Softplus[T Float](z, x, _ []T) {
	smallAndLarge(z, x, func(large []T, _ int) {})
}

// BCEWithLogits writes the binary cross entropy of the sigmoid of x and a target: softplus(x) - x*target, without
// taking large numbers from each other.
func BCEWithLogits[T Float](z, x, target []T) {
	var products [lanes]T
	smallAndLarge(z, x, func(large []T, at int) {
		p := products[:len(large)]
		mulVV(p, x[at:], target[at:])
		Sub[T]().VV(large, large, p)
	})
}

// smallAndLarge writes log(1 + exp(-|x|)) + max(x, 0). Before they are added, more may change some of the latter, whose
// first is that of x[at].
func smallAndLarge[T Float](z, x []T, more func(large []T, at int)) {
	var memory [lanes]T
	for at := 0; at < len(z); at += lanes {
		small := z[at:min(at+lanes, len(z))]
		large := memory[:len(small)]
		Relu(large, x[at:at+len(small)], nil)
		more(large, at)
		Abs(small, x[at:], nil)
		Neg(small, small, nil)
		Exp(small, small, nil)
		Log1p(small, small, nil)
		addVV(small, large, small)
	}
}
