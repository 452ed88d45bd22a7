package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// The fast rows of affine_grid. Their kernels (internal/gen/affine.go) take
// stripes of 64 positions, coordinates side by side, and a plane of base
// coordinates for each axis, in which each is repeated for every coordinate.

// affineChunk is how many positions have planes at a time: they stay in the
// first cache.
const affineChunk = 8 * Lanes

// patternElements are those of a column of theta, repeated.
const patternElements = 48

// affineKernel is what is generated for a type, in two dimensions and in three.
type affineKernel struct {
	needs ISA
	dtype tensor.DType
	grid  [2]affineGridKernel
	sums  [2]affineSumsKernel
	// spread fills planes; there is one of the compute types.
	spread [2]affineSpreadKernel
}

type (
	affineGridKernel   = func(plane *byte, apart int, theta, out *byte, stripes int)
	affineSumsKernel   = func(x, plane *byte, apart, stripes int, lanes *byte)
	affineSpreadKernel = func(plane *byte, apart, n int, x, rest *byte)
)

// affineRows are the kernels of the elements' type, and of the compute type for
// positions that do not lie as kernels take them.
type affineRows[C Compute] struct {
	own, plain *affineKernel
	fold       ColumnFold[C]
}

func affineRowsOf[C Compute](isa ISA, t Types) (rows affineRows[C], ok bool) {
	for i := range affineKernels {
		k := &affineKernels[i]
		if k.needs == isa && k.dtype == t.In[0] {
			rows.own = k
		}
		if k.needs == isa && k.dtype == t.Compute {
			rows.plain = k
		}
	}
	rows.fold, _ = PickUpTo(ColumnFoldRows[C](), isa, t)
	return rows, rows.own != nil
}

func roundUp[I int | int64](n, to I) I { return (n + to - 1) / to * to }

// dense reports whether the image's positions lie one after the other.
func (r *AffineRun) dense() bool {
	step := r.Grid.DType.Size()
	if r.Grid.RowStride != step {
		return false
	}
	step *= int64(r.Dims)
	for axis, size := range r.Size {
		if size > 1 && r.Stride[axis] != step {
			return false
		}
		step *= size
	}
	return true
}

// coordsFrom are the coordinates from a position on, where they lie side by side.
func (r *AffineRun) coordsFrom(pos int64) Span {
	s := r.Grid.Span
	s.Stride = r.Grid.RowStride
	return s.At(pos * int64(r.Dims))
}

// buffer holds a chunk's coordinates as kernels take them.
func (affineRows[C]) buffer(r *AffineRun) []C {
	return BlockOf[C](r.Scratch, affineBuffer, r.Dims*affineChunk)
}

// load fills the buffer with the elements of positions from pos up to stop, and
// zeros to the end of the last stripe.
func (k affineRows[C]) load(r *AffineRun, pos, stop int64, dense bool) {
	to, d := k.buffer(r), r.Dims
	if dense { // as the buffer is
		n := int(stop-pos) * d
		Load(to[:n], r.coordsFrom(pos))
		to, pos = to[n:], stop
	}
	for pos < stop {
		p := r.piece(pos, stop)
		x := BlockOf[C](r.Scratch, 0, p.n)
		for a := range d {
			Load(x, p.grid.Row(int64(a), 0))
			for i, v := range x {
				to[i*d+a] = v
			}
		}
		to, pos = to[p.n*d:], pos+int64(p.n)
	}
	clear(to[:len(to)%(d*Lanes)])
}

// store is the inverse of load.
func (k affineRows[C]) store(r *AffineRun, pos, stop int64, dense bool) {
	from, d := k.buffer(r), r.Dims
	if dense {
		Store(r.coordsFrom(pos), from[:int(stop-pos)*d])
		return
	}
	for pos < stop {
		p := r.piece(pos, stop)
		x := BlockOf[C](r.Scratch, 0, p.n)
		for a := range d {
			for i := range x {
				x[i] = from[i*d+a]
			}
			Store(p.grid.Row(int64(a), 0), x)
		}
		from, pos = from[p.n*d:], pos+int64(p.n)
	}
}

// What eachChunk's run does with positions.
const writesGrid, readsGrid = false, true

// eachChunk calls run for the positions of a run with their base coordinates: for whole stripes where they lie, if
// they lie as kernels take them, and for the rest in the buffer, which is loaded before or stored after.
func (k affineRows[C]) eachChunk(r *AffineRun, reads bool, run func(by *affineKernel, planes *byte, apart int, grid *byte, stripes int)) {
	d, dense := r.Dims, r.dense()
	for pos, stop := r.Start, int64(0); pos < r.Stop; pos = stop {
		stop = min(pos+affineChunk, r.Stop)
		planes, apart := k.planes(r, pos, stop)
		rest := pos
		if stripes := (stop - pos) / Lanes; dense && stripes > 0 {
			run(k.own, bytesOf(planes), apart, (*byte)(unsafe.Add(r.Grid.P, int(pos)*d*int(r.Grid.RowStride))), int(stripes))
			rest += stripes * Lanes
		}
		if rest == stop {
			continue
		}
		if reads {
			k.load(r, rest, stop, dense)
		}
		run(k.plain, bytesOf(planes[int(rest-pos)*d:]), apart, bytesOf(k.buffer(r)), int(ceilDiv(stop-rest, Lanes)))
		if !reads {
			k.store(r, rest, stop, dense)
		}
	}
}

func (k affineRows[C]) grid(r *AffineRun, theta Rows) {
	pattern := bytesOf(affinePatternOf[C](r, theta))
	k.eachChunk(r, writesGrid, func(by *affineKernel, planes *byte, apart int, grid *byte, stripes int) {
		by.grid[r.Dims-2](planes, apart, pattern, grid, stripes)
	})
}

// affinePatternOf repeats the elements of theta's columns.
func affinePatternOf[C Compute](r *AffineRun, theta Rows) []C {
	pattern := BlockOf[C](r.Scratch, affinePattern, (r.Dims+1)*patternElements)
	t := BlockOf[C](r.Scratch, 1, r.Dims+1)
	for row := range r.Dims {
		Load(t, theta.Row(int64(row), 0))
		for column, v := range t {
			to := pattern[column*patternElements:][:patternElements]
			for i := row; i < len(to); i += r.Dims {
				to[i] = v
			}
		}
	}
	return pattern
}

// sums begins in lane 0: a run begins where a stripe block does.
func (k affineRows[C]) sums(r *AffineRun, to []C) {
	d := r.Dims
	lanes := BlockOf[C](r.Scratch, affineLanes, (d+1)*d*Lanes)
	clear(lanes)
	k.eachChunk(r, readsGrid, func(by *affineKernel, planes *byte, apart int, grid *byte, stripes int) {
		by.sums[d-2](grid, planes, apart, stripes, bytesOf(lanes))
	})
	for column := range d + 1 {
		sum := lanes[column*d*Lanes:][:d*Lanes]
		k.fold(Columns[C]{Sums: [2][]C{sum}, width: d}, int(min(Lanes, r.Stop-r.Start)))
		for row, v := range sum[:d] {
			to[row*(d+1)+column] = v
		}
	}
}

// bytesOf is where elements begin, as kernels of any type take it.
func bytesOf[C Compute](x []C) *byte { return (*byte)(unsafe.Pointer(&x[0])) }
