package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// GroupLinearTile is a part of a linear layer of codes in groups: rows [M0, M1) of the M rows of x against rows [N0, N1) of
// weight.
type GroupLinearTile struct {
	X, Y                Rows // X: s8 or u8 codes, K side by side
	XScale, XZero, Bias Span // XZero and Bias may be absent
	WeightRows
	M, M0, M1, N0, N1, K int64
	Packed               unsafe.Pointer // what Pack made, or nil
	Scratch              *Scratch
}

// GroupLinearLayer is a way to compute tiles, by Run. Pack, unless nil, is called for all rows of x first; Packed returns how
// many bytes it makes of a problem, of which a tile has the types and extents: 0 where Run does without. Tiles have
// MostLinearRows rows and LinearColumns columns at most.
type GroupLinearLayer struct {
	Run, Pack func(*GroupLinearTile)
	Packed    func(*GroupLinearTile) int64
}

// QuantizedLinearPerGroup computes y[m,n] = the sum over groups, left to right, of float(acc) * (sx[m] * sw[n,g]), then
// + bias[n], where acc = sum over k of (x[m,k] - zx[m]) * (weight[n,k] - zw[n,g]) is an exact integer. Zero points are
// rounded, and bounded by all codes of their codes' type.
var QuantizedLinearPerGroup = withDefinition(groupLinearRows, byCompute(
	GroupLinearLayer{Run: quantizedLinearPerGroup[float32]}, GroupLinearLayer{Run: quantizedLinearPerGroup[float64]},
))

func quantizedLinearPerGroup[C Compute](t *GroupLinearTile) {
	const together = 64 // rows of x, which share what is loaded of weight
	part, end := *t, t.M1
	for ; part.M0 < end; part.M0 += together {
		part.M1 = min(part.M0+together, end)
		groupLinearPart[C](&part)
	}
}

func groupLinearPart[C Compute](t *GroupLinearTile) {
	s, rows := t.Scratch, int(t.M1-t.M0)
	xScale, xZero, y := BlockOf[C](s, 0, rows), BlockOf[C](s, 1, rows), BlockOf[C](s, 2, rows)
	bias, scale, zero := BlockOf[C](s, 3, 1), BlockOf[C](s, 4, 1), BlockOf[C](s, 5, 1)
	Load(xScale, t.XScale.At(t.M0))
	loadZeroPoints(xZero, t.XZero.At(t.M0), t.X.DType)
	for n := t.N0; n < t.N1; n++ {
		clear(y)
		for k := int64(0); k < t.K; k += t.GroupSize {
			group := k / t.GroupSize
			Load(scale, t.Scale.Row(n, group))
			loadZeroPoints(zero, t.Zero.Row(n, group), t.Weight.DType)
			for i, acc := range groupSums(t, xZero, n, k, min(k+t.GroupSize, t.K), zero[0]) {
				term := C(fromInt[C](acc) * C(xScale[i]*scale[0]))
				if k > 0 {
					term += y[i]
				}
				y[i] = term
			}
		}
		Load(bias, t.Bias.At(n))
		for i := range y {
			if t.Bias.P != nil {
				y[i] += bias[0]
			}
			Store(t.Y.Row(t.M0+int64(i), n), y[i:i+1])
		}
	}
}

// groupSums returns, of each row of x, the exact sum over positions [begin, end) of products with row n of weight.
func groupSums[C Compute](t *GroupLinearTile, xZero []C, n, begin, end int64, zero C) []int64 {
	s := t.Scratch
	sums := s.Ints(0, len(xZero))
	clear(sums)
	for k := begin; k < end; k += Block {
		size := int(min(Block, end-k))
		w, x := BlockOf[C](s, 6, size), BlockOf[C](s, 7, size)
		loadCodes(&t.WeightRows, s, w, n, k)
		for i, z := range xZero {
			Load(x, t.X.Row(t.M0+int64(i), k))
			for j, q := range x {
				sums[i] += int64((q - z) * (w[j] - zero))
			}
		}
	}
	return sums
}

// loadZeroPoints loads what rounds to codes of a type, and is bounded by them; 0 where from is absent.
func loadZeroPoints[C Compute](to []C, from Span, codes tensor.DType) {
	clear(to)
	if from.P == nil {
		return
	}
	Load(to, from)
	lo, hi := codes.WholeRange()
	for i, z := range to {
		to[i] = roundZeroPoint(z, C(lo), C(hi))
	}
}
