package kernel

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

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
	if sj == 1 {
		transposeRows(z, x, nj, ni, si)
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

// transposes are the ways to transpose matrices, by the size of elements and whether there is AVX2.
var transposes = func() (by [9][2]cpu.Transpose) {
	for _, d := range []tensor.DType{tensor.U8, tensor.F16, tensor.F32, tensor.F64} {
		for i, isa := range []cpu.ISA{cpu.Go, cpu.AVX2} {
			by[d.Size()][i], _ = cpu.PickUpTo(cpu.Transposes, isa, cpu.Types{In: cpu.InTypes{d}})
		}
	}
	return by
}()

// transposeRows writes z[j, i] = x[j + i*si]: of each row of x about a cache line at a time, since rows that lie a power of two
// apart drive each other out of the cache.
func transposeRows[T any](z, x []T, nj, ni, si int) {
	const across, down = 16, 64
	var one T
	size := int64(unsafe.Sizeof(one))
	run := transposes[size][0]
	if hasAVX2() {
		run = transposes[size][1]
	}
	for j := 0; j < nj; j += across {
		for i := 0; i < ni; i += down {
			run(unsafe.Pointer(&z[j*ni+i]), int64(ni)*size, unsafe.Pointer(&x[j+i*si]), int64(si)*size, int64(min(down, ni-i)), int64(min(across, nj-j)))
		}
	}
}

// Cat copies x, which has the axis, to position at of the result's total.
func Cat[T Bits](z, x []T, a Axis, at, total int) {
	for o := range a.Outer {
		copy(z[(o*total+at)*a.Inner:], x[o*a.N*a.Inner:(o+1)*a.N*a.Inner])
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
