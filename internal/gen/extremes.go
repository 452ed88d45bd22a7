package main

// heldOp is what an op does instead of its body to elements of f32 while its
// accumulators are in registers.
type heldOp struct {
	enter, body, leave func(k *kernel)
}

// heldExtremes takes the extremes of numbers as those of their bits, with two
// instructions instead of four. Of signed integers the largest is the bits of
// the largest number, of unsigned ones those of the smallest, provided that it
// is not below, or above, 0, which extremes include. A NaN stays in one of the
// two, by its sign.
var heldExtremes = &heldOp{
	enter: func(k *kernel) {
		for _, hi := range k.held[1] {
			k.noteNaN(hi, hi)
		}
	},
	body: func(k *kernel) {
		for i, x := range k.load(0) {
			lo, hi := k.held[0][i], k.held[1][i]
			k.emit("VPMAXUD", x, lo, lo)
			k.emit("VPMAXSD", x, hi, hi)
		}
	},
	leave: func(k *kernel) {
		zero := k.vector()
		k.emit("VPXORD", zero, zero, zero)
		for i, lo := range k.held[0] {
			k.noteNaN(lo, k.held[1][i])
			below := k.c.K()
			k.emit("VCMPPS", lessThan, zero, lo, below) // neither a NaN nor -0
			k.emit("VMOVAPS_Z", lo, below, lo)
		}
	},
}

// noteNaN makes the elements of to the one NaN that is larger than all numbers
// where those of v are NaNs.
func (k *kernel) noteNaN(v, to any) {
	isNaN := k.c.K()
	k.emit("VCMPPS", unordered, v, v, isNaN)
	k.emit("VMOVDQU32", k.constant(uint32(0x7fffffff)), isNaN, to)
}
