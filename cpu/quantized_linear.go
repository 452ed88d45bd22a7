package cpu

import "unsafe"

// LinearTile is a part of a quantized linear layer: rows [M0, M1) of x
// against rows [N0, N1) of weight.
type LinearTile struct {
	X, Weight            Rows // s8 codes, K columns
	XScale, WScale, Bias Span
	Y                    Rows
	M0, M1, N0, N1, K    int64
	Scratch              *Scratch
}

// maxInt32Depth products of two bytes always sum up within 32 bits.
const maxInt32Depth = 65536

// QuantizedLinear computes y[m,n] = float(acc) * (sa[m] * sw[n]) + bias[n],
// where acc = sum over k of x[m,k] * weight[n,k] is an exact integer.
var QuantizedLinear = []Row[func(*LinearTile)]{
	{"go", Go, ByCompute(quantizedLinearGo[float32], quantizedLinearGo[float64])},
}

func quantizedLinearGo[C Compute](t *LinearTile) {
	for n0 := t.N0; n0 < t.N1; n0 += Block {
		width := int(min(Block, t.N1-n0))
		sa := BlockOf[C](t.Scratch, 0, 1)
		sw, bias, y := BlockOf[C](t.Scratch, 1, width), BlockOf[C](t.Scratch, 2, width), BlockOf[C](t.Scratch, 3, width)
		Load(sw, t.WScale.At(n0))
		Load(bias, t.Bias.At(n0))
		for m := t.M0; m < t.M1; m++ {
			Load(sa, t.XScale.At(m))
			for i := range y {
				acc := dot(t.X.Row(m, 0), t.Weight.Row(n0+int64(i), 0), t.K)
				y[i] = C(C(acc) * C(sa[0]*sw[i]))
				if t.Bias.P != nil {
					y[i] += bias[i]
				}
			}
			Store(t.Y.Row(m, n0), y)
		}
	}
}

// dot returns the exact sum of products of n signed bytes.
func dot(a, b Span, n int64) (sum int64) {
	for at := int64(0); at < n; at += maxInt32Depth {
		m := min(maxInt32Depth, n-at)
		sum += int64(dot32(a.At(at), b.At(at), m))
	}
	return sum
}

func dot32(a, b Span, n int64) (sum int32) {
	if a.Stride == 1 && b.Stride == 1 {
		x, y := unsafe.Slice((*int8)(a.P), n), unsafe.Slice((*int8)(b.P), n)
		for i, v := range x {
			sum += int32(v) * int32(y[i])
		}
		return sum
	}
	for i := range n {
		sum += int32(*(*int8)(a.At(i).P)) * int32(*(*int8)(b.At(i).P))
	}
	return sum
}
