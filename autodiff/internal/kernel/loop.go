package kernel

// MaxRank is the largest number of dimensions.
const MaxRank = 8

// Array is elements one after the other, and their shape.
type Array[T any] struct {
	Data  []T
	Shape []int64
}

// Loop walks over the rows of an output and up to three inputs that are
// broadcast to it: within a row, every input either advances with the output
// (step 1) or stands still (step 0).
type Loop struct {
	Inner int // elements in a row
	Step  [3]int
	Rows  int
	rank  int
	n     [MaxRank]int
	step  [MaxRank][3]int
}

// NewLoop plans a loop over shape out; an input's shape is aligned with it at
// the right, and extents of 1 are broadcast.
func NewLoop(out []int64, in ...[]int64) (l Loop) {
	type dim struct {
		n    int
		step [3]int
	}
	var dims [MaxRank + 1]dim
	count := 0
	var stride [3]int
	for i := range stride {
		stride[i] = 1
	}
	// From the innermost dimension outwards; a dimension joins its inner
	// neighbour where every input walks through both in one go.
	for d := len(out) - 1; d >= 0; d-- {
		n := int(out[d])
		if n == 1 {
			continue
		}
		cur := dim{n: n}
		for i, s := range in {
			if at := d - (len(out) - len(s)); at >= 0 && s[at] != 1 {
				cur.step[i] = stride[i]
				stride[i] *= n
			}
		}
		if count > 0 {
			last := &dims[count-1]
			joins := true
			for i := range in {
				joins = joins && cur.step[i] == last.step[i]*last.n
			}
			if joins {
				last.n *= n
				continue
			}
		}
		dims[count] = cur
		count++
	}
	l.Inner, l.Rows = 1, 1
	if count > 0 && stepsInRow(dims[0].step) {
		l.Inner, l.Step = dims[0].n, dims[0].step
		copy(dims[:], dims[1:count])
		count--
	}
	l.rank = count
	for i := range count {
		d := dims[count-1-i]
		l.n[i], l.step[i] = d.n, d.step
		l.Rows *= d.n
	}
	return l
}

func stepsInRow(s [3]int) bool {
	for _, v := range s {
		if v > 1 {
			return false
		}
	}
	return true
}

// Do calls body with every row's offsets: of the output and of the inputs.
// Long rows are split, so that few long rows keep all threads busy too.
func (l *Loop) Do(t Threads, cost int, body func(out, n int, in [3]int)) {
	if l.Rows == 1 {
		t.For(l.Inner, cost, 64, func(lo, hi int) {
			body(lo, hi-lo, [3]int{lo * l.Step[0], lo * l.Step[1], lo * l.Step[2]})
		})
		return
	}
	t.For(l.Rows, cost*l.Inner, 1, func(lo, hi int) {
		var at [MaxRank]int
		var in [3]int
		for d, rest := l.rank-1, lo; d >= 0; d-- {
			at[d] = rest % l.n[d]
			rest /= l.n[d]
			for i := range in {
				in[i] += at[d] * l.step[d][i]
			}
		}
		for row := lo; row < hi; row++ {
			body(row*l.Inner, l.Inner, in)
			for d := l.rank - 1; d >= 0; d-- {
				at[d]++
				for i := range in {
					in[i] += l.step[d][i]
				}
				if at[d] < l.n[d] {
					break
				}
				at[d] = 0
				for i := range in {
					in[i] -= l.n[d] * l.step[d][i]
				}
			}
		}
	})
}
