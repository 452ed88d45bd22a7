package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Many products of matrices that are too small for kernels of their own: a lane has a product. The
// same element of all of them is a plane, to which the factors are transposed.

const (
	// BatchProducts is the most products of a MatmulBatch.
	BatchProducts = 64
	batchVectors  = 4 // of products that kernels compute at a time
	// batchPlane is the distance of planes in elements, which keeps them from meeting in a cache.
	batchPlane = BatchProducts + 16
	// batchBytes is how many bytes a product's factors and result have at most: copies of more take
	// longer than kernels for one product.
	batchBytes = 640 * 4
	// batchFew is how many multiplications a product has at most that half a panel would take longer for.
	batchFew = 640
)

// There is room for them: a negative number would not compile.
const _ = uint(int(unsafe.Sizeof(Scratch{}.columns[0])) - batchBytes*batchPlane)

// MatmulBatch is some products of small matrices, each of which lies so many bytes after the one before.
type MatmulBatch struct {
	Input, Other, Y             Rows // of the first
	InputNext, OtherNext, YNext int64
	M, N, K, Count              int64
	Scratch                     *Scratch
}

// matmulBatchRun is the kernel of a compute type: see internal/gen/matmul_batch.go.
type matmulBatchRun func(a *byte, aRow, aStep int, b *byte, bColumn, bStep int, y *byte, plane, m, n, k int)

type matmulBatchKernel struct {
	needs   ISA
	compute tensor.DType
	lanes   int64
	run     matmulBatchRun
}

func batchKernelFor(isa ISA, compute tensor.DType) *matmulBatchKernel {
	for i := range matmulBatches {
		if k := &matmulBatches[i]; k.needs == isa && k.compute == compute {
			return k
		}
	}
	panic("no kernel of small products")
}

// takesBatch is TakesBatch: y has too few columns for a vector, or, where a part of one
// may be stored, for so many.
func (r *kernelMatmul[C]) takesBatch(m, n, k int64) (transposed, others bool) {
	most, lanes := batchBytes/r.size, r.copied.half.columns
	transposed = n < lanes && max(m, k) <= most && m*k+k*n+m*n <= most
	return transposed, transposed && (r.copied.unit == lanes || n <= lanes/2 || m*n*k <= batchFew)
}

// batch is Batch.
func (r *kernelMatmul[C]) batch(b *MatmulBatch) {
	k := batchKernelFor(r.copied.needs, r.compute)
	plane := batchPlane * r.size
	input := unsafe.Pointer(&b.Scratch.columns[0])
	other := unsafe.Add(input, b.M*b.K*plane)
	y := unsafe.Add(other, b.K*b.N*plane)
	aRow, aStep := r.toPlanes(input, batchFactor{&r.input, b.Input, b.InputNext, b.M, b.K}, b)
	bStep, bColumn := r.toPlanes(other, batchFactor{&r.other, b.Other, b.OtherNext, b.K, b.N}, b)
	for first := int64(0); first < b.Count; first += batchVectors * k.lanes {
		at := first * r.size
		k.run((*byte)(unsafe.Add(input, at)), int(aRow*plane), int(aStep*plane), (*byte)(unsafe.Add(other, at)), int(bColumn*plane), int(bStep*plane),
			(*byte)(unsafe.Add(y, at)), int(plane), int(b.M), int(b.N), int(b.K))
	}
	r.fromPlanes(y, b)
}

// batchFactor is a factor of the products of a batch: how it is read, where the first lies, bytes to the next, and the
// extents of each.
type batchFactor struct {
	*matmulOperand
	first               Rows
	next, rows, columns int64
}

// toPlanes copies a factor's elements to planes, and returns how many of these lie between rows and columns.
func (r *kernelMatmul[C]) toPlanes(to unsafe.Pointer, f batchFactor, b *MatmulBatch) (rowStep, columnStep int64) {
	from, next, rows, columns := f.first, f.next, f.rows, f.columns
	size, plane, all := from.DType.Size(), batchPlane*r.size, rows*columns
	rowStep, columnStep = columns, 1
	if from.RowStride == size && from.Stride == rows*size { // column by column
		rowStep, columnStep = 1, rows
		from, rows, columns = from.Transposed(), columns, rows
	}
	switch {
	case all == 0:
	case !follow(from, rows, columns, next):
		for i := range all {
			Load(unsafe.Slice((*C)(unsafe.Add(to, i*plane)), b.Count), Span{from.Row(i/columns, i%columns).P, next, from.DType})
		}
	case from.DType == r.compute:
		r.transpose(to, plane, from.P, next, b.Count, all)
	default:
		wide := unsafe.Pointer(&b.Scratch.columns[1])
		r.eachRow(b.Count, all, next == all*size, func(first, n int64) {
			loadRow(f.gatherType, unsafe.Slice((*C)(unsafe.Add(wide, first*all*r.size)), n), Span{unsafe.Add(from.P, first*next), size, from.DType})
		})
		r.transpose(to, plane, wide, all*r.size, b.Count, all)
	}
	return rowStep, columnStep
}

// fromPlanes stores the results.
func (r *kernelMatmul[C]) fromPlanes(y unsafe.Pointer, b *MatmulBatch) {
	to, size, plane, all := b.Y, b.Y.DType.Size(), batchPlane*r.size, b.M*b.N
	switch {
	case !follow(to, b.M, b.N, b.YNext):
		for i := range all {
			Store(Span{to.Row(i/b.N, i%b.N).P, b.YNext, to.DType}, unsafe.Slice((*C)(unsafe.Add(y, i*plane)), b.Count))
		}
	case to.DType == r.compute:
		r.transpose(to.P, b.YNext, y, plane, all, b.Count)
	default:
		wide := unsafe.Pointer(&b.Scratch.columns[1])
		r.transpose(wide, all*r.size, y, plane, all, b.Count)
		r.eachRow(b.Count, all, b.YNext == all*size, func(first, n int64) {
			storeRow(r.y.gatherType, Span{unsafe.Add(to.P, first*b.YNext), size, to.DType}, unsafe.Slice((*C)(unsafe.Add(wide, first*all*r.size)), n))
		})
	}
}

// follow reports whether a matrix's elements follow one another, row by row, and the next matrix comes behind them.
func follow(m Rows, rows, columns, next int64) bool {
	size := m.DType.Size()
	return (m.Stride == size || columns <= 1) && (m.RowStride == columns*size || rows <= 1) && next >= rows*columns*size
}

// eachRow calls f for each of count matrices of so many elements, or for all at once where they follow one another.
func (r *kernelMatmul[C]) eachRow(count, all int64, joined bool, f func(first, n int64)) {
	if joined {
		f(0, count*all)
		return
	}
	for i := range count {
		f(i, all)
	}
}
