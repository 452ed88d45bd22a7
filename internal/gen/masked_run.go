package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// With masks, runs of a single strand end with lines of results, and what no whole line is left for is taken a vector at a
// time. Runs that follow one another and are stored around the caches begin so, too: a line that ends a run and begins the
// next is put together in memory that stays in the first cache. What the call's first and last runs share with others is
// stored where it belongs.

// maskedRun emits the parts of such a run, what is done between them aside.
type maskedRun struct {
	*kernel
	n, steps, left reg.GPVirtual // left is how many elements are taken under masks
	room           operand.Mem   // the line
	whole, some    string        // labels: of steps, of vectors under masks
	done           string
}

// runUnderMasks handles a run.
func (k *kernel) runUnderMasks(n, last, steps, ahead reg.GPVirtual, body func(k *kernel)) {
	c := k.c
	m := &maskedRun{k, n, steps, c.GP64(), operand.Mem{}, k.newLabel("whole"), k.newLabel("some"), k.newLabel("done")}
	if k.joined != nil {
		m.left = k.joined.left
	}
	if k.shares {
		m.room = k.roomForEnd("line", lineBytes)
	}
	take := func(elements int) {
		k.ask(ahead, elements)
		body(k)
		c.ADDQ(operand.U32(elements), k.index)
	}
	k.index = c.GP64()
	c.XORQ(k.index, k.index)
	m.share("head", m.begin)
	c.Label(m.whole)
	step, next, rest := k.group*k.lanes, k.newLabel("next"), k.newLabel("rest")
	branch(c.CMPQ, k.index, last, c.JGT, rest)
	c.Label(next)
	take(step)
	branch(c.CMPQ, k.index, last, c.JLE, next)
	c.Label(rest)
	c.MOVQ(n, m.left)
	c.SUBQ(k.index, m.left)
	if k.joins() { // for narrower results the question takes longer
		c.JEQ(operand.LabelRef(m.done))
	}
	if k.fewLines(step) {
		k.ask(ahead, step)
		take = func(elements int) {
			body(k)
			c.ADDQ(operand.U32(elements), k.index)
		}
	}
	group, split := k.group, k.split
	halve := func(takes func(elements int) bool) { // masked stores take longer
		for k.group = group / 2; k.group > 0; k.group /= 2 {
			if elements := k.group * k.lanes; takes(elements) {
				fewer := k.newLabel("fewer")
				branch(c.CMPQ, m.left, operand.U32(elements), c.JLT, fewer)
				take(elements)
				c.SUBQ(operand.U32(elements), m.left)
				c.Label(fewer)
			}
		}
		k.group = group
	}
	halve(func(elements int) bool { return elements*k.out.size >= lineBytes }) // less than a line is left
	k.split = false
	m.share("tail", m.end)
	halve(func(elements int) bool { return elements*k.out.size < lineBytes && elements >= 16 })
	c.Label(m.some)
	k.some(m.left, 0, take)
	m.share("taken", m.goOn)
	c.Label(m.done)
	k.split = split
}

// fewLines reports whether so many elements are no more than two lines of each input, which are asked for at once.
func (k *kernel) fewLines(elements int) bool {
	few := true
	k.forInputs(func(_ string, t *storage) { few = few && elements*t.size <= 2*lineBytes })
	return few
}

// share emits a jump to what is done where runs share lines.
func (m *maskedRun) share(name string, emit func()) {
	if !m.shares {
		return
	}
	label := m.newLabel(name)
	m.jumpIf("shares", label)
	m.aside = append(m.aside, func() {
		m.c.Label(label)
		emit()
	})
}

// begin takes the elements before the first line, to the room if the run before has begun the line.
func (m *maskedRun) begin() {
	c, within := m.c, m.withinLine(m.ptr["out"])
	c.JEQ(operand.LabelRef(m.whole))
	c.MOVQ(operand.U32(lineBytes), m.left)
	c.SUBQ(within, m.left)
	c.SHRQ(m.shift(), m.left)
	c.MOVQ(m.ptr["out"], m.field("outRow"))
	m.jumpUnless("begun", m.some)
	c.LEAQ(m.room, m.ptr["out"])
	c.ADDQ(within, m.ptr["out"])
	c.JMP(operand.LabelRef(m.some))
}

// end takes the elements after the last line, to the room unless this is the call's last run.
func (m *maskedRun) end() {
	c, before := m.c, m.c.GP64()
	branch(c.TESTQ, m.left, m.left, c.JEQ, m.done)
	c.MOVQ(m.ptr["out"], m.field("outRow"))
	branch(c.CMPQ, m.steps, operand.Imm(1), c.JEQ, m.some)
	c.MOVB(operand.U8(1), m.field("begun"))
	c.MOVQ(m.index, before)
	c.SHLQ(m.shift(), before)
	c.LEAQ(m.room, m.ptr["out"])
	c.SUBQ(before, m.ptr["out"])
	c.JMP(operand.LabelRef(m.some))
}

// goOn goes on after either, behind what the last vector should not have taken.
func (m *maskedRun) goOn() {
	c, line, v := m.c, m.c.GP64(), m.vector()
	c.ADDQ(m.left, m.index)
	c.MOVQ(m.field("outRow"), m.ptr["out"])
	branch(c.CMPQ, m.index, m.n, c.JEQ, m.done)
	m.jumpUnless("begun", m.whole)
	c.MOVB(operand.U8(0), m.field("begun"))
	c.MOVQ(m.index, line)
	c.SHLQ(m.shift(), line)
	c.ADDQ(m.ptr["out"], line)
	m.emit("VMOVDQU64", m.room, v)
	m.emit("VMOVNTDQ", v, operand.Mem{Base: line, Disp: -lineBytes})
	c.JMP(operand.LabelRef(m.whole))
}
