package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Runs and groups of which a call takes many lie one after the other in every data operand, or in copies. What they have one
// of each, parameters and results, may lie in another order, or with gaps: then that of a call is copied, too.

// operandSet is some operands of a layout, a bit for each.
type operandSet uint

// operandsBelow is the set of the first n operands.
func operandsBelow(n int) operandSet { return 1<<n - 1 }

// dataOperands are those of elements.
func (f *groupedPlan) dataOperands() (data operandSet) {
	for k := range kernelOperands {
		if !f.param[k] {
			data |= 1 << k
		}
	}
	return data
}

// joinFollowing finds how many groups follow one another in all data operands.
func (f *groupedPlan) joinFollowing(c *call) {
	g := &c.groups
	d := g.dims - 1
	c.following = g.size[d]
	for ; d > 0 && g.joins(d-1, d, f.data); d-- {
		c.following *= g.size[d-1]
	}
}

// The sides of groups: scales, zero points and two results.
const (
	resultSide = 2
	sideCount  = 4
)

// sides are their layouts, in the order in which groups are taken, each by itself, so that the strides of the others do not
// cut its rows. One that is absent has no start.
type sides [sideCount]layout

// sideOperand returns the operand that is a side, or -1.
func (f *groupedPlan) sideOperand(side int) int {
	switch {
	case side >= resultSide:
		return firstGroupValue + side - resultSide
	case f.scale >= 0:
		return f.scale + side
	}
	return -1
}

// laySides lays out the sides of groups that the first dimensions of a layout go through.
func (f *groupedPlan) laySides(c *call, l *layout, dims int) {
	for i := range need(&c.sides) {
		s, k := &c.sides[i], f.sideOperand(i)
		if s.start[0] = nil; k >= 0 && l.start[k] != nil {
			s.onlyFirst(l, k, dims)
		}
	}
}

// putSides sets the starts of sides, if any were laid out, to the addresses of the present arguments.
func (f *groupedPlan) putSides(c *call) {
	if c.sides == nil {
		return
	}
	for i := range c.sides {
		if k := f.sideOperand(i); k >= 0 {
			c.sides[i].start[0] = f.address(c, k)
		}
	}
}

// forget clears all pointers.
func (s *sides) forget() {
	for i := range s {
		s[i].start[0] = nil
	}
}

// sideAt returns what n groups have of a side, from the first group on, where the worker's cursor is: where that is, or,
// where it does not lie in one row, room for a copy.
func (f *groupedPlan) sideAt(c *call, w *worker, side int, first, n int64) (s cpu.Span, copied bool) {
	l, k := &c.sides[side], f.sideOperand(side)
	if k < 0 || w.cursors[ofElements].at[k] == nil {
		return s, false
	}
	inner := l.dims - 1
	s = cpu.Span{P: w.cursors[ofElements].at[k], Stride: l.stride[0][inner], DType: c.problem.types[f.operand[k]]}
	if inner > 0 && first%l.size[inner]+n > l.size[inner] {
		s.P, s.Stride, copied = unsafe.Pointer(&w.sides[side]), f.size[k], true
	}
	return s, copied
}

// paramsAt returns the scales of groups, or with number 1 the zero points: where they lie, or copied.
func (f *groupedPlan) paramsAt(c *call, w *worker, number int, first, n int64) cpu.Span {
	s, copied := f.sideAt(c, w, number, first, n)
	if copied {
		f.copySide(c, w, number, first, n)
	}
	return s
}

// copySide copies parameters to the worker's memory, or results back from there.
func (f *groupedPlan) copySide(c *call, w *worker, side int, first, n int64) {
	f.sides[side].piece(&c.sides[side], &w.cursors[ofSides], first, n, unsafe.Pointer(unsafe.SliceData(w.sides[side][:n])))
}

// groupParams makes the parameters of groups, each for a run of elements.
func (f *groupedPlan) groupParams(c *call, w *worker, first, groups, run int64) {
	for number := range resultSide {
		f.expandParam(w, number, f.paramsAt(c, w, number, first, groups), expandEach(groups, run))
	}
}

// aimAtParams has a call of a run for each group read their parameters.
func (f *groupedPlan) aimAtParams(c *call, w *worker, first, groups int64) {
	if f.scale < 0 {
		return
	}
	a := &w.args
	for number := range resultSide {
		s, k := f.paramsAt(c, w, number, first, groups), f.scale+number
		a.In[k].P, a.Runs.Step[k] = s.P, s.Stride
	}
}

// put has a finisher write the results of groups, and overwrite the ones in memory.
func (finish finisher[C]) put(f *groupedPlan, c *call, w *worker, first int64, results [2][]C) {
	n := int64(len(results[0]))
	c.groups.seek(&w.cursors[ofElements], first, maxOperands)
	var to resultSpans
	var copied [len(to.results)]bool
	for i := range copied {
		to.results[i], copied[i] = f.sideAt(c, w, resultSide+i, first, n)
	}
	if to.results[1].P != nil {
		to.scale = f.paramsAt(c, w, 0, first, n)
	}
	finish(w, to, results)
	for i := range copied {
		if copied[i] {
			f.copySide(c, w, resultSide+i, first, n)
		}
	}
}
