package plans

import (
	"slices"

	"github.com/isobit-ml/isobit/cpu"
)

// Inputs that lie across the output: channels last where the output is row-major, a transposed
// matrix. A tile of such an input is copied as the output lies, so that memory is read in whole
// lines and the kernel has runs.

const (
	transposedRows  = 16   // of a tile: a line of 4-byte elements
	transposedWidth = 496  // elements of a row
	transposedPitch = 504  // from row to row: not a power of 2, whose rows would share sets of the cache
	leastTransposed = 1024 // elements of a tile that is worth it,
	leastFar        = 448  // or, of rows and columns in memory, where a copy would read a few elements of each line
)

// transposed is how a call's elements are parted into tiles of rows along the last but one dimension.
type transposed struct {
	across     [dataInputs]bool
	high, wide int64 // tiles along the last two dimensions
	perJob     int64 // tiles
	prepares   bool  // columns have parameters of their own, all rows the same ones
}

// dataInputs is how many data inputs a kernel has: operands 0 and 1.
const dataInputs = 2

// tryTransposed lays out tiles where inputs lie across the output, and returns the number of jobs; 0 where none
// does.
func (f *groupedPlan) tryTransposed(c *call) int64 {
	l, t := &c.all, &c.transposed
	inner := l.dims - 1
	if oneByOne || f.packed >= 0 || inner == 0 {
		return 0
	}
	across, along := f.across(l)
	if along < 0 || !l.transposes(along, f.runEach(l)) {
		return 0 // none, or small images, or short runs: several in a copy (copies.go)
	}
	t.across = across
	for ; along < inner-1; along++ {
		l.swap(along, along+1, kernelOperands)
	}
	t.prepares = f.scale >= 0 && f.varies(l, inner) && !f.varies(l, inner-1)
	t.high, t.wide = ceilDiv(l.size[inner-1], transposedRows), ceilDiv(l.size[inner], transposedWidth)
	t.perJob = max(1, jobSize/(min(transposedRows, l.size[inner-1])*min(transposedWidth, l.size[inner])))
	return ceilDiv(t.tiles(l), t.perJob)
}

// across finds the data inputs that lie across the output, and the dimension along which their elements are contiguous:
// -1 where there are none, or where some operand lies in a third way, such as one that is expanded along rows.
func (f *groupedPlan) across(l *layout) (inputs [dataInputs]bool, along int) {
	inner := l.dims - 1
	along = -1
	for k := range kernelOperands {
		if !f.hasData(l, k) || l.stride[k][inner] == f.size[k] {
			continue
		}
		if along < 0 {
			along = slices.Index(l.stride[k][:inner], f.size[k])
		}
		if k >= dataInputs || along < 0 || l.stride[k][along] != f.size[k] || l.stride[k][inner] == 0 {
			return inputs, -1
		}
		inputs[k] = true
	}
	return inputs, along
}

// transposes reports whether tiles of rows, and of the columns that follow one another, are worth it, and not only where
// those of a copy are as long.
func (l *layout) transposes(rows int, copied bool) bool {
	high, wide := l.size[rows], l.size[l.dims-1]
	far := l.within(rows)*transposedRows > copySize && min(high, wide) >= transposedRows && high*wide >= leastFar
	return far || !copied && min(transposedRows, high)*min(transposedWidth, wide) >= leastTransposed
}

func (t *transposed) tiles(l *layout) int64 {
	return l.count() / (l.size[l.dims-2] * l.size[l.dims-1]) * t.high * t.wide
}

// transposedJob makes the job of a kernel over a call's tiles.
func transposedJob(f *groupedPlan, kernel cpu.Elementwise) job {
	return func(c *call, w *worker, number int64) {
		t := &c.transposed
		var params [2]cpu.Span
		first := number * t.perJob
		for tile := first; tile < min(first+t.perJob, t.tiles(&c.all)); tile++ {
			n := f.beginTransposed(c, w, tile)
			if a := &w.args; t.prepares {
				if tile == first || tile%t.high == 0 { // other columns
					f.expandParams(w, &c.all, &w.cursors[ofElements], c.all.dims-1, n, 1)
					copy(params[:], a.In[f.scale:])
				}
				copy(a.In[f.scale:], params[:])
				a.Ready = true
			}
			kernel(int(n), &w.args)
		}
	}
}

// beginTransposed makes the arguments of a tile, whose rows, of n elements, are a kernel's runs.
func (f *groupedPlan) beginTransposed(c *call, w *worker, tile int64) (n int64) {
	l, t, cur, inner := &c.all, &c.transposed, &w.cursors[ofElements], c.all.dims-1
	outer, column, row := tile/(t.high*t.wide), tile/t.high%t.wide*transposedWidth, tile%t.high*transposedRows
	rows, n := min(transposedRows, l.size[inner-1]-row), min(transposedWidth, l.size[inner]-column)
	l.seek(cur, (outer*l.size[inner-1]+row)*l.size[inner]+column, kernelOperands)
	a := f.arm(w)
	l.spans(a, cur)
	a.Stream, a.Runs = false, cpu.Runs{Steps: int(rows), Strands: 1, Step: l.steps(inner - 1)}
	for k := range t.across {
		if t.across[k] {
			size, own := f.size[k], w.copied.of(k)
			f.copier[k].transpose(own, transposedPitch*size, cur.at[k], l.stride[k][inner], n, rows)
			a.In[k].P, a.In[k].Stride, a.Runs.Step[k] = own, size, transposedPitch*size
		}
	}
	return n
}
