package plans

import (
	"math/bits"

	"github.com/isobit-ml/isobit/cpu"
)

// Where few indices name rows of a large table, lists have entries for the named rows only, and the
// rows between those are cleared.

// fewNamed is the least ratio of rows to indices.
const fewNamed = 16

// namedRows numbers the rows that are named, ascending. Without bits every row has its own number.
type namedRows struct {
	bits   []int64 // of row r, bit r%64 of word r/64
	before []int64 // by word: how many rows are named before those of the word
	rows   []int64 // by number
}

// areFew reports whether a number of indices names few of the rows.
func areFew(positions, rows int64) bool { return !oneByOne && positions <= rows/fewNamed }

// listWords returns how many words of workspace takeLists takes.
func listWords(positions, rows int64, few bool) int64 {
	if few {
		return 2*ceilDiv(rows, 64) + 3*positions + 1
	}
	return rows + 1 + positions
}

// takeLists takes the memory for lists of what names each row.
func (b *bags) takeLists(sums *rowSums, memory *words, few bool) {
	sums.named = namedRows{}
	starts := b.rows
	if few {
		n := &sums.named
		n.bits, n.before, n.rows = memory.ints(ceilDiv(b.rows, 64)), memory.ints(ceilDiv(b.rows, 64)), memory.ints(b.positions)
		starts = b.positions
	}
	sums.start, sums.order = memory.ints(starts+1), memory.ints(b.positions)
}

// find finds the rows that the first n indices name.
func (n *namedRows) find(b *bags, positions int64) {
	var list [cpu.Block]int64
	clear(n.bits)
	for at := int64(0); at < positions; {
		rows := b.some(list[:], at, positions)
		for _, row := range rows {
			if b.keeps(row) {
				n.bits[row/64] |= 1 << (row % 64)
			}
		}
		at += int64(len(rows))
	}
	count := 0
	for i, word := range n.bits {
		n.before[i] = int64(count)
		for w := uint64(word); w != 0; w &= w - 1 {
			n.rows[count] = int64(i)*64 + int64(bits.TrailingZeros64(w))
			count++
		}
	}
	n.rows = n.rows[:count]
}

// number returns a named row's number; for another row, that of the first named row after it.
func (n *namedRows) number(row int64) int64 {
	if n.bits == nil {
		return row
	}
	if row/64 == int64(len(n.bits)) {
		return int64(len(n.rows))
	}
	return n.before[row/64] + int64(bits.OnesCount64(uint64(n.bits[row/64])&(1<<(row%64)-1)))
}

// sumNamed sums the named rows among some that follow one another, and clears the others: with these where that costs less
// than to leave them out.
func (b *rowSumsCall) sumNamed(w *worker, sum *cpu.EmbeddingSums, first, last, column, columns int64) {
	number, end, cleared := b.named.number(first), b.named.number(last), columns
	if b.spread != nil {
		cleared = b.out.Shape[1]
	}
	rows := b.named.rows[number:end]
	if b.stream {
		for _, row := range rows {
			cpu.ClearRows(&b.to, first, row-first, column, cleared, true)
			first = row + 1
		}
	}
	cpu.ClearRows(&b.to, first, last-first, column, cleared, b.stream)
	if len(rows) > 0 {
		sum.Named = rows
		b.sumRun(w, sum, 0, number, end-number, column, columns)
	}
}
