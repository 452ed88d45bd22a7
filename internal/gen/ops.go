package main

import (
	"slices"
	"strings"
)

// ops lists what is generated, one file each. Adding an op is adding an entry:
// its operands, the types it is made for, and what happens to a vector.
var ops = []*op{
	{
		name:   "Quantize",
		doc:    "q[i] = clamp(rint(x[i]/scale)+zero, lo, hi), a NaN quotient counting as 0",
		docF8:  "q[i] = clamp(x[i]/scale, lo, hi), a NaN staying one",
		params: 2, bounds: true,
		types: slices.Concat(over("a:b", floats, code8), over("a:b", floatsRead, code16, i32), over("a:a", floatsRead),
			rounding(over("a:b", floatsRead, float8Type))),
		body:  (*kernel).quantize,
		quick: (*kernel).quickQuantize,
	},
	{
		name:   "DynamicQuantize",
		doc:    "of each run: scale and zero chosen from the extremes of x; then as Quantize",
		params: 2, bounds: true, chooses: true,
		types: slices.Concat(over("a:b", []*storage{f32, f16, bf16}, code8), over("a:b", []*storage{f32, anyHalf}, code16)),
		body:  (*kernel).quantize,
		quick: (*kernel).quickQuantize,
	},
	{
		name:   "ChooseQParams",
		doc:    "of each run: scale and zero chosen from the extremes of x",
		params: 2, bounds: true, chooses: true,
		types: over("a:", []*storage{f32, anyHalf}),
	},
	{
		name:   "QuantizeBackward",
		doc:    "dx[i] = inside(x[i]) ? dy[i]/scale : +0",
		docF8:  "dx[i] = lo <= x[i]/scale <= hi ? dy[i]/scale : +0",
		params: 2, bounds: true,
		types: withFloat8(over("aa:a", floatsRead)),
		body: func(k *kernel) {
			in := k.inside(k.load(1))
			k.store(k.keep(in, k.div(k.load(0), k.scale())))
		},
	},
	{
		name:   "Dequantize",
		doc:    "y[i] = (q[i] - zero) * scale",
		params: 2,
		types:  slices.Concat(over("a:b", codesRead, floatsRead...), over("a:a", floats)),
		// What is done with 16 elements takes no longer than branches between types.
		onAVX2: slices.Concat(over("a:b", []*storage{s8, u8, s16, u16, i32, float8Type}, floatsRead...), over("a:a", floats)),
		body: func(k *kernel) {
			k.store(k.mul(k.codeLessZero(0), k.scale()))
		},
	},
	{
		name:   "DequantizeBackwardInput",
		doc:    "dq[i] = dy[i] * scale",
		params: 1,
		types:  over("a:a", floats),
		body: func(k *kernel) {
			k.store(k.mul(k.load(0), k.scale()))
		},
	},
	{
		name:   "DequantizeBackward",
		doc:    "dq[i] = dy[i] * scale; sum0[i] += dy[i] * (q[i] - zero); sum1[i] += dy[i]",
		params: 2, sums: 2,
		types: slices.Concat(over("ab:a", floatsRead, codesRead...), over("aa:a", floatsRead)),
		body: func(k *kernel) {
			dy := k.load(0)
			k.accumulate(0, nil, k.mul(dy, k.codeLessZero(1)))
			k.accumulate(1, nil, dy)
			k.store(k.mul(dy, k.scale()))
		},
	},
	{
		name:   "FakeQuantize",
		doc:    "y[i] = (clamp(rint(x[i]/scale)+zero, lo, hi) - zero) * scale, a NaN quotient counting as 0",
		docF8:  "y[i] = f8(clamp(x[i]/scale, lo, hi)) * scale, a NaN staying one",
		params: 2, bounds: true,
		types: withFloat8(over("a:a", floats)),
		body: func(k *kernel) {
			u := k.quotient(k.load(0), k.scale())
			k.store(k.mul(k.sub(k.code(u), k.zero()), k.scale()))
		},
		quick: func(k *kernel) {
			k.store(k.quickValue(k.quickQuotient()))
		},
	},
	{
		name:   "FakeQuantizeBackwardInput",
		doc:    "dx[i] = inside(x[i]) ? dy[i] : +0",
		docF8:  "dx[i] = lo <= x[i]/scale <= hi ? dy[i] : +0",
		params: 2, bounds: true,
		types: withFloat8(over("aa:a", floatsRead)),
		body: func(k *kernel) {
			in := k.inside(k.load(1))
			k.storeExact(k.keep(in, k.load(0)))
		},
	},
	{
		name:   "FakeQuantizeBackward",
		doc:    "dx[i] = inside(x[i]) ? dy[i] : +0; sum0[i] += dy[i] * e; sum1[i] += below or above ? dy[i] : +0, where e is rint(u)-u inside, lo-zero below, hi-zero above, and there is no term for a NaN u = x[i]/scale",
		docF8:  "dx[i] = lo <= u <= hi ? dy[i] : +0; sum0[i] += dy[i] * e; sum1[i] += below or above ? dy[i] : +0, where e is f8(u)-u inside, lo below, hi above, and there is no term for a NaN u = x[i]/scale",
		params: 2, bounds: true, relative: true, sums: 2, group: 2,
		types: withFloat8(over("aa:a", floatsRead)),
		body: func(k *kernel) {
			u := k.quotient(k.load(1), k.scale())
			r := k.round(u)
			t := r
			if k.codes != nil {
				t = u // which bounds are held against
			}
			nearest := k.max(k.min(t, k.last()), k.first())
			in, outside := k.compare(t, equal, nearest), k.compare(t, otherThan, nearest)
			e := k.subWhere(in, r, u, nearest)
			dy := k.load(0)
			k.accumulate(0, k.either(in, outside), k.mul(dy, e))
			k.accumulate(1, outside, dy)
			k.storeExact(k.keep(in, dy))
		},
	},
	{
		name:  "MinMax",
		doc:   "sum0[i] = min(sum0[i], x[i]); sum1[i] = max(sum1[i], x[i]), a NaN x[i] giving a NaN in sum1",
		sums:  2,
		types: over("a:", floats),
		held:  heldExtremes,
		body: func(k *kernel) {
			x := k.load(0)
			k.fold(0, func(lowest value) value { return k.min(x, lowest) })
			k.fold(1, func(highest value) value {
				return k.pick(k.compare(x, unordered, x), x, k.max(x, highest))
			})
		},
	},
}

// quantize stores the codes of elements.
func (k *kernel) quantize() { k.store(k.code(k.quotient(k.load(0), k.scale()))) }

// quickQuantize is quantize without divisions.
func (k *kernel) quickQuantize() {
	u := k.quickQuotient()
	if k.out == code8 {
		k.storeQuick(u)
	} else {
		k.columnParameter("zero")
		k.store(k.add(k.rintOrZero(u), k.zero()))
	}
}

// code returns clamp(rint(u) + zero), a NaN u counting as 0; of 8-bit floats
// clamp(u), rounded, unless storing it rounds.
func (k *kernel) code(u value) value {
	if k.codes != nil {
		u = k.max(k.lo(), k.min(k.hi(), u)) // a NaN stays, and so does -0
		if k.codes == k.out {
			return u
		}
		return k.roundFloat8(u)
	}
	r := k.rintOrZero(u)
	return k.clamp(k.add(r, k.zero()))
}

// inside returns where x quantizes to a code within the bounds.
func (k *kernel) inside(x value) mask {
	u := k.quotient(x, k.scale())
	if k.codes == nil {
		u = k.place(u, k.rint(u))
	}
	return k.within(u, k.lo(), k.hi())
}

// round returns the code that u stands for, the zero point left out.
func (k *kernel) round(u value) value {
	if k.codes != nil {
		return k.roundFloat8(u)
	}
	return k.rint(u)
}

// place returns what is held against the bounds, of u and its rounded value:
// of 8-bit floats u itself.
func (k *kernel) place(u, rounded value) value {
	if k.codes != nil {
		return u
	}
	return k.add(rounded, k.zero())
}

// The types that kernels are made for.
var (
	floats     = []*storage{f32, f64, f16, bf16}
	floatsRead = []*storage{f32, f64, anyHalf}
	codesRead  = []*storage{anyByte, code16, i32}
)

// computeOf returns the type that storage types compute in.
func computeOf(types ...*storage) *storage {
	if slices.Contains(types, f64) {
		return f64
	}
	return f32
}

// variant is the types that one kernel is made for.
type variant struct {
	compute *storage
	in      []*storage // of the data inputs
	out     *storage   // of the data output, or nil
	code    *storage   // float8Type where codes are rounded to one, or nil
}

// over makes a variant for each type of a list, or each pair with one of a second
// list. The pattern says which the data inputs have and, behind the colon, the output:
// a is of the first list, b of the second.
func over(pattern string, first []*storage, second ...*storage) (all []variant) {
	ins, out, _ := strings.Cut(pattern, ":")
	if len(second) == 0 {
		second = []*storage{nil}
	}
	for _, a := range first {
		for _, b := range second {
			of := map[rune]*storage{'a': a, 'b': b}
			v := variant{compute: computeOf(a, b)}
			for _, name := range ins {
				v.in = append(v.in, of[name])
			}
			for _, name := range out {
				v.out = of[name]
			}
			all = append(all, v)
		}
	}
	return all
}

// rounding has codes rounded to the 8-bit floats of the output.
func rounding(pairs []variant) (all []variant) {
	for _, v := range pairs {
		v.code = v.out
		all = append(all, v)
	}
	return all
}

// withFloat8 adds the variants for codes that are 8-bit floats.
func withFloat8(whole []variant) (all []variant) {
	all = whole
	for _, v := range whole {
		v.code = float8Type
		all = append(all, v)
	}
	return all
}
