package kernel

import (
	"sync"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Matrix has element (i, j) at i*Row + j*Column.
type Matrix[T Float] struct {
	Data        []T
	Row, Column int
}

// RowMajor describes a matrix whose rows lie ld elements apart.
func RowMajor[T Float](data []T, ld int) Matrix[T] { return Matrix[T]{data, ld, 1} }

// Transposed describes the transpose of such a matrix.
func Transposed[T Float](data []T, ld int) Matrix[T] { return Matrix[T]{data, 1, ld} }

func (m Matrix[T]) rows(row, column int) cpu.Rows {
	size := int64(unsafe.Sizeof(*new(T)))
	span := cpu.Span{Stride: int64(m.Column) * size, DType: floatType[T]()}
	if len(m.Data) > 0 {
		span.P = unsafe.Pointer(&m.Data[row*m.Row+column*m.Column])
	}
	return cpu.Rows{Span: span, RowStride: int64(m.Row) * size}
}

func floatType[T Float]() tensor.DType {
	if is32[T]() {
		return tensor.F32
	}
	return tensor.F64
}

// Product is A * B, which C takes, or which is added to what C holds: A is M x K, B is
// K x N and C M x N.
type Product[T Float] struct {
	M, N, K int
	A, B, C Matrix[T]
	Add     bool
}

// Gemm computes a product. It is the one place that multiplies matrices: each element is
// a chain of fused steps over k ascending (NUMERICS.md, section 8), which begins
// with what C holds, or +0.
func Gemm[T Float](t Threads, p Product[T]) {
	if p.M == 0 || p.N == 0 {
		return
	}
	g := gemm[T]{Product: p, row: rows64[cpu.Allowed()]}
	if is32[T]() {
		g.row = rows32[cpu.Allowed()]
	}
	rows, columns := g.row.Divide(1, int64(p.M), int64(p.N), int64(t))
	g.rows, g.columns = int(rows), int(columns)
	g.down = (p.M + g.rows - 1) / g.rows
	jobs := g.down * ((p.N + g.columns - 1) / g.columns)
	if t == 1 || jobs == 1 {
		g.tiles(0, jobs)
		return
	}
	g.parallel(t, jobs)
}

var rows32, rows64 = rowsOf(tensor.F32), rowsOf(tensor.F64)

// rowsOf picks the best rows for a type, by the instruction set that is allowed.
func rowsOf(d tensor.DType) (rows []cpu.MatmulRow) {
	for isa := range cpu.ISANames() {
		row, _ := cpu.PickUpTo(cpu.Matmul, cpu.ISA(isa), cpu.Types{Compute: d, In: cpu.InTypes{d, d}, Out: cpu.OutTypes{d}})
		rows = append(rows, row)
	}
	return rows
}

// gemm is a product under way.
type gemm[T Float] struct {
	Product[T]
	row           cpu.MatmulRow
	rows, columns int // of a tile
	down          int // tiles
}

// parallel is apart so that other products allocate nothing.
func (g gemm[T]) parallel(t Threads, jobs int) {
	t.For(jobs, g.rows*g.columns*max(g.K, 1)/4, 1, func(lo, hi int) { g.tiles(lo, hi) })
}

func (g *gemm[T]) tiles(lo, hi int) {
	w := takeWorker(g.row.Bytes(int64(g.rows), int64(g.columns), int64(g.K)))
	defer w.giveBack()
	for i := lo; i < hi; i++ {
		// Tiles that share columns of b come one after the other.
		x, y := i%g.down*g.rows, i/g.down*g.columns
		w.tile = cpu.MatmulTile{
			Y: g.C.rows(x, y), M: int64(min(g.rows, g.M-x)), N: int64(min(g.columns, g.N-y)), K: int64(g.K),
			More: g.Add, Memory: unsafe.Pointer(unsafe.SliceData(w.memory)), Scratch: &w.scratch,
		}
		if g.K > 0 {
			w.tile.Input, w.tile.Other = g.A.rows(x, 0), g.B.rows(0, y)
		}
		g.row.Run(&w.tile)
	}
}

// worker is the memory of one goroutine's products.
type worker struct {
	tile    cpu.MatmulTile
	scratch cpu.Scratch
	memory  []byte
}

// workers are those that nobody uses, which the collector shall not take: there are as
// many as ever ran at a time.
var workers struct {
	sync.Mutex
	free []*worker
}

func takeWorker(bytes int64) (w *worker) {
	workers.Lock()
	if last := len(workers.free) - 1; last >= 0 {
		w, workers.free = workers.free[last], workers.free[:last]
	}
	workers.Unlock()
	if w == nil {
		w = new(worker)
	}
	if int64(len(w.memory)) < bytes {
		w.memory = make([]byte, bytes)
	}
	return w
}

func (w *worker) giveBack() {
	w.tile = cpu.MatmulTile{} // keeps nobody's memory
	workers.Lock()
	workers.free = append(workers.free, w)
	workers.Unlock()
}
