package plans

import (
	"slices"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// How elements of one operand, which lie in any way, are copied one after the other, and back: by the rows, columns or
// squares that are near to each other.

const (
	shortRow  = 16      // elements: rows of no more are copied column by column,
	acrossRow = 64      // or of no more than this, where columns are nearer to each other than elements of a row
	nearLines = 1 << 14 // bytes: of so many, rows are in the cache when the next lines of them are copied
	setStep   = 1024    // bytes: lines multiples of this apart share few sets of a cache
	lineSize  = 64      // bytes
	leastEach = 32      // bytes: rows that are one number, of so many, are copied row by row
)

// copier copies elements of one size from an operand to a worker's memory or, of an output, back.
type copier struct {
	size      int64
	back      bool
	transpose cpu.Transpose
	strided   cpu.StridedCopy
	each      cpu.RepeatEach
}

// What a pass over the operands copies: inputs to the worker's memory, or the output back from there.
const copyInputs, copyOutput = false, true

// copiers are all that there are: by instruction set, by size (0 of what is absent), of inputs and of outputs.
var copiers = makeCopiers()

func makeCopiers() (all [cpu.AVX512 + 1][9][2]copier) {
	for isa := range all {
		for _, d := range [...]tensor.DType{tensor.U8, tensor.F16, tensor.F32, tensor.F64} {
			t := cpu.Types{In: cpu.InTypes{d}}
			transpose, _ := cpu.PickUpTo(cpu.Transposes, cpu.ISA(isa), t)
			strided, _ := cpu.PickUpTo(cpu.StridedCopies, cpu.ISA(isa), t)
			each, _ := cpu.PickUpTo(cpu.RepeatsEach, cpu.ISA(isa), t)
			all[isa][d.Size()] = [2]copier{{d.Size(), copyInputs, transpose, strided, each}, {d.Size(), copyOutput, transpose, strided, each}}
		}
	}
	return all
}

// copierOf returns the copier of an input, or of an output, of a type.
func copierOf(d tensor.DType, back bool) *copier {
	of := &copiers[cpu.Allowed()][d.Size()]
	if back {
		return &of[1]
	}
	return &of[0]
}

// piece copies n points of a layout of one operand, from a number on: whole rows that follow one
// another together. The cursor's shift is added to where the first lies.
func (p *copier) piece(l *layout, cur *cursor, begin, n int64, own unsafe.Pointer) {
	inner := l.dims - 1
	if inner == 0 {
		l.seek(cur, begin, 1)
		p.run(own, cur.at[0], l.stride[0][0], n)
		return
	}
	line := l.size[inner]
	joined, joinedRow := l.joinedRows(p.size, n)
	for done := int64(0); done < n; {
		l.seek(cur, begin+done, 1)
		outer, row, mine := joined, joinedRow, unsafe.Add(own, done*p.size)
		if n-done < row || outer < inner-1 && (begin+done)%row > 0 { // some lines of a row
			outer, row = inner-1, line
		}
		if cur.index[inner] > 0 || n-done < row { // a part of a line
			m := min(line-cur.index[inner], n-done)
			p.run(mine, cur.at[0], l.stride[0][inner], m)
			done += m
			continue
		}
		rows := min((n-done)/row, l.size[outer]-cur.index[outer])
		p.wholeRows(l, outer, row, rows, mine, cur.at[0])
		done += rows * row
	}
}

// joinedRows returns the dimension along which rows follow one another, and their length. Several short rows, such as
// those of a small image, count as one; so do all those of a cropped image in channels last, which lie beside the next ones,
// if n elements are several such rows: gathers take 4 or more at a time where there is room.
func (l *layout) joinedRows(size, n int64) (outer int, row int64) {
	inner := l.dims - 1
	outer, row = inner-1, l.size[inner]
	if step := l.stride[0][inner]; step != 0 && step != size && row > shortRow {
		if d := slices.Index(l.stride[0][:inner], size); d >= 0 && l.size[d] >= min(shortRow, lineSize/size) && n/l.within(d) >= fewGroups {
			return d, l.within(d)
		}
	}
	for l.size[inner] <= shortRow && outer > 0 && row*l.size[outer] <= acrossRow {
		row *= l.size[outer]
		outer--
	}
	return outer, row
}

// wholeRows copies rows. Rows that lie side by side are transposed; short ones, and those whose elements are
// farther from each other than rows, are copied column by column, unless they are fewer than elements of a line.
func (p *copier) wholeRows(l *layout, outer int, row, rows int64, own, theirs unsafe.Pointer) {
	inner := l.dims - 1
	line, step, apart := l.size[inner], l.stride[0][inner], l.stride[0][outer]
	switch sideBySide := apart == p.size && step != p.size && step != 0 && (row == line || line > shortRow); {
	case step == p.size && apart != 0:
		p.lines(l, outer, row, rows, own, theirs)
	case step == 0 && row == line && row*p.size >= leastEach:
		p.each(own, theirs, apart, rows, row)
	case apart == 0:
		for at := int64(0); at < row; at += line {
			p.run(unsafe.Add(own, at*p.size), unsafe.Add(theirs, l.offsetWithin(outer, at)), step, line)
		}
		cpu.RepeatFirst(unsafe.Slice((*byte)(own), rows*row*p.size), int(row*p.size))
	case sideBySide:
		for at := int64(0); at < row; at += line {
			p.across(unsafe.Add(own, at*p.size), row*p.size, unsafe.Add(theirs, l.offsetWithin(outer, at)), step, line, rows)
		}
	case row > line && rows >= line || rows >= row && (line <= shortRow || row <= acrossRow && max(apart, -apart) < max(step, -step)):
		for c := range row {
			p.column(unsafe.Add(own, c*p.size), row*p.size, unsafe.Add(theirs, l.offsetWithin(outer, c)), apart, rows)
		}
	default:
		for at := int64(0); at < row; at += line {
			for r := range rows {
				p.run(unsafe.Add(own, (r*row+at)*p.size), unsafe.Add(theirs, r*apart+l.offsetWithin(outer, at)), step, line)
			}
		}
	}
}

// lines copies rows of contiguous lines: the first line of some rows, then the second.
func (p *copier) lines(l *layout, outer int, row, rows int64, own, theirs unsafe.Pointer) {
	line, apart := l.size[l.dims-1], l.stride[0][outer]
	near := max(1, nearLines/(row*p.size))
	for r := int64(0); r < rows; r += near {
		for at := int64(0); at < row; at += line {
			mine, its := unsafe.Add(own, (r*row+at)*p.size), unsafe.Add(theirs, r*apart+l.offsetWithin(outer, at))
			if p.back {
				cpu.CopyRows(its, apart, mine, row*p.size, line*p.size, min(near, rows-r))
			} else {
				cpu.CopyRows(mine, row*p.size, its, apart, line*p.size, min(near, rows-r))
			}
		}
	}
}

// across copies rows that lie side by side; in our memory they lie ownStep bytes apart. Rows, or elements of one, that
// are a power of 2 apart share sets of the cache, so that it takes squares with few of those.
func (p *copier) across(own unsafe.Pointer, ownStep int64, theirs unsafe.Pointer, theirStep, row, rows int64) {
	high, wide := rows, row
	switch {
	case p.back && crowded(theirStep, row):
		high, wide = lineSize/p.size, 8
	case row <= acrossRow:
	case !p.back && ownStep%setStep == 0:
		high, wide = 8, 128
	}
	for at := int64(0); at < row; at += wide {
		for r := int64(0); r < rows; r += high {
			n, m := min(wide, row-at), min(high, rows-r)
			mine, its := unsafe.Add(own, r*ownStep+at*p.size), unsafe.Add(theirs, r*p.size+at*theirStep)
			if p.back {
				p.transpose(its, theirStep, mine, ownStep, m, n)
			} else {
				p.transpose(mine, ownStep, its, theirStep, n, m)
			}
		}
	}
}

// crowded reports whether lines that lie a step apart, a multiple of half of setStep, are more than the sets of a cache that
// they share have room for.
func crowded(step, lines int64) bool {
	const way, ways = 1 << 12, 12 // bytes of one line for each set, and lines of a set
	return step%(setStep/2) == 0 && lines*min(step&-step, way) > ways*way
}

// offsetWithin returns how many bytes of operand 0 lie from the first point of the dimensions inside outer to the
// one with a number.
func (l *layout) offsetWithin(outer int, number int64) (offset int64) {
	for d := l.dims - 1; d > outer; d-- {
		offset += number % l.size[d] * l.stride[0][d]
		number /= l.size[d]
	}
	return offset
}

// run copies n elements that lie a step apart.
func (p *copier) run(own, theirs unsafe.Pointer, step, n int64) {
	to, from := own, theirs
	if p.back {
		to, from = theirs, own
	}
	switch {
	case step == 0 && !p.back:
		p.each(own, theirs, 0, 1, n)
	case step == p.size:
		copy(unsafe.Slice((*byte)(to), n*p.size), unsafe.Slice((*byte)(from), n*p.size))
	default:
		p.column(own, p.size, theirs, step, n)
	}
}

// column copies n elements that lie theirStep apart, and ownStep in our memory.
func (p *copier) column(own unsafe.Pointer, ownStep int64, theirs unsafe.Pointer, theirStep, n int64) {
	if p.back {
		p.strided(theirs, theirStep, own, ownStep, n)
	} else {
		p.strided(own, ownStep, theirs, theirStep, n)
	}
}
