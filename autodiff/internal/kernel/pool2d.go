package kernel

import "math"

// Pool describes 2-D pooling of planes.
type Pool struct {
	Planes, H, W, KH, KW, OH, OW int
	Stride, Pad                  [2]int
	CountPad                     bool // an average counts the padding
}

// key orders floats as whole numbers do, with equal zeros and NaN on top.
func key[T Float](v T) int64 {
	switch {
	case is32[T]() && v != v:
		return 1 << 32
	case is32[T]():
		return key32(float32(v))
	case v != v:
		return math.MaxInt64
	}
	b := int64(math.Float64bits(float64(v + 0)))
	return b ^ b>>63&math.MaxInt64
}

// key32 is key for anything but a NaN.
func key32(v float32) int64 {
	b := int32(math.Float32bits(v + 0))
	return int64(b ^ b>>31&0x7fffffff)
}

// MaxPool writes the largest element of every window and its position in the
// plane: the first of equals, and the first NaN before all.
func MaxPool[T Float](t Threads, p *Pool, y []T, at []int32, x []T) {
	inside := 2*p.OW <= p.W && (p.OH-1)*p.Stride[0]+2 <= p.H
	two := is32[T]() && p.KH == 2 && p.KW == 2 && p.Stride[1] == 2 && p.Pad == [2]int{} && inside
	t.For(p.Planes*p.OH, p.OW*p.KH*p.KW*2, 1, func(lo, hi int) {
		if is32[T]() && !two {
			newPoolRows(p).run(slice[float32](y), at, slice[float32](x), lo, hi)
			return
		}
		for r := lo; r < hi; r++ {
			plane := x[r/p.OH*p.H*p.W:][:p.H*p.W]
			ys, ats := y[r*p.OW:][:p.OW], at[r*p.OW:][:p.OW]
			top := r%p.OH*p.Stride[0] - p.Pad[0]
			if two {
				maxPool2(slice[float32](ys), ats, slice[float32](plane), top*p.W, p.W)
				continue
			}
			for o := range ys {
				left := o*p.Stride[1] - p.Pad[1]
				best, pos := int64(math.MinInt64), int32(-1)
				for i := max(top, 0); i < min(top+p.KH, p.H); i++ {
					for j := max(left, 0); j < min(left+p.KW, p.W); j++ {
						if k := key(plane[i*p.W+j]); k > best || pos < 0 {
							best, pos = k, int32(i*p.W+j)
						}
					}
				}
				ys[o], ats[o] = plane[pos], pos
			}
		}
	})
}

// maxPool2 is MaxPool for windows of 2 x 2: the comparison of whole numbers
// that carry their position needs no branch.
func maxPool2(y []float32, at []int32, x []float32, top, w int) {
	a, b := x[top:][:w], x[top+w:][:w]
	if fastPool(y, at, a[:2*len(y)], b[:2*len(y)], top, w) {
		return
	}
	for o := range y {
		i := 2 * o
		if s := (a[i] + a[i+1]) + (b[i] + b[i+1]); s != s { // perhaps a NaN
			k := max(max(key(a[i])<<2|3, key(a[i+1])<<2|2), max(key(b[i])<<2|1, key(b[i+1])<<2))
			p := place(k, top, i, w)
			y[o], at[o] = x[p], int32(p)
			continue
		}
		k := max(max(key32(a[i])<<2|3, key32(a[i+1])<<2|2), max(key32(b[i])<<2|1, key32(b[i+1])<<2))
		p := place(k, top, i, w)
		y[o], at[o] = x[p], int32(p)
	}
}

// place is where the best of four lies, from the lower bits of its key.
func place(k int64, top, left, w int) int {
	pos := 3 - int(k&3)
	return top + pos>>1*w + left + pos&1
}

// PoolTake writes the elements of x at the given positions of their planes.
func PoolTake[T Float](t Threads, y, x []T, at []int32, planes, in, out int) {
	t.For(planes, out, 1, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			plane := x[p*in:][:in]
			dst := y[p*out:][:out]
			for i, a := range at[p*out:][:out] {
				dst[i] = plane[a]
			}
		}
	})
}

// PoolPut adds g to the given positions, in ascending order of the windows.
func PoolPut[T Float](t Threads, dx, g []T, at []int32, planes, in, out int) {
	t.For(planes, in+out, 1, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			plane := dx[p*in:][:in]
			clear(plane)
			src := g[p*out:][:out]
			for i, a := range at[p*out:][:out] {
				plane[a] += src[i]
			}
		}
	})
}

// span returns the part of window o that lies inside, and its divisor.
func span(o, k, stride, pad, size int, countPad bool) (lo, hi, count int) {
	lo = o*stride - pad
	hi = min(lo+k, size+pad)
	count = hi - lo
	lo, hi = max(lo, 0), min(hi, size)
	if !countPad {
		count = hi - lo
	}
	return lo, hi, count
}

// AvgPool writes the mean of every window; the sum is in Stripe order.
func AvgPool[T Float](t Threads, p *Pool, y, x []T) {
	t.For(p.Planes*p.OH, p.OW*p.KH*p.KW*2, 1, func(lo, hi int) {
		columns := make([]T, min(p.KH*p.KW, lanes)*tile)
		acc := make([]T, len(columns))
		for r := lo; r < hi; r++ {
			plane := x[r/p.OH*p.H*p.W:][:p.H*p.W]
			i0, i1, ni := span(r%p.OH, p.KH, p.Stride[0], p.Pad[0], p.H, p.CountPad)
			row := y[r*p.OW:][:p.OW]
			for o := 0; o < p.OW; {
				j0, j1, nj := span(o, p.KW, p.Stride[1], p.Pad[1], p.W, p.CountPad)
				n := min(p.OW-o, (p.W-p.KW-j0)/p.Stride[1]+1, tile) // windows from here on that lie inside
				if count := (i1 - i0) * p.KW; j1-j0 < p.KW || count > min(2*n, lanes) {
					row[o] = windowSum(plane, p.W, i0, i1, j0, j1) / T(ni*nj)
					o++
					continue
				}
				taps := 0
				for i := i0; i < i1; i++ {
					for j := j0; j < j1; j++ {
						column(columns[taps*n:][:n], plane[i*p.W+j:], p.Stride[1])
						taps++
					}
				}
				sumTile(acc, columns, taps, n, n)
				divVS(row[o:o+n], acc, T(ni*nj))
				o += n
			}
		}
	})
}

// column copies elements that lie step apart.
func column[T any](z, x []T, step int) {
	if step == 1 {
		copy(z, x)
		return
	}
	x = x[:(len(z)-1)*step+1]
	for i := range z {
		z[i] = x[i*step]
	}
}

func windowSum[T Float](plane []T, w, i0, i1, j0, j1 int) T {
	var s Stripe[T]
	for i := i0; i < i1; i++ {
		s.Add(plane[i*w+j0 : i*w+j1])
	}
	return s.Sum()
}

// AvgPoolGrad spreads g over the windows, in their order.
func AvgPoolGrad[T Float](t Threads, p *Pool, dx, g []T) {
	t.For(p.Planes, p.H*p.W+p.OH*p.OW*p.KH*p.KW, 1, func(lo, hi int) {
		for pl := lo; pl < hi; pl++ {
			plane := dx[pl*p.H*p.W:][:p.H*p.W]
			clear(plane)
			for y := range p.OH {
				i0, i1, ni := span(y, p.KH, p.Stride[0], p.Pad[0], p.H, p.CountPad)
				for o := range p.OW {
					j0, j1, nj := span(o, p.KW, p.Stride[1], p.Pad[1], p.W, p.CountPad)
					v := g[(pl*p.OH+y)*p.OW+o] / T(ni*nj)
					for i := i0; i < i1; i++ {
						row := plane[i*p.W+j0 : i*p.W+j1]
						for j := range row {
							row[j] += v
						}
					}
				}
			}
		}
	})
}
