package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Groups of which a call takes many lie one after the other in every data operand. What they have one of each, parameters
// and results, may lie in another order, or with gaps: then rows of these are taken one by one, and calls are long anyway.

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

// joinSides finds how many groups follow one another in all data operands.
func (f *groupedPlan) joinSides(c *call) {
	g := &c.groups
	d := g.dims - 1
	c.side = g.size[d]
	for ; d > 0 && g.joins(d-1, d, f.data); d-- {
		c.side *= g.size[d-1]
	}
}

// inRow reports whether groups from a cursor on are in one row of their parameters and results.
func (l *layout) inRow(cur *cursor, groups int64) bool {
	return cur.index[l.dims-1]+groups <= l.size[l.dims-1]
}

// groupParams makes the parameters of groups from the first on, where the worker's cursor of groups is, each for a run of
// elements.
func (f *groupedPlan) groupParams(c *call, w *worker, first, groups, run int64) {
	l, inner := &c.groups, c.groups.dims-1
	if cur := &w.cursors[ofElements]; l.inRow(cur, groups) {
		f.expandParams(w, l, cur, inner, groups, run)
		return
	}
	a, tile, at := &w.args, &w.scratch.Tile, int64(0)
	l.walk(&w.cursors[ofParameters], first, first+groups, maxOperands, func(n int64) {
		for number := range 2 {
			k := f.scale + number
			of := l.span(&w.cursors[ofParameters], k, a.In[k].DType)
			tile.Add(a, number, cpu.ParamRuns{Of: of, At: int(at * run), Count: int(n), Run: int(run)}, f.compute, &f.params)
		}
		at += n
	})
	a.Ready = true
	for number := range 2 {
		a.In[f.scale+number] = tile.Span(number, true, f.compute)
	}
}

// aimAtParams has a call of a run for each group read their parameters where they are, or copies of them.
func (f *groupedPlan) aimAtParams(c *call, w *worker, first, groups int64) {
	a, l, cur := &w.args, &c.groups, &w.cursors[ofElements]
	for k := range a.In {
		if f.param[k] {
			a.In[k].P = cur.at[k]
		}
	}
	if f.scale < 0 || l.inRow(cur, groups) {
		return
	}
	at := int64(0)
	l.walk(&w.cursors[ofParameters], first, first+groups, maxOperands, func(n int64) {
		for number := range w.params {
			if k := f.scale + number; l.start[k] != nil {
				own := unsafe.Add(unsafe.Pointer(&w.params[number]), at*f.size[k])
				f.copyParams[number](own, f.size[k], w.cursors[ofParameters].at[k], l.stride[k][l.dims-1], n)
			}
		}
		at += n
	})
	for number := range w.params {
		if k := f.scale + number; l.start[k] != nil {
			a.In[k].P, a.Runs.Step[k] = unsafe.Pointer(&w.params[number]), f.size[k]
		}
	}
}

// put has a finisher write the results of groups from the first on, as many at a time as are in one row. It may overwrite
// the results in memory.
func (finish finisher[C]) put(c *call, w *worker, first int64, results [2][]C) {
	cur, at := &w.cursors[ofElements], int64(0)
	c.groups.walk(cur, first, first+int64(len(results[0])), maxOperands, func(n int64) {
		finish(w, &c.groups, cur, [2][]C{results[0][at:][:n], results[1][at:][:n]})
		at += n
	})
}
