package kernel

// lanes and block are the numeric contract's Stripe order: element l of 64
// lanes sums positions l, l+64, ...; the lanes fold by halves; every 65,536
// positions are a block of their own, and blocks fold pairwise.
const (
	lanes = 64
	block = 65536
)

// Stripe sums a sequence that comes in pieces.
type Stripe[T Float] struct {
	acc    [lanes]T
	n      int
	blocks []T
}

// Add appends x to the sequence.
func (s *Stripe[T]) Add(x []T) {
	for len(x) > 0 {
		l := s.n % lanes
		n := min(len(x), lanes-l)
		if l == 0 && len(x) >= lanes {
			n = min(len(x), block-s.n) / lanes * lanes
			addLanes(&s.acc, x[:n])
		} else {
			acc := s.acc[l : l+n]
			for i, v := range x[:n] {
				acc[i] += v
			}
		}
		x = x[n:]
		if s.n += n; s.n == block {
			s.blocks = append(s.blocks, s.fold())
			s.acc, s.n = [lanes]T{}, 0
		}
	}
}

func addLanes[T Float](acc *[lanes]T, x []T) {
	for x = x[fastLanes(acc, x):]; len(x) >= lanes; x = x[lanes:] {
		row := (*[lanes]T)(x)
		for l := range acc {
			acc[l] += row[l]
		}
	}
}

func (s *Stripe[T]) fold() T {
	used := min(s.n, lanes) // the others are +0
	if used > 8 && fastFold(&s.acc) {
		return s.acc[0]
	}
	for h := lanes / 2; h > 0; h /= 2 {
		for l := range min(h, used-h) {
			s.acc[l] += s.acc[l+h]
		}
	}
	return s.acc[0]
}

// Sum ends the sequence.
func (s *Stripe[T]) Sum() T {
	if len(s.blocks) == 0 {
		return s.fold()
	}
	if s.n > 0 {
		s.blocks = append(s.blocks, s.fold())
	}
	return pairwise(s.blocks)
}

// pairwise adds neighbours, then neighbours among the results, and so on; an
// odd one out moves up. It overwrites x.
func pairwise[T Float](x []T) T {
	for n := len(x); n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			x[i] = x[2*i] + x[2*i+1]
		}
		if n%2 == 1 {
			x[n/2] = x[n-1]
		}
	}
	return x[0]
}

// SumRows sums each of rows rows of n elements.
func SumRows[T Float](t Threads, z, x []T, rows, n int) {
	if rows == 1 && n >= 2*block {
		blocks := make([]T, (n+block-1)/block)
		t.For(len(blocks), block, 1, func(lo, hi int) {
			for b := lo; b < hi; b++ {
				var s Stripe[T]
				s.Add(x[b*block : min((b+1)*block, n)])
				if s.n > 0 {
					blocks[b] = s.fold()
				} else {
					blocks[b] = s.blocks[0]
				}
			}
		})
		z[0] = pairwise(blocks)
		return
	}
	t.For(rows, n, 1, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			var s Stripe[T]
			s.Add(x[r*n : (r+1)*n])
			z[r] = s.Sum()
		}
	})
}

// SumSegments sums, for each k of kept, the outer segments x[o, k, :n] in
// order: the gradient of a per-channel parameter.
func SumSegments[T Float](t Threads, z, x []T, outer, kept, n int) {
	t.For(kept, outer*n, 1, func(lo, hi int) {
		for k := lo; k < hi; k++ {
			var s Stripe[T]
			for o := range outer {
				at := (o*kept + k) * n
				s.Add(x[at : at+n])
			}
			z[k] = s.Sum()
		}
	})
}

// SumColumns sums along an axis.
func SumColumns[T Float](t Threads, z, x []T, a Axis) {
	n, inner := a.N, a.Inner
	tiles := (inner + tile - 1) / tile
	t.For(a.Outer*tiles, n*min(inner, tile), 1, func(lo, hi int) {
		var acc [lanes * tile]T
		for i := lo; i < hi; i++ {
			o, j := i/tiles, i%tiles*tile
			sumColumns(z[o*inner+j:][:min(tile, inner-j)], x[o*n*inner+j:], n, inner, acc[:])
		}
	})
}

// tile is how many columns are summed at a time, at most.
const tile = 128

// sumColumns sums len(z) columns of n elements; acc has room for as many lanes of them.
func sumColumns[T Float](z, x []T, n, stride int, acc []T) {
	w := len(z)
	var blocks []T
	for b := 0; b < max(n, 1); b += block {
		sumTile(acc, x[b*stride:], min(block, n-b), w, stride)
		if n > block {
			blocks = append(blocks, acc[:w]...)
		}
	}
	copy(z, acc)
	if n > block {
		foldRows(z, blocks)
	}
}

// sumTile leaves the sums of up to 65,536 rows of w elements in acc[:w]. Lanes
// begin as their first row instead of at +0, which the end makes up for: it
// matters only where every element is -0.
func sumTile[T Float](acc, x []T, rows, w, stride int) {
	row := func(r int) []T { return x[r*stride:][:w] }
	lane := func(l int) []T { return acc[l*w:][:w] }
	fold := func(h int, from func(l int) []T) {
		for l := range h {
			addVV(lane(l), from(l), from(l+h))
		}
	}
	h := lanes / 2
	switch {
	case rows == 0:
		clear(lane(0))
		return
	case rows >= lanes:
		for l := range lanes {
			copy(lane(l), row(l))
		}
		for r := lanes; r < rows; r++ {
			addVV(lane(r%lanes), lane(r%lanes), row(r))
		}
		fold(h, lane)
	case rows == 1:
		h = 1
		copy(lane(0), row(0))
	default: // the first fold reads the rows
		for h >= rows {
			h /= 2
		}
		for l := range h {
			if l+h < rows {
				addVV(lane(l), row(l), row(l+h))
			} else {
				copy(lane(l), row(l))
			}
		}
	}
	for h /= 2; h > 0; h /= 2 {
		fold(h, lane)
	}
	for i, v := range lane(0) {
		acc[i] = v + 0
	}
}

// foldRows folds rows of len(z) elements pairwise.
func foldRows[T Float](z, rows []T) {
	w := len(z)
	if w == 0 {
		return
	}
	for n := len(rows) / w; n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			addVV(rows[i*w:][:w], rows[2*i*w:][:w], rows[(2*i+1)*w:][:w])
		}
		if n%2 == 1 {
			copy(rows[n/2*w:][:w], rows[(n-1)*w:][:w])
		}
	}
	copy(z, rows)
}
