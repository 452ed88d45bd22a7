package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// Bags, mode=max: which rows the choices name, and how often. See embedding_bag_chosen.go.

// choices reads which rows elements were chosen from.
type choices struct {
	bags
	chosen cpu.Matrix
}

func (s *chosenSums) choices(c *call) choices {
	return choices{s.bags(c), matrixOf(&c.args[bagChosen])}
}

// find finds the rows that some columns of a bag, of the positions from begin to end, were chosen from: -1
// where the position is not the bag's, or where the index is left out.
func (r *choices) find(rows []int64, begin, end, bag, column int64) {
	chosen := unsafe.Add(r.chosen.P, bag*r.chosen.Strides[0]+column*r.chosen.Stride)
	for i := range rows {
		at, row := *(*int64)(unsafe.Add(chosen, int64(i)*r.chosen.Stride)), int64(-1)
		if at >= begin && at < end {
			row = r.index(at)
		}
		if !r.keeps(row) {
			row = -1
		}
		rows[i] = row
	}
}

// mayHaveChunks reports whether any row may be named more often than a chunk has terms. None is if all
// that share a counter together are not.
func (s *chosenSums) mayHaveChunks(c *call) (found bool) {
	if s.count <= cpu.ChunkSize {
		return false
	}
	b := s.bags(c)
	counts, _, _ := s.lists(c)
	clear(counts[:])
	s.eachNamed(c, func(named []int64) bool {
		most := uint16(0)
		for _, row := range named {
			if b.keeps(row) {
				count := &counts[uint64(row)%nameCounts]
				*count++
				most = max(most, *count)
			}
		}
		found = most > cpu.ChunkSize
		return !found
	})
	return found
}

// assign gives a slot to each row that needs one.
func (s *chosenSums) assign(c *call) {
	b := s.bags(c)
	_, slots, rows := s.lists(c)
	clear(slots)
	s.eachNamed(c, func(named []int64) bool {
		for _, row := range named {
			if b.keeps(row) {
				slots[row]++
			}
		}
		return true
	})
	used := 0
	for row, named := range slots {
		if slots[row] = 0; named > s.direct {
			rows[used], used = int64(row), used+1
			slots[row] = int32(used)
		}
	}
	c.rowSums.order = rows[:used]
}

// eachNamed calls f with lists of named rows, those of all positions or those of all choices, whichever
// takes less time, until it returns false.
func (s *chosenSums) eachNamed(c *call, f func(rows []int64) bool) {
	r := s.choices(c)
	var list [cpu.Block]int64
	if s.byChoice {
		for column := int64(0); column < s.columns; column += cpu.Block {
			begin := int64(0)
			for bag := range s.count {
				rows := list[:min(cpu.Block, s.columns-column)]
				end := r.end(bag)
				r.find(rows, begin, end, bag, column)
				if !f(rows) {
					return
				}
				begin = end
			}
		}
		return
	}
	for at, end := int64(0), r.last(); at < end; {
		rows := r.some(list[:], at, min(end, at+cpu.Block))
		if !f(rows) {
			return
		}
		at += int64(len(rows))
	}
}
