package kernel

// sequences are those of n elements along a dimension: one, whose elements follow each other, or some
// side by side, so that a row has an element of each.
type sequences[T Float] struct {
	n, width, stride int // width is 0 of one
	most, total      []T // a number for each
	sub, mul, div    Binary[T, T]
	maximum          Binary[T, T]
	lanes            []T
}

const (
	fewSequences  = 16 // side by side are copied, so that each lies by itself
	mostSequences = 128
)

// overSequences calls do for the sequences along an axis of z and of xs, the second of which may be nil.
func overSequences[T Float](t Threads, cost int, z []T, xs [2][]T, a Axis, do func(s *sequences[T], z, x, y []T)) {
	n, inner := a.N, a.Inner
	if n == 0 {
		return
	}
	if xs[1] == nil {
		xs[1] = xs[0]
	}
	width := 1
	if inner >= fewSequences {
		width = mostSequences
	}
	tiles := (inner + width - 1) / width
	t.For(a.Outer*tiles, n*min(width, inner)*cost, 1, func(lo, hi int) {
		s := sequences[T]{n: n, stride: inner, sub: Sub[T](), mul: Mul[T](), div: Div[T](), maximum: Maximum[T]()}
		memory := make([]T, (2+min(n, lanes))*width)
		var copies [3][]T
		if inner > 1 && width == 1 {
			all := make([]T, 3*n)
			copies = [3][]T{all[:n], all[n : 2*n], all[2*n:]}
		}
		for i := lo; i < hi; i++ {
			from := i/tiles*n*inner + i%tiles*width
			z, x, y := z[from:], xs[0][from:], xs[1][from:]
			if width > 1 {
				s.width = min(width, inner-i%tiles*width)
			}
			count := max(s.width, 1)
			s.most, s.total, s.lanes = memory[:count], memory[width:][:count], memory[2*width:]
			if copies[0] == nil {
				do(&s, z, x, y)
				continue
			}
			for k := range n {
				copies[0][k], copies[1][k] = x[k*inner], y[k*inner]
			}
			do(&s, copies[2], copies[0], copies[1])
			for k, v := range copies[2] {
				z[k*inner] = v
			}
		}
	})
}

// each applies a loop to all elements.
func (s *sequences[T]) each(loop func(z, x, y []T), z, x, y []T) {
	if s.width == 0 {
		loop(z[:s.n], x[:s.n], y[:s.n])
		return
	}
	for at := 0; at < s.n*s.stride; at += s.stride {
		loop(z[at:][:s.width], x[at:][:s.width], y[at:][:s.width])
	}
}

// by applies an operation to each element and its sequence's number.
func (s *sequences[T]) by(b Binary[T, T], z, x, numbers []T) {
	if s.width == 0 {
		b.VS(z[:s.n], x[:s.n], numbers[0])
		return
	}
	for at := 0; at < s.n*s.stride; at += s.stride {
		b.VV(z[at:][:s.width], x[at:][:s.width], numbers)
	}
}

// sum leaves each one's sum, in Stripe order, in total.
func (s *sequences[T]) sum(x []T) {
	if s.width > 0 {
		sumColumns(s.total, x, s.n, s.stride, s.lanes)
		return
	}
	var stripe Stripe[T]
	stripe.Add(x[:s.n])
	s.total[0] = stripe.Sum()
}

// expSum writes exp(x - most), and leaves the largest x and the sum in most and total.
func (s *sequences[T]) expSum(z, x []T) {
	if s.width == 0 {
		s.most[0] = extremeOf(x[:s.n], z, Largest)
	} else {
		copy(s.most, x)
		for at := s.stride; at < s.n*s.stride; at += s.stride {
			s.maximum.VV(s.most, s.most, x[at:][:s.width])
		}
	}
	s.by(s.sub, z, x, s.most)
	s.each(Exp[T], z, z, z)
	s.sum(z)
}
