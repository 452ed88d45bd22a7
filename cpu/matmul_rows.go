package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between Matmul and its kernels, which read rows of Input that lie
// one after the other, and panels of some columns of Other, row after row. So
// both are copied, some depth along K at a time; sums lie apart from y, which
// may have another type.

// matmulKernel multiplies so many rows of a with a panel of b: y has a row for
// each, whose chains begin with what is there if there are more.
type matmulKernel struct {
	needs   ISA
	compute tensor.DType
	columns int64 // of a panel
	run     func(a *byte, aRow, rows int, b *byte, steps int, y *byte, yRow, more int)
}

const (
	matmulRowsOfTile = 144
	matmulTileBytes  = 1 << 10 // of a row of sums, and of a row of copies
	// matmulSlack keeps rows of copies from meeting in a cache.
	matmulSlack = 64
)

// matmulRows makes the rows before the definition.
func matmulRows() (table []Row[MatmulRow]) {
	for isa := AVX512; isa > Go; isa-- {
		kernels := map[tensor.DType]*matmulKernel{}
		for i, k := range matmulKernels {
			if k.needs == isa {
				kernels[k.compute] = &matmulKernels[i]
			}
		}
		if len(kernels) == 0 {
			continue
		}
		table = append(table, Row[MatmulRow]{isa.String(), isa, func(t Types) (MatmulRow, bool) {
			if t.Compute == tensor.F64 {
				return newMatmulRow[float64](kernels[t.Compute], t), true
			}
			return newMatmulRow[float32](kernels[t.Compute], t), true
		}})
	}
	return table
}

// matmulRow is a row for some types.
type matmulRow[C Compute] struct {
	*matmulKernel
	input, other, y *gatherType
	transpose       Transpose
	size, depth     int64 // of an element; along K, of what is copied at a time
}

func newMatmulRow[C Compute](k *matmulKernel, t Types) MatmulRow {
	r := &matmulRow[C]{matmulKernel: k, size: k.compute.Size()}
	r.input, r.other, r.y = typeFor(k.needs, t.In[0]), typeFor(k.needs, t.In[1]), typeFor(k.needs, t.Out[0])
	r.transpose, _ = PickUpTo(Transposes, k.needs, Types{In: [4]tensor.DType{k.compute}})
	r.depth = matmulTileBytes / r.size
	return MatmulRow{r.tile, matmulRowsOfTile, matmulTileBytes / r.size, func(m, n, k int64) int64 {
		return r.plan(m, n, k).bytes
	}}
}

// matmulMemory is how a tile's memory is divided.
type matmulMemory struct {
	sums, input, panels, turned int64 // where parts begin, in bytes
	sumsRow, inputRow           int64 // from row to row
	bytes                       int64
}

func (r *matmulRow[C]) plan(m, n, k int64) (p matmulMemory) {
	depth, columns := min(k, r.depth), roundUp(n, r.columns)
	p.sumsRow, p.inputRow = columns*r.size, roundUp(depth*r.size, matmulSlack)+matmulSlack
	p.input = m * p.sumsRow
	p.panels = p.input + m*p.inputRow
	p.turned = p.panels + depth*columns*r.size
	p.bytes = p.turned + max(matmulSlack, depth*max(m, r.columns)*r.size)
	return p
}

// tile is Run.
func (r *matmulRow[C]) tile(t *MatmulTile) {
	p := r.plan(t.M, t.N, t.K)
	at := func(part int64) unsafe.Pointer { return unsafe.Add(t.Memory, part) }
	if t.More {
		for m := range t.M {
			loadRow(r.y, unsafe.Slice((*C)(at(p.sums+m*p.sumsRow)), t.N), t.Y.Row(m, 0))
		}
	}
	for k := int64(0); k == 0 || k < t.K; k += r.depth {
		depth := min(r.depth, t.K-k)
		more := 0
		if t.More || k > 0 {
			more = 1
		}
		r.copy(r.input, at(p.input), p.inputRow, t.Input.From(0, k), t.M, depth, at(p.turned))
		for n := int64(0); n < t.N; n += r.columns {
			panel, row := at(p.panels+n*depth*r.size), r.columns*r.size
			width := min(r.columns, t.N-n)
			if width < r.columns {
				clear(unsafe.Slice((*C)(panel), depth*r.columns))
			}
			r.copy(r.other, panel, row, t.Other.From(k, n), depth, width, at(p.turned))
			r.run((*byte)(at(p.input)), int(p.inputRow), int(t.M), (*byte)(panel), int(depth),
				(*byte)(at(p.sums+n*r.size)), int(p.sumsRow), more)
		}
	}
	r.store(t, at(p.sums), p.sumsRow)
}

// From returns the matrix from a row and a column on.
func (m Rows) From(row, column int64) Rows {
	m.Span = m.Row(row, column)
	return m
}

// copy copies a matrix, so that the elements of a row are of the compute type and
// lie one after the other; turned has room for as many.
func (r *matmulRow[C]) copy(t *gatherType, to unsafe.Pointer, toRow int64, from Rows, rows, columns int64, turned unsafe.Pointer) {
	size := from.DType.Size()
	switch {
	case rows == 0 || columns == 0:
	case from.Stride == size || from.RowStride != size:
		for i := range rows {
			loadRow(t, unsafe.Slice((*C)(unsafe.Add(to, i*toRow)), columns), from.Row(i, 0))
		}
	case from.DType == r.compute:
		r.transpose(to, toRow, from.P, from.Stride, columns, rows)
	default:
		for i := range columns {
			column := Span{unsafe.Add(from.P, i*from.Stride), size, from.DType}
			loadRow(t, unsafe.Slice((*C)(unsafe.Add(turned, i*rows*r.size)), rows), column)
		}
		r.transpose(to, toRow, turned, rows*r.size, columns, rows)
	}
}

// store adds the bias to the sums and stores them.
func (r *matmulRow[C]) store(t *MatmulTile, sums unsafe.Pointer, row int64) {
	bias := BlockOf[C](t.Scratch, 0, int(t.N))
	Load(bias, t.Bias)
	for m := range t.M {
		y := unsafe.Slice((*C)(unsafe.Add(sums, m*row)), t.N)
		if t.Bias.P != nil {
			for n, b := range bias {
				y[n] += b
			}
		}
		storeRow(r.y, t.Y.Row(m, 0), y)
	}
}
