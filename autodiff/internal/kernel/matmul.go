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

// Gemm adds a * b to c, or writes it there where add is false: a is m x k, b is
// k x n and c m x n. It is the one place that multiplies matrices: each element is
// a chain of fused steps over k ascending (NUMERICS.md, section 8), which begins
// with what c holds, or +0.
func Gemm[T Float](t Threads, m, n, k int, a, b, c Matrix[T], add bool) {
	if m == 0 || n == 0 {
		return
	}
	g := gemm[T]{row: rows64[cpu.Allowed()], m: m, n: n, k: k, a: a, b: b, c: c, add: add}
	if is32[T]() {
		g.row = rows32[cpu.Allowed()]
	}
	rows, columns := g.row.Divide(1, int64(m), int64(n), int64(t))
	g.rows, g.columns = int(rows), int(columns)
	g.down = (m + g.rows - 1) / g.rows
	jobs := g.down * ((n + g.columns - 1) / g.columns)
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
	row                          cpu.MatmulRow
	m, n, k, rows, columns, down int // of the whole; of a tile; tiles
	a, b, c                      Matrix[T]
	add                          bool
}

// parallel is apart so that other products allocate nothing.
func (g gemm[T]) parallel(t Threads, jobs int) {
	t.For(jobs, g.rows*g.columns*max(g.k, 1)/4, 1, func(lo, hi int) { g.tiles(lo, hi) })
}

func (g *gemm[T]) tiles(lo, hi int) {
	w := takeWorker(g.row.Bytes(int64(g.rows), int64(g.columns), int64(g.k)))
	defer w.giveBack()
	for i := lo; i < hi; i++ {
		// Tiles that share columns of b come one after the other.
		x, y := i%g.down*g.rows, i/g.down*g.columns
		w.tile = cpu.MatmulTile{
			Y: g.c.rows(x, y), M: int64(min(g.rows, g.m-x)), N: int64(min(g.columns, g.n-y)), K: int64(g.k),
			More: g.add, Memory: unsafe.Pointer(unsafe.SliceData(w.memory)), Scratch: &w.scratch,
		}
		if g.k > 0 {
			w.tile.Input, w.tile.Other = g.a.rows(x, 0), g.b.rows(0, y)
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
