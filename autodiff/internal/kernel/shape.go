package kernel

import "unsafe"

// Permute writes x with its dimensions in another order: dimension i of the
// result is dimension axes[i] of x.
func Permute[T Bits](t Threads, z, x []T, shape []int64, axes []int) {
	if len(z) == 0 {
		return
	}
	var strides [MaxRank]int
	s := 1
	for d := len(shape) - 1; d >= 0; d-- {
		strides[d] = s
		s *= int(shape[d])
	}
	// Merge dimensions that stay neighbours.
	var n, step [MaxRank]int
	rank := 0
	for i, a := range axes {
		switch {
		case i > 0 && a == axes[i-1]+1:
			n[rank-1] *= int(shape[a])
			step[rank-1] = strides[a]
		default:
			n[rank], step[rank] = int(shape[a]), strides[a]
			rank++
		}
	}
	if rank <= 1 {
		copy(z, x)
		return
	}
	ni, si := n[rank-1], step[rank-1]
	nj, sj := n[rank-2], step[rank-2]
	outer := len(z) / (ni * nj)
	t.For(outer*nj, 2*ni, 8, func(lo, hi int) {
		for lo < hi {
			o, j := lo/nj, lo%nj
			rows := min(nj-j, hi-lo)
			at := 0
			for d, rest := rank-3, o; d >= 0; d-- {
				at += rest % n[d] * step[d]
				rest /= n[d]
			}
			transposed(z[lo*ni:], x[at+j*sj:], rows, ni, sj, si)
			lo += rows
		}
	})
}

// transposed writes z[j, i] = x[j*sj + i*si], in tiles that stay in the cache.
func transposed[T Bits](z, x []T, nj, ni, sj, si int) {
	if si == 1 {
		for j := range nj {
			copy(z[j*ni:(j+1)*ni], x[j*sj:])
		}
		return
	}
	const tile = 32
	for j0 := 0; j0 < nj; j0 += tile {
		for i0 := 0; i0 < ni; i0 += tile {
			for j := j0; j < min(j0+tile, nj); j++ {
				row := z[j*ni+i0 : j*ni+min(i0+tile, ni)]
				at := j*sj + i0*si
				for i := range row {
					row[i] = x[at]
					at += si
				}
			}
		}
	}
}

// Slice copies between a compact tensor and the part of a larger one that
// begins at starts and takes every steps-th element: out of the larger one
// where into is false, else into it.
func Slice[T Bits](part, whole []T, shape, wholeShape []int64, starts, steps []int, into bool) {
	if len(part) == 0 {
		return
	}
	rank := len(shape)
	var step, at [MaxRank]int
	s, from := 1, 0
	for d := rank - 1; d >= 0; d-- {
		from += starts[d] * s
		step[d] = steps[d] * s
		s *= int(wholeShape[d])
	}
	inner, si := 1, 1
	if rank > 0 {
		inner, si = int(shape[rank-1]), step[rank-1]
		rank--
	}
	for o := 0; o < len(part); o += inner {
		row := part[o : o+inner]
		switch {
		case si == 1 && into:
			copy(whole[from:], row)
		case si == 1:
			copy(row, whole[from:])
		case into:
			for i, v := range row {
				whole[from+i*si] = v
			}
		default:
			for i := range row {
				row[i] = whole[from+i*si]
			}
		}
		for d := rank - 1; d >= 0; d-- {
			at[d]++
			from += step[d]
			if at[d] < int(shape[d]) {
				break
			}
			from -= at[d] * step[d]
			at[d] = 0
		}
	}
}

// Cat copies x, of n elements along the middle dimension, to position at of
// the result's total.
func Cat[T Bits](z, x []T, outer, n, inner, at, total int) {
	for o := range outer {
		copy(z[(o*total+at)*inner:], x[o*n*inner:(o+1)*n*inner])
	}
}

// Strided describes elements that somebody else's strides lead to.
type Strided struct {
	Shape  []int64
	Stride func(dim int) int64 // in elements
	Size   int                 // of an element, in bytes
}

// Copy copies the elements to compact memory, in row-major order.
func (s *Strided) Copy(z []byte, data unsafe.Pointer) {
	var at [MaxRank]int64
	off := int64(0)
	for ; len(z) > 0; z = z[s.Size:] {
		copy(z[:s.Size], unsafe.Slice((*byte)(unsafe.Add(data, off*int64(s.Size))), s.Size))
		for d := len(s.Shape) - 1; d >= 0; d-- {
			at[d]++
			off += s.Stride(d)
			if at[d] < s.Shape[d] {
				break
			}
			off -= at[d] * s.Stride(d)
			at[d] = 0
		}
	}
}
