package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// How groups of an op's results are stored: rounded, masked at a run's end, or around the caches.

// store writes a group to the data output, rounded once.
func (k *kernel) store(v value) {
	k.forStored(func(t *storage) { k.write(t, t.pack(k, v)) })
}

// storeExact is store for values that are elements of the output's type.
func (k *kernel) storeExact(v value) {
	k.forStored(func(t *storage) { k.write(t, t.exact(k, v)) })
}

// forStored is forType of the output. Whole codes of one size are stored alike.
func (k *kernel) forStored(code func(t *storage)) {
	if k.out.pack != nil {
		code(k.out)
	} else {
		k.forType(k.out, code)
	}
}

func (k *kernel) write(t *storage, packed []reg.Register) {
	to := k.pointer("out", 0, t.size)
	switch {
	case k.remain != nil: // masked stores of whole vectors take longer than others where memory is far
		partly, stored := k.newLabel("partly"), k.newLabel("stored")
		branch(k.c.CMPQ, k.remain, operand.Imm(uint64(k.lanes)), k.c.JLT, partly)
		if packed[0].Size() == lineBytes {
			k.putOrStream(packed, to)
		} else {
			k.put(packed, to)
		}
		k.c.JMP(operand.LabelRef(stored))
		k.c.Label(partly)
		t.masked(k, packed, to)
		k.c.Label(stored)
	case k.tail != nil && k.joined != nil:
		k.where("joins", "join", "joined", func() { t.masked(k, packed, to) }, func() { k.joinSome(packed[0]) })
	case k.tail != nil:
		t.masked(k, packed, to)
	case k.joined != nil:
		k.where("joins", "join", "joined", func() { k.putOrStream(packed, to) }, func() { k.joinVectors(packed) })
	default:
		k.putOrStream(packed, to)
	}
}

// putOrStream stores registers one after the other, around the caches if the call does.
func (k *kernel) putOrStream(packed []reg.Register, to memory) {
	near := ""
	if k.repeats { // what need not begin at a multiple of a register
		near = k.newLabel("near")
		k.jumpIf("heads", near)
	}
	k.where("stream", "around", "stored", func() {
		if near != "" {
			k.c.Label(near)
		}
		k.put(packed, to)
	}, func() { k.putBy("VMOVNTDQ", packed, to) })
}

// put stores registers one after the other.
func (k *kernel) put(packed []reg.Register, to memory) {
	name := "VMOVDQU"
	if k.isa.masks {
		name = "VMOVDQU64"
	}
	k.putBy(name, packed, to)
}

func (k *kernel) putBy(name string, packed []reg.Register, to memory) {
	for _, r := range packed {
		if r.Size() == 8 {
			name = either(name == "VMOVNTDQ", "MOVNTIQ", "MOVQ")
		}
		k.emit(name, r, to)
		to = to.plus(int(r.Size()))
	}
}
