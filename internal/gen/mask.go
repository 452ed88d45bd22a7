package main

import "github.com/mmcloughlin/avo/reg"

// mask holds one truth value for each element: mask registers, or vectors.
type mask []reg.Register

// The comparisons of VCMP that are in use; false for a NaN, but unordered.
const (
	equal        = 0
	lessThan     = 1
	unordered    = 3
	ordered      = 7
	otherThan    = 12
	lessEqual    = 18
	greaterEqual = 29
)

// compare returns where a and b compare so.
func (k *kernel) compare(a value, predicate int, b value) mask {
	m := make(mask, k.group)
	for i := range m {
		if k.isa.masks {
			m[i] = k.c.K()
		} else {
			m[i] = k.vector()
		}
		k.emit(k.ps("VCMP"), predicate, b[i], a[i], m[i])
	}
	return m
}

// within returns where lo <= a <= hi; false for a NaN.
func (k *kernel) within(a, lo, hi value) mask {
	if !k.isa.masks {
		return k.both(k.compare(a, greaterEqual, lo), k.compare(a, lessEqual, hi))
	}
	m := k.compare(a, greaterEqual, lo)
	for i := range m {
		k.emit(k.ps("VCMP"), lessEqual, hi[i], a[i], m[i], m[i])
	}
	return m
}

// lessThan returns where signed integers a are less than b.
func (k *kernel) lessThan(a, b value) mask {
	if k.isa.masks {
		m := k.c.K()
		k.emit("VPCMPGTD", a[0], b[0], m)
		return mask{m}
	}
	m := k.vector()
	k.emit("VPCMPGTD", a[0], b[0], m)
	return mask{m}
}

// both returns where a and b hold.
func (k *kernel) both(a, b mask) mask { return k.combine("KANDW", "VAND", a, b) }

// either returns where a or b holds.
func (k *kernel) either(a, b mask) mask { return k.combine("KORW", "VOR", a, b) }

func (k *kernel) combine(masks, vectors string, a, b mask) mask {
	m := make(mask, k.group)
	for i := range m {
		if k.isa.masks {
			m[i] = k.c.K()
			k.emit(masks, b[i], a[i], m[i])
		} else {
			m[i] = k.vector()
			k.emit(k.ps(vectors), b[i], a[i], m[i])
		}
	}
	return m
}

// keep returns a where the mask holds, else +0.
func (k *kernel) keep(m mask, a value) value {
	to := k.newValue()
	for i := range to {
		if k.isa.masks {
			k.emit(k.ps("VMOVA")+"_Z", a[i], m[i], to[i])
		} else {
			k.emit(k.ps("VAND"), a[i], m[i], to[i])
		}
	}
	return to
}

// subWhere returns a - b where the mask holds, else c, which it may change.
func (k *kernel) subWhere(m mask, a, b, c value) value {
	if !k.isa.masks {
		return k.pick(m, k.sub(a, b), c)
	}
	for i := range c {
		k.emit(k.ps("VSUB"), b[i], a[i], m[i], c[i])
	}
	return c
}

// pick returns a where the mask holds, else b.
func (k *kernel) pick(m mask, a, b value) value {
	to := k.newValue()
	for i := range to {
		if k.isa.masks {
			k.emit(k.ps("VBLENDM"), a[i], b[i], m[i], to[i])
		} else {
			k.emit(k.ps("VBLENDV"), m[i], a[i], b[i], to[i])
		}
	}
	return to
}
