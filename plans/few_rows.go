package plans

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Many positions of few rows, such as those of a table of token types: sums lie in the first caches, so
// that gradients, which come from memory, are read one after the other rather than row by row.

const (
	// fewRowsMost is up to how many bytes the sums may take.
	fewRowsMost = 6 << 20
	// fewRowsLeast is the least bytes of a row: each is a call of a kernel.
	fewRowsLeast = 512
)

// fewRows is how this is done: each chunk has a sum of its own, and those of a row are folded afterwards.
// A job adds what belongs to the chunks that begin among its positions, wherever that lies.
//
// Its workspace are a step for each position, counts by row, lists of chunks, and their sums.
type fewRows struct {
	*embeddingSum
	add                      cpu.AddRow
	fold                     cpu.ChunkFold
	compute                  tensor.DType
	positions, rows, columns int64
	addJob, foldJob          job // method values made once, so that running does not allocate
}

// noStep is of a position that is left out; other steps are twice the number of a chunk, and 1 more
// where it begins. Chunks are numbered as they begin.
const noStep = -1

// newFewRows returns nil where rows are better summed one after the other.
func newFewRows(e *embeddingSum, dtype tensor.DType, positions, rows, columns int64) *fewRows {
	size := dtype.Size()
	if oneByOne || e.accumulate || e.byFreq || dtype != dtype.Compute() || columns*size < fewRowsLeast || rows*columns*size > fewRowsMost ||
		positions*columns*size <= streamFrom || positions <= 2*rows || positions > math.MaxInt32/2 {
		return nil
	}
	f := &fewRows{embeddingSum: e, compute: dtype, positions: positions, rows: rows, columns: columns}
	f.add = pickSupport(cpu.AddRows, cpu.Types{Compute: dtype})
	f.fold = pickSupport(cpu.FoldChunks, cpu.Types{Compute: dtype})
	f.addJob, f.foldJob = f.addPositions, f.foldRows
	return f
}

// chunks returns how many there are at most.
func (f *fewRows) chunks() int64 { return f.positions/cpu.ChunkSize + f.rows }

func (f *fewRows) workspace() int64 {
	lists := int32Bytes(f.positions) + 2*int32Bytes(f.rows) + 2*int32Bytes(f.chunks())
	return lists + f.chunks()*f.columns*f.compute.Size()
}

// fewRowsLists are the parts of the workspace.
type fewRowsLists struct {
	steps          []int32        // by position
	counts, latest []int32        // by row: its contributions, its latest chunk
	rowOf, order   []int32        // by chunk: its row; chunks, row after row
	sums           unsafe.Pointer // of chunks
}

func (f *fewRows) lists(c *call) (l fewRowsLists) {
	memory := words(c.workspace)
	l.steps = memory.int32s(f.positions)
	l.counts, l.latest = memory.int32s(f.rows), memory.int32s(f.rows)
	l.rowOf, l.order = memory.int32s(f.chunks()), memory.int32s(f.chunks())
	l.sums = unsafe.Pointer(unsafe.SliceData(memory))
	return l
}

func (f *fewRows) run(c *call) error {
	b := &c.rowSums
	b.rowSums = rowSums{terms: matrixOf(&c.args[0]), out: &c.args[2]}
	b.to = matrixOf(b.out)
	cost := f.positions * f.columns
	workers := int64(c.workers(cost, cost))
	// With one chunk for most rows, those begin among the first positions: no other worker would have any.
	apart := workers > 1 && f.positions < 4*cpu.ChunkSize*f.rows
	if apart || !b.terms.Contiguous() || b.terms.Dims > 1 || !b.to.Contiguous() {
		return f.embeddingSum.run(c)
	}
	b.chunks, b.ranges = f.plan(c), workers
	c.parallel(b.ranges, cost, f.addJob)
	c.parallel(ceilDiv(f.rows, rowsPerJob(f.columns)), f.rows*f.columns, f.foldJob)
	return nil
}

// plan says what becomes of each position, and returns the number of chunks.
func (f *fewRows) plan(c *call) (chunks int) {
	b := newBags(&c.args[1], new(tensor.View), 0, f.positions, f.rows, f.padding)
	l := f.lists(c)
	clear(l.counts)
	var list [cpu.Block]int64
	for at := int64(0); at < f.positions; {
		rows := b.some(list[:], at, f.positions)
		for i, row := range rows {
			if !b.keeps(row) {
				l.steps[at+int64(i)] = noStep
				continue
			}
			begins := int32(0)
			if l.counts[row]%cpu.ChunkSize == 0 {
				begins = 1
				l.latest[row], l.rowOf[chunks], l.order[chunks] = int32(chunks), int32(row), int32(chunks)
				chunks++
			}
			l.counts[row]++
			l.steps[at+int64(i)] = 2*l.latest[row] + begins
		}
		at += int64(len(rows))
	}
	slices.SortStableFunc(l.order[:chunks], func(a, b int32) int { return cmp.Compare(l.rowOf[a], l.rowOf[b]) })
	return chunks
}

// addPositions is a job: the chunks that begin in a range of positions.
func (f *fewRows) addPositions(c *call, _ *worker, number int64) {
	b, l, stride := &c.rowSums, f.lists(c), f.columns*f.compute.Size()
	start, end := f.positions*number/b.ranges, f.positions*(number+1)/b.ranges
	first, last := int32(b.chunks), int32(0) // chunks
	for _, step := range l.steps[start:end] {
		if step >= 0 && step&1 == 1 {
			first, last = min(first, step>>1), step>>1
		}
	}
	for i, step := range l.steps[start:] {
		chunk := step >> 1
		if step < 0 || chunk < first || chunk > last {
			continue
		}
		from := unsafe.Add(b.terms.P, (start+int64(i))*b.terms.Strides[0])
		f.add(unsafe.Add(l.sums, int64(chunk)*stride), from, f.columns, step&1 == 1)
	}
}

// foldRows is a job: some rows of the result.
func (f *fewRows) foldRows(c *call, w *worker, number int64) {
	b, l, stride := &c.rowSums, f.lists(c), f.columns*f.compute.Size()
	perJob := rowsPerJob(f.columns)
	order := l.order[:b.chunks]
	at := sort.Search(len(order), func(i int) bool { return int64(l.rowOf[order[i]]) >= number*perJob })
	for row := number * perJob; row < min((number+1)*perJob, f.rows); row++ {
		to, count := b.to.Row(row, 0), int64(l.counts[row])
		if count == 0 {
			cpu.ZeroRow(to, f.columns)
			continue
		}
		n := int(ceilDiv(count, cpu.ChunkSize))
		f.fold(to.P, l.sums, stride, order[at:at+n], count, f.columns, &w.scratch)
		at += n
	}
}
