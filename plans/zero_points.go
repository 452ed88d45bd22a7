package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// checkZeroAttr lets the gradient of weight_only_linear have the zero points that
// its forward has.
var checkZeroAttr = attr{
	name: "check_zero_point", kind: boolAttr, def: true,
	doc: "true: integer zero points lie within qmin and qmax; false: they may be any, as in weight_only_linear; not with i32 codes",
}

// checkUnchecked refuses zero points that may be any beside codes of 32 bits: no
// type has all differences.
func checkUnchecked(p *Problem) error {
	if !p.bool("check_zero_point") && p.DType("q") == tensor.I32 {
		return p.errorf("check_zero_point", "is %v; want %v with %s codes", false, true, tensor.I32)
	}
	return nil
}

// checkZeroPoints makes the check that integer zero points, if there are any, lie within [qmin, qmax].
func checkZeroPoints(p *Problem) func(c *call) error {
	i := p.op.arg("zero_point")
	if i < 0 || p.op.args[i].out || !p.types[i].IsInt() {
		return nil
	}
	if k := p.op.attr("check_zero_point"); k >= 0 && !p.attrs[k].(bool) {
		return nil
	}
	lo, hi, outside, n := p.int("qmin"), p.int("qmax"), outsideOf[p.types[i]], tensor.NumElements(p.shapes[i])
	wrong := func(at, z int64) error {
		return errorf(InvalidArgument, p.op.name, "zero_point", "is %d at position %d; want %d to %d", z, at, lo, hi)
	}
	return func(c *call) error {
		v := &c.args[i]
		if n == 1 || v.IsContiguous() {
			if at, z := outside(v.Data, n, lo, hi); at >= 0 {
				return wrong(at, z)
			}
			return nil
		}
		for number := range n {
			if at, z := outside(unsafe.Add(v.Data, elementOffset(v, number)*v.DType.Size()), 1, lo, hi); at >= 0 {
				return wrong(number, z)
			}
		}
		return nil
	}
}

// outsideOf finds, by type, the first of n integers that is not within [lo, hi]:
// where it is, -1 if there is none, and what it is.
var outsideOf = [...]func(p unsafe.Pointer, n, lo, hi int64) (at, z int64){
	tensor.S8: firstBeyond[int8], tensor.U8: firstBeyond[uint8], tensor.S16: firstBeyond[int16], tensor.U16: firstBeyond[uint16],
	tensor.I32: firstBeyond[int32], tensor.I64: firstBeyond[int64],
}

func firstBeyond[T int8 | uint8 | int16 | uint16 | int32 | int64](p unsafe.Pointer, n, lo, hi int64) (at, z int64) {
	for i, z := range unsafe.Slice((*T)(p), n) {
		if int64(z) < lo || int64(z) > hi {
			return int64(i), int64(z)
		}
	}
	return -1, 0
}
