package testcase

// NUMERICS.md, section 4, word by word and slowly.

type floating interface{ float32 | float64 }

// Stripe sums the terms of a dense reduction, in row-major order.
func Stripe[C floating](terms []C) C {
	var blocks []C
	for len(terms) > 0 {
		n := min(65536, len(terms))
		blocks = append(blocks, stripeBlock(terms[:n]))
		terms = terms[n:]
	}
	return pairwise(blocks)
}

func stripeBlock[C floating](terms []C) C {
	var lanes [64]C
	for p, v := range terms {
		lanes[p%64] += v
	}
	return halves(lanes[:])
}

// halves folds l with l + half, then with a half of that, down to 1.
func halves[C floating](v []C) C {
	for half := len(v) / 2; half >= 1; half /= 2 {
		for l := range half {
			v[l] = v[l] + v[l+half]
		}
	}
	return v[0]
}

func pairwise[C floating](v []C) C {
	if len(v) == 0 {
		return 0
	}
	for len(v) > 1 {
		var next []C
		for i := 0; i+1 < len(v); i += 2 {
			next = append(next, v[i]+v[i+1])
		}
		if len(v)%2 == 1 {
			next = append(next, v[len(v)-1])
		}
		v = next
	}
	return v[0]
}

// Chunk sums the contributions to a destination, in the order of their sources.
func Chunk[C floating](terms []C) C {
	var chunks []C
	for len(terms) > 0 {
		n := min(256, len(terms))
		var sum C
		for _, v := range terms[:n] {
			sum += v
		}
		chunks = append(chunks, sum)
		terms = terms[n:]
	}
	return pairwise(chunks)
}

// Group sums the terms of channels.
func Group[C floating](terms []C) (sum C) {
	for len(terms) > 0 {
		var channels [16]C
		n := copy(channels[:], terms)
		sum += halves(channels[:])
		terms = terms[n:]
	}
	return sum
}
