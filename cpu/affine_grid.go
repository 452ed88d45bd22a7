package cpu

import "unsafe"

// baseCoordinate returns the i-th of size evenly spread coordinates in [-1, 1].
func baseCoordinate[C Compute](i, size int64, alignCorners bool) C {
	switch {
	case !alignCorners:
		return C(2*i+1)/C(size) - 1
	case size == 1:
		return 0
	}
	return C(2*i)/C(size-1) - 1
}

// AffineRun is a run of positions, in row-major order, of one image's grid.
type AffineRun struct {
	Dims         int
	Size         [3]int64 // extents along x, y, z
	AlignCorners bool
	Start, Stop  int64
	Grid         Rows         // row a is coordinate a of the image's first position
	Stride       [3]int64     // bytes from a position to the next along x, y, z
	Bases        *AffineBases // for kernels
	Scratch      *Scratch
}

// affinePiece is a part of a run along x.
type affinePiece struct {
	at   [3]int64 // x, y, z of the first position
	n    int      // at most Block
	grid Rows     // row a is coordinate a
}

// piece returns the positions from pos on, up to stop at most.
func (r *AffineRun) piece(pos, stop int64) (p affinePiece) {
	x, rest := pos%r.Size[0], pos/r.Size[0]
	p.at = [3]int64{x, rest % r.Size[1], rest / r.Size[1]}
	p.n = int(min(Block, r.Size[0]-x, stop-pos))
	p.grid = r.Grid
	p.grid.Stride = r.Stride[0]
	p.grid.P = unsafe.Add(r.Grid.P, x*r.Stride[0]+p.at[1]*r.Stride[1]+p.at[2]*r.Stride[2])
	return p
}

// bases returns the base coordinates of a piece's positions: those along x,
// and the one along each other axis.
func bases[C Compute](r *AffineRun, p *affinePiece) (x []C, other [3]C) {
	x = BlockOf[C](r.Scratch, 0, p.n)
	for i := range x {
		x[i] = baseCoordinate[C](p.at[0]+int64(i), r.Size[0], r.AlignCorners)
	}
	for axis := 1; axis < r.Dims; axis++ {
		other[axis] = baseCoordinate[C](p.at[axis], r.Size[axis], r.AlignCorners)
	}
	return x, other
}

// AffineGrid computes out = (t0*bx + t1*by) + t2, and in 3-D
// ((t0*bx + t1*by) + t2*bz) + t3, for each row t of theta.
var AffineGrid = tableOf(byCompute(affineGridGo[float32], affineGridGo[float64]), rowsByCompute(affineGridBy[float32], affineGridBy[float64]))

func affineGridBy[C Compute](isa ISA, t Types) (func(*AffineRun, Rows), bool) {
	rows, ok := affineRowsOf[C](isa, t)
	return rows.grid, ok
}

func affineGridGo[C Compute](r *AffineRun, theta Rows) {
	t := BlockOf[C](r.Scratch, 1, r.Dims+1)
	for pos := r.Start; pos < r.Stop; {
		p := r.piece(pos, r.Stop)
		bx, base := bases[C](r, &p)
		out := BlockOf[C](r.Scratch, 2, p.n)
		for row := range r.Dims {
			Load(t, theta.Row(int64(row), 0))
			for i, x := range bx {
				v := C(t[0]*x) + C(t[1]*base[1])
				if r.Dims == 3 {
					v += C(t[2] * base[2])
				}
				out[i] = v + t[r.Dims]
			}
			Store(p.grid.Row(int64(row), 0), out)
		}
		pos += int64(p.n)
	}
}

// AffineGridBackward is the table of the ways to reduce a stripe block of positions to the elements
// of theta's gradient, in row-major order: the sums of grad_grid[..., row] times the base
// coordinate along a column, which is 1 for the last.
func AffineGridBackward[C Compute]() []Row[func(*AffineRun, []C)] {
	return tableOf(always(affineGridBackwardGo[C]), func(isa ISA, t Types) (f func(*AffineRun, []C), ok bool) {
		rows, ok := affineRowsOf[C](isa, t)
		return rows.sums, ok
	})
}

func affineGridBackwardGo[C Compute](r *AffineRun, to []C) {
	for i := range to {
		to[i] = affineSum[C](r, i/(r.Dims+1), i%(r.Dims+1))
	}
}

func affineSum[C Compute](r *AffineRun, row, column int) C {
	lanes := lanesOf[C](r.Scratch, 0)
	clear(lanes[:])
	for pos := r.Start; pos < r.Stop; {
		p := r.piece(pos, r.Stop)
		bx, base := bases[C](r, &p)
		dy := BlockOf[C](r.Scratch, 1, p.n)
		Load(dy, p.grid.Row(int64(row), 0))
		for i := range dy {
			switch column {
			case 0:
				dy[i] *= bx[i]
			case r.Dims:
			default:
				dy[i] *= base[column]
			}
		}
		addStripe(lanes, pos-r.Start, dy)
		pos += int64(p.n)
	}
	return foldLanes(lanes)
}
