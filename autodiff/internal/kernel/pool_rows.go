package kernel

import "math"

// poolRows is MaxPool of f32: whole numbers carry an element and its place, so that the largest of a window is that of
// the largest of its rows, which are found once.
type poolRows struct {
	*Pool
	line    []int64 // of a row of the image
	windows []int64 // the largest of each window in rows of the image: a ring, of so many as a window meets
	best    []int64 // the largest of each window
}

func newPoolRows(p *Pool) *poolRows {
	ring := min(p.KH, p.H) * p.OW
	memory := make([]int64, p.W+ring+p.OW)
	return &poolRows{p, memory[:p.W], memory[p.W:][:ring], memory[p.W+ring:]}
}

// run computes some rows of the results.
func (p *poolRows) run(y []float32, at []int32, x []float32, lo, hi int) {
	next := 0 // the row of the image that has not been looked at
	for r := lo; r < hi; r++ {
		plane := x[r/p.OH*p.H*p.W:][:p.H*p.W]
		top := r%p.OH*p.Stride[0] - p.Pad[0]
		first, end := max(top, 0), min(top+p.KH, p.H)
		if r%p.OH == 0 {
			next = 0
		}
		for next = max(next, first); next < end; next++ {
			p.find(p.row(next), plane[next*p.W:][:p.W], next*p.W)
		}
		copy(p.best, p.row(first))
		for i := first + 1; i < end; i++ {
			larger(p.best, p.best, p.row(i))
		}
		ys, ats := y[r*p.OW:][:p.OW], at[r*p.OW:][:p.OW]
		for o, k := range p.best {
			pos := math.MaxInt32 - int32(k&math.MaxInt32)
			ys[o], ats[o] = plane[pos], pos
		}
	}
}

func (p *poolRows) row(i int) []int64 { return p.windows[i*p.OW%len(p.windows):][:p.OW] }

// find writes the largest of each window in a row of the image, whose elements have places from at on.
func (p *poolRows) find(z []int64, x []float32, at int) {
	for i, v := range x {
		b := int32(math.Float32bits(v + 0))
		b ^= b >> 31 & math.MaxInt32
		if v != v {
			b = math.MaxInt32
		}
		p.line[i] = int64(b)<<31 | int64(math.MaxInt32-at-i)
	}
	o := 0
	for ; o < len(z) && o*p.Stride[1] < p.Pad[1]; o++ {
		z[o] = p.window(o)
	}
	whole := o
	if room := p.W + p.Pad[1] - p.KW; room >= 0 {
		whole = max(o, min(len(z), room/p.Stride[1]+1))
	}
	if o < whole {
		lines := p.line[o*p.Stride[1]-p.Pad[1]:]
		column(z[o:whole], lines, p.Stride[1])
		for j := 1; j < p.KW; j++ {
			largerAt(z[o:whole], lines[j:], p.Stride[1])
		}
	}
	for o = whole; o < len(z); o++ {
		z[o] = p.window(o)
	}
}

// window is the largest of a window that reaches into the padding.
func (p *poolRows) window(o int) int64 {
	left := o*p.Stride[1] - p.Pad[1]
	best := int64(math.MinInt64)
	for _, k := range p.line[max(left, 0):min(left+p.KW, p.W)] {
		best = max(best, k)
	}
	return best
}

func larger(z, x, y []int64) {
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = max(x[i], y[i])
	}
}

// largerAt is larger for elements that lie step apart.
func largerAt(z, x []int64, step int) {
	if step == 1 {
		larger(z, z, x)
		return
	}
	x = x[:(len(z)-1)*step+1]
	for i := range z {
		z[i] = max(z[i], x[i*step])
	}
}
