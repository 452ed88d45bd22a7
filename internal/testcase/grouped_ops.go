package testcase

import (
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// groupedOp is an op over elements that share scales, in every granularity.
type groupedOp struct {
	name, suffix string // around the granularity
	first        string // the argument whose shape the others follow
	firstType    func(s *Source) tensor.DType
	keys         func(s *Source, t *text, first tensor.DType)
}

var groupedOps = []groupedOp{
	{"quantize", "", "x", (*Source).float, quantizeKeys},
	{"quantize", "_backward", "grad_output", (*Source).float, quantizeBackwardKeys},
	{"dequantize", "", "q", codeType, dequantizeKeys},
	{"dequantize", "_backward", "grad_output", (*Source).float, dequantizeBackwardKeys},
	{"fake_quantize", "", "x", (*Source).float, fakeQuantizeKeys},
	{"fake_quantize", "_backward", "grad_output", (*Source).float, fakeQuantizeBackwardKeys},
	{"choose_qparams", "", "x", (*Source).float, chooseKeys},
	{"dynamic_quantize", "", "x", (*Source).float, dynamicKeys},
}

var granularities = []struct {
	name string
	rank int // the smallest
	keys func(s *Source, t *text, shape []int64)
}{
	{"tensor", 0, func(*Source, *text, []int64) {}},
	{"channel", 1, func(s *Source, t *text, shape []int64) { t.add("axis", s.axis(shape)) }},
	{"token", 1, func(*Source, *text, []int64) {}},
	{"group", 1, func(s *Source, t *text, shape []int64) { t.add("group_size", s.block(shape[len(shape)-1])) }},
	{"block", 0, func(s *Source, t *text, shape []int64) {
		size := make([]int64, len(shape))
		for i, d := range shape {
			size[i] = s.block(d)
		}
		t.add("block_size", tensor.ShapeString(size))
	}},
}

// axis draws a dimension, counted from either end: often the widest.
func (s *Source) axis(shape []int64) int {
	axis := s.IntN(len(shape))
	if s.IntN(2) == 0 {
		axis = slices.Index(shape, slices.Max(shape))
	}
	return axis - oneOf(s, 0, len(shape))
}

// block draws the size of a block along an extent: often one that leaves a
// shorter last block, now and then one element or more than the whole.
func (s *Source) block(extent int64) int64 {
	switch k := s.IntN(4); {
	case k == 0 || k == 1 && s.Size == Wide:
		return 1
	case k == 2 && s.Size == Wide:
		return extent
	}
	return 1 + s.Int64N(extent+2)
}

func codeType(s *Source) tensor.DType {
	return oneOf(s, tensor.S8, tensor.U8, tensor.S8, tensor.U8, s.float(), s.float(), s.float(), tensor.S4, tensor.U4,
		tensor.S16, tensor.U16, tensor.I32, tensor.F8E4M3, tensor.F8E5M2)
}

// bounds are qmin and qmax.
type bounds [2]int64

// s8Bounds are bounds that s8, and every float type, holds.
var s8Bounds = []bounds{{-128, 127}, {-127, 127}, {-8, 7}, {0, 127}, {0, 0}}

// codeBounds are bounds that a type of codes holds, 0 between them; of None, where
// no codes are passed, s8's.
var codeBounds = map[tensor.DType][]bounds{
	tensor.None:   s8Bounds,
	tensor.S8:     s8Bounds,
	tensor.U8:     {{0, 255}, {0, 15}, {0, 1}},
	tensor.S16:    append(slices.Clip(s8Bounds), bounds{-1 << 15, 1<<15 - 1}),
	tensor.U16:    {{0, 255}, {0, 1<<16 - 1}},
	tensor.I32:    append(slices.Clip(s8Bounds), bounds{-1 << 24, 1 << 24}, bounds{-1 << 31, 1<<31 - 1}),
	tensor.S4:     {{-8, 7}, {-4, 3}, {0, 7}},
	tensor.U4:     {{0, 15}, {0, 1}},
	tensor.F32:    append(slices.Clip(s8Bounds), bounds{-1 << 23, 1 << 23}),
	tensor.F64:    append(slices.Clip(s8Bounds), bounds{-1 << 23, 1 << 23}),
	tensor.F16:    append(slices.Clip(s8Bounds), bounds{-2048, 2048}),
	tensor.BF16:   append(slices.Clip(s8Bounds), bounds{-256, 256}),
	tensor.F8E4M3: append(slices.Clip(s8Bounds), bounds{-448, 448}),
	tensor.F8E5M2: append(slices.Clip(s8Bounds), bounds{-57344, 57344}),
}

// codeRange draws bounds that a type of codes holds.
func (s *Source) codeRange(t *text, dtype tensor.DType) { s.codeRangeTo(t, dtype, 0) }

// codeRangeTo has the last code be at least this one.
func (s *Source) codeRangeTo(t *text, dtype tensor.DType, last int64) {
	b := oneOf(s, codeBounds[dtype]...)
	t.add("qmin", b[0])
	t.add("qmax", max(b[1], last))
}

// params draws the types of scale and zero point for a type of codes.
func (s *Source) params(t *text, code tensor.DType) (scale, zeroPoint tensor.DType) {
	scale = s.float()
	zeroPoint = oneOf(s, tensor.I32, tensor.I64, tensor.S8, tensor.U8, tensor.S16, tensor.U16, tensor.None, s.float())
	if code.IsFloat8() {
		zeroPoint = tensor.None
	}
	t.add("scale", scale)
	t.add("zero_point", zeroPoint)
	return scale, zeroPoint
}

func (s *Source) rounding(t *text) { t.add("rounding", oneOf(s, "nearest", "nearest", "reciprocal")) }

// unstored draws the type of codes that are not a tensor; whole numbers stand
// within a type's range.
func (s *Source) unstored(t *text, whole tensor.DType) tensor.DType {
	code := oneOf(s, whole, whole, whole, tensor.F8E4M3, tensor.F8E5M2)
	if code != whole {
		t.add("code", code)
	}
	s.codeRange(t, code)
	return code
}

func quantizeKeys(s *Source, t *text, _ tensor.DType) {
	q := t.storable(codeType(s))
	t.add("q", q)
	s.codeRange(t, q)
	s.params(t, q)
	s.rounding(t)
}

func quantizeBackwardKeys(s *Source, t *text, _ tensor.DType) {
	if s.IntN(2) == 0 {
		t.add("x", s.float())
	}
	s.params(t, s.unstored(t, tensor.I32))
	s.rounding(t)
}

func dequantizeKeys(s *Source, t *text, q tensor.DType) {
	t.add("y", s.float())
	s.codeRange(t, q)
	s.params(t, q)
}

func dequantizeBackwardKeys(s *Source, t *text, _ tensor.DType) {
	q := t.storable(oneOf(s, codeType(s), codeType(s), tensor.None))
	scale, zeroPoint := s.params(t, q)
	t.add("q", q)
	s.codeRange(t, q)
	s.gradients(t, scale, zeroPoint, q != tensor.None)
}

// gradients draws which of a backward op's outputs there are: at least one.
func (s *Source) gradients(t *text, scale, zeroPoint tensor.DType, ofScale bool) {
	hasOther := false
	if ofScale && s.IntN(3) > 0 {
		t.add("grad_scale", scale)
		hasOther = true
	}
	if zeroPoint.IsFloat() && s.IntN(3) > 0 {
		t.add("grad_zero_point", zeroPoint)
		hasOther = true
	}
	if hasOther && s.IntN(2) == 0 {
		t.add("grad_input", tensor.None)
	}
}

func fakeQuantizeKeys(s *Source, t *text, _ tensor.DType) {
	s.params(t, s.unstored(t, tensor.F32))
	s.rounding(t)
}

func fakeQuantizeBackwardKeys(s *Source, t *text, _ tensor.DType) {
	scale, zeroPoint := s.params(t, s.unstored(t, tensor.F32))
	s.gradients(t, scale, zeroPoint, true)
	t.add("grad_factor", oneOf(s, 1, 0.01, -0.5))
	s.rounding(t)
}

func chooseKeys(s *Source, t *text, _ tensor.DType) {
	s.chosen(t, tensor.S8)
}

func dynamicKeys(s *Source, t *text, _ tensor.DType) {
	q := t.storable(oneOf(s, tensor.S8, tensor.U8, tensor.S4, tensor.U4, tensor.S16, tensor.U16))
	t.add("q", q)
	s.chosen(t, q)
}

func (s *Source) chosen(t *text, q tensor.DType) {
	s.codeRangeTo(t, q, 1)
	t.add("scale", s.float())
	symmetric := s.IntN(2) == 0
	t.add("symmetric", symmetric)
	if s.IntN(3) == 0 {
		t.add("eps", oneOf(s, 0x1p-23, 0.01, 1e-40, 3))
	}
	if symmetric {
		t.add("zero_point", oneOf(s, tensor.None, tensor.I32))
	} else {
		t.add("zero_point", indexType(s))
	}
}
