package cpu

import "unsafe"

// BaseCoordinate returns the i-th of size evenly spread coordinates in [-1, 1].
func BaseCoordinate[C Compute](i, size int64, alignCorners bool) C {
	switch {
	case !alignCorners:
		return C(2*i+1)/C(size) - 1
	case size == 1:
		return 0
	}
	return C(2*i)/C(size-1) - 1
}

// AffineBlock is a run of up to Block positions along x of one image's grid.
type AffineBlock struct {
	Dims         int
	Size         [3]int64 // extents along x, y, z
	AlignCorners bool
	N            int
	At           [3]int64 // x, y, z of the first position
	Grid         Rows     // row a is coordinate a of the positions
	Scratch      *Scratch
}

// bases returns the base coordinates of the block's positions: those along x,
// and the one along each other axis.
func bases[C Compute](b *AffineBlock) (x []C, other [3]C) {
	x = BlockOf[C](b.Scratch, 0, b.N)
	for i := range x {
		x[i] = BaseCoordinate[C](b.At[0]+int64(i), b.Size[0], b.AlignCorners)
	}
	for axis := 1; axis < b.Dims; axis++ {
		other[axis] = BaseCoordinate[C](b.At[axis], b.Size[axis], b.AlignCorners)
	}
	return x, other
}

// AffineGrid computes out = (t0*bx + t1*by) + t2, and in 3-D
// ((t0*bx + t1*by) + t2*bz) + t3, for each row t of theta.
var AffineGrid = []Row[func(*AffineBlock, Rows)]{
	{"go", Go, ByCompute(affineGridGo[float32], affineGridGo[float64])},
}

func affineGridGo[C Compute](b *AffineBlock, theta Rows) {
	bx, base := bases[C](b)
	t, out := BlockOf[C](b.Scratch, 1, b.Dims+1), BlockOf[C](b.Scratch, 2, b.N)
	for row := range b.Dims {
		Load(t, theta.Row(int64(row), 0))
		for i, x := range bx {
			v := C(t[0]*x) + C(t[1]*base[1])
			if b.Dims == 3 {
				v += C(t[2] * base[2])
			}
			out[i] = v + t[b.Dims]
		}
		Store(b.Grid.Row(int64(row), 0), out)
	}
}

// AffineSum is the reduction of one element of theta's gradient: of
// grad_grid[..., row] times the base coordinate along a column, which is 1
// for the last.
type AffineSum struct {
	AffineBlock
	Row, Column int
	Start, Stop int64 // positions of the image, row-major; at most StripeBlock
	GridStride  [3]int64
}

// AffineGridBackward32 and 64 return the fold of a stripe block of positions.
var (
	AffineGridBackward32 = []Row[func(*AffineSum) float32]{{"go", Go, always(affineGridBackwardGo[float32])}}
	AffineGridBackward64 = []Row[func(*AffineSum) float64]{{"go", Go, always(affineGridBackwardGo[float64])}}
)

func affineGridBackwardGo[C Compute](a *AffineSum) C {
	lanes := LanesOf[C](a.Scratch, 0)
	clear(lanes[:])
	for pos := a.Start; pos < a.Stop; {
		b := a.AffineBlock
		x, rest := pos%b.Size[0], pos/b.Size[0]
		b.At = [3]int64{x, rest % b.Size[1], rest / b.Size[1]}
		b.N = int(min(Block, b.Size[0]-x, a.Stop-pos))
		bx, base := bases[C](&b)
		grid := b.Grid.Row(int64(a.Row), 0)
		offset := x*a.GridStride[0] + b.At[1]*a.GridStride[1] + b.At[2]*a.GridStride[2]
		dy := BlockOf[C](a.Scratch, 1, b.N)
		Load(dy, Span{unsafe.Add(grid.P, offset), a.GridStride[0], grid.DType})
		for i := range dy {
			switch a.Column {
			case 0:
				dy[i] *= bx[i]
			case b.Dims:
			default:
				dy[i] *= base[a.Column]
			}
		}
		AddStripe(lanes, pos-a.Start, dy)
		pos += int64(b.N)
	}
	return FoldLanes(lanes)
}
