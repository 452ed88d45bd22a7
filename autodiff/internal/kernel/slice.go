package kernel

// Part is a part of a larger compact tensor: it begins at Starts and has every Steps-th element.
type Part struct {
	Shape, Whole  []int64
	Starts, Steps []int
}

// rows calls do for ranges of the part's elements that are whole rows: row i of n elements begins at a place of the
// whole, and has every step-th element. Inner dimensions that the part has all of are one row with the next.
func (p *Part) rows(t Threads, do func(at, n, from, step int)) {
	rank, from, size := len(p.Shape), 0, 1
	n, step := 1, 1
	for ; rank > 0 && n == size && step == 1 && (size == 1 || p.Steps[rank-1] == 1); rank-- {
		d := rank - 1
		from += p.Starts[d] * size
		n, step = n*int(p.Shape[d]), p.Steps[d]
		size *= int(p.Whole[d])
	}
	rows := 1
	var extent, apart [MaxRank]int
	for d := rank - 1; d >= 0; d-- {
		from += p.Starts[d] * size
		extent[d], apart[d] = int(p.Shape[d]), p.Steps[d]*size
		size *= int(p.Whole[d])
		rows *= extent[d]
	}
	t.For(rows, n, 1, func(lo, hi int) {
		var at [MaxRank]int
		from := from
		for d, rest := rank-1, lo; d >= 0; d-- {
			at[d] = rest % extent[d]
			rest /= extent[d]
			from += at[d] * apart[d]
		}
		for row := lo; row < hi; row++ {
			do(row*n, n, from, step)
			for d := rank - 1; d >= 0; d-- {
				at[d]++
				from += apart[d]
				if at[d] < extent[d] {
					break
				}
				from -= at[d] * apart[d]
				at[d] = 0
			}
		}
	})
}

// Slice copies the part out of the whole.
func Slice[T Bits](t Threads, part, whole []T, p Part) {
	p.rows(t, func(at, n, from, step int) {
		row := part[at:][:n]
		switch step {
		case 1:
			copy(row, whole[from:])
		case -1:
			reverse(row, whole[from-n+1:])
		default:
			for i := range row {
				row[i] = whole[from+i*step]
			}
		}
	})
}

// SliceInto copies the part into the whole.
func SliceInto[T Bits](t Threads, part, whole []T, p Part) {
	p.rows(t, func(at, n, from, step int) {
		row := part[at:][:n]
		switch step {
		case 1:
			copy(whole[from:], row)
		case -1:
			reverse(whole[from-n+1:][:n], row)
		default:
			for i, v := range row {
				whole[from+i*step] = v
			}
		}
	})
}

// SliceAdd adds the part to what the whole has there.
func SliceAdd[T Float](t Threads, part, whole []T, p Part) {
	p.rows(t, func(at, n, from, step int) {
		row := part[at:][:n]
		if step == 1 {
			to := whole[from:][:n]
			addVV(to, to, row)
			return
		}
		for i, v := range row {
			whole[from+i*step] += v
		}
	})
}

// reverse copies from the end on.
func reverse[T any](z, x []T) {
	x = x[:len(z)]
	n := fastReverse(z, x)
	z, x = z[n:], x[:len(x)-n]
	for i, v := range x {
		z[len(z)-1-i] = v
	}
}
