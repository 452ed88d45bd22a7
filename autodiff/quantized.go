package autodiff

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Quantized is a tensor of codes with the parameters that give them meaning:
// the value of a code q is (q - zero point) * scale.
//
// It carries a gradient: quantizing is differentiated by the straight-through
// estimate, which passes the gradient where the code was not clamped and
// stops it elsewhere.
type Quantized[B Backend] struct {
	Codes     Tensor[B] // integers of up to 32 bits, a float type that holds whole numbers, or 8-bit floats
	Scale     Float[B]  // one, or one for each group: see Scheme
	ZeroPoint Tensor[B] // an Int's, a Float's or absent (0)
	Scheme    Scheme    // how the tensor was quantized
}

// attr returns an operation's attributes with the scheme as it is now: a graph holds them.
func (s Scheme) attr() *Attr {
	s.BlockSize = slices.Clone(s.BlockSize)
	return &Attr{Scheme: &s}
}

// Quantize rounds x / scale to codes. A zero point, an Int's tensor or a
// Float's, may follow the scheme.
func (x Float[B]) Quantize(scale Float[B], s Scheme, zeroPoint ...Tensor[B]) Quantized[B] {
	z := optional(x.be, zeroPoint)
	codes := x.run(OpQuantize, s.attr(), scale.Tensor, z)
	return Quantized[B]{codes, scale, z, s}
}

func optional[B Backend](be B, zeroPoint []Tensor[B]) Tensor[B] {
	switch len(zeroPoint) {
	case 0:
		return Tensor[B]{}
	case 1:
		return zeroPoint[0]
	}
	return failed(be, "%d zero points; want at most 1", len(zeroPoint))
}

// QuantizeDynamic is Quantize with parameters that span x (see ChooseQParams).
func (x Float[B]) QuantizeDynamic(s Scheme) Quantized[B] {
	scale, zeroPoint := x.ChooseQParams(s)
	return x.Quantize(scale, s, zeroPoint.Tensor)
}

// ChooseQParams returns a scale that spans the elements it is for, and a zero
// point if the scheme is asymmetric. They carry no gradient.
func (x Float[B]) ChooseQParams(s Scheme) (Float[B], Int[B]) {
	out := x.runAll(OpChooseQParams, s.attr())
	if !s.Asymmetric && out[0].err == nil {
		return Float[B]{out[0]}, Int[B]{}
	}
	return Float[B]{out[0]}, Int[B]{out[1]}
}

// FakeQuantize is Quantize and Dequantize in one pass, the same bits, for the
// scheme's 8-bit floats as for whole numbers. Its gradient passes where the
// code was not clamped; a scale and a float zero point get the gradients of
// learned step sizes, times the GradFactor.
func (x Float[B]) FakeQuantize(scale Float[B], s Scheme, zeroPoint ...Tensor[B]) Float[B] {
	return Float[B]{x.run(OpFakeQuantize, s.attr(), scale.Tensor, optional(x.be, zeroPoint))}
}

// Dequantize returns the codes' values as a float tensor.
func (q Quantized[B]) Dequantize(d tensor.DType) Float[B] {
	at := q.Scheme.attr()
	at.DType = d
	return Float[B]{q.Codes.run(OpDequantize, at, q.Scale.Tensor, q.ZeroPoint)}
}

// Err returns what went wrong on the way to q.
func (q Quantized[B]) Err() error { return q.Codes.Err() }
