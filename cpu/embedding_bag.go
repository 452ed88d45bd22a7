package cpu

import (
	"math"
	"unsafe"
)

// What bags of embeddings need beside sums of rows (NUMERICS.md, section 5).

// BagMax takes the largest of each column of a bag's rows, and notes where in
// the indices it was named: of equals the first, and the first NaN before all.
// A bag without rows is +0, and its columns came from -1.
var BagMax = maxRows(byCompute(each(bagMaxGo[float32]), each(bagMaxGo[float64])))

func bagMaxGo[C Compute](e *EmbeddingSum) {
	for at := int64(0); at < e.Columns; at += Block {
		width := int(min(Block, e.Columns-at))
		row, best := BlockOf[C](e.Scratch, 0, width), BlockOf[C](e.Scratch, 1, width)
		from := e.Scratch.Ints(0, width)
		clear(best)
		for i := range from {
			from[i] = -1
		}
		for k, p := range e.Positions {
			if k%touchRows == 0 {
				e.touchAhead(k, at, int64(width))
			}
			loadTerm(e, row, p, e.Column+at)
			for i, v := range row {
				if b := best[i]; k == 0 || v > b || v != v && b == b {
					best[i], from[i] = v, e.Sources[k]
				}
			}
		}
		Store(e.Out.At(at), best)
		if e.Choice.P != nil {
			storeInts(e.Choice.Row(e.bag, e.Column+at), from)
		}
	}
}

// BagMaxBackward adds to a row of grad_weight, for each position that named
// it, those elements of the bag's gradient that were chosen at this position:
// each column has contributions of its own.
var BagMaxBackward = embeddingRows(byCompute(each(bagMaxBackwardGo[float32]), each(bagMaxBackwardGo[float64])))

func bagMaxBackwardGo[C Compute](e *EmbeddingSum) {
	for at := int64(0); at < e.Columns; at += Block {
		width := int(min(Block, e.Columns-at))
		dy := BlockOf[C](e.Scratch, 0, width)
		chunks, counts := NewChunks[C](e.Scratch, 2, width), e.Scratch.Ints(0, width)
		sum := chunks.running()
		clear(counts)
		for k, bag := range e.Positions {
			Load(dy, e.Terms.Row(bag, e.Column+at))
			rank := uint32(e.Sources[k])
			for i, chosen := range e.Ranks[bag*e.Width+e.Column+at:][:width] {
				if chosen != rank {
					continue
				}
				if counts[i]%ChunkSize == 0 {
					column := chunks.column(i, counts[i])
					column.Next()
				}
				sum[i] += dy[i]
				counts[i]++
			}
		}
		for i, count := range counts {
			column := chunks.column(i, count)
			column.Sum()
		}
		finishSum(e, &gatherType{}, e.Out.At(at), chunks.running())
	}
}

// RanksOf turns the positions that a bag's elements came from into ranks: their
// distances from the bag's first position. Other positions than the bag's become
// one that no rank is.
func RanksOf(ranks []uint32, chosen Span, begin, end int64) {
	length := uint64(min(end-begin, math.MaxUint32))
	if chosen.Contiguous() {
		for i, at := range unsafe.Slice((*int64)(chosen.P), len(ranks)) {
			ranks[i] = uint32(min(uint64(at-begin), length))
		}
		return
	}
	for i := range ranks {
		ranks[i] = uint32(min(uint64(*(*int64)(chosen.At(int64(i)).P)-begin), length))
	}
}

// storeInts stores 64-bit numbers as they are.
func storeInts(s Span, values []int64) {
	for i, v := range values {
		*(*int64)(unsafe.Add(s.P, int64(i)*s.Stride)) = v
	}
}
