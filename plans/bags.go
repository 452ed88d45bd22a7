package plans

import (
	"sort"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// What the ops over bags of indices have in common.

var (
	offsetsArg = arg{name: "offsets", optional: true, shaped: true, allow: indices, defaultType: fixed(tensor.None)}
	factorsArg = arg{name: "per_sample_weights", optional: true, allow: floats, defaultType: fixed(tensor.None)}
	bagAttrs   = []attr{
		{name: "include_last_offset", kind: boolAttr, def: false},
		{name: "padding_idx", def: int64(-1)},
	}
	modeAttr = attr{name: "mode", kind: wordAttr, def: "mean", words: []string{"sum", "mean", "max"}}
)

// inferBags returns the number of bags and sets the shape of the weights of
// the indices; they have the type of the argument named.
func inferBags(p *Problem, factors, of string) (count int64, err error) {
	index := p.Shape("indices")
	switch last := p.bool("include_last_offset"); {
	case !p.has("offsets") && len(index) != 2:
		return 0, p.errorf("indices", "has shape %s; want [B, L], or [N] and offsets", tensor.ShapeString(index))
	case !p.has("offsets") && last:
		return 0, p.errorf("include_last_offset", "is true; want false without offsets")
	case !p.has("offsets"):
		count = index[0]
	case len(index) != 1:
		return 0, p.errorf("indices", "has shape %s; want [N] beside offsets", tensor.ShapeString(index))
	case len(p.Shape("offsets")) != 1:
		return 0, p.errorf("offsets", "has shape %s; want [B]", tensor.ShapeString(p.Shape("offsets")))
	case last && p.Shape("offsets")[0] == 0:
		return 0, p.errorf("offsets", "has shape [0]; want at least the last offset")
	case last:
		count = p.Shape("offsets")[0] - 1
	default:
		count = p.Shape("offsets")[0]
	}
	if err := checkPadding(p); err != nil {
		return 0, err
	}
	if p.has(factors) {
		p.setShape(factors, index)
	}
	return count, sameTypeAs(factors, of)(p)
}

// inferMode holds what goes with some modes only against the mode.
func inferMode(p *Problem) error {
	mode := p.word("mode")
	if p.has("per_sample_weights") && mode != "sum" {
		return p.errorf("per_sample_weights", "is %s; want none with mode=%s, only mode=sum has them", p.DType("per_sample_weights"), mode)
	}
	if p.has("chosen") && mode != "max" {
		return p.errorf("chosen", "is %s; want none with mode=%s", p.DType("chosen"), mode)
	}
	return nil
}

// bags are the runs of indices that belong together: those between offsets,
// or the rows of two-dimensional indices.
type bags struct {
	indices, offsets *tensor.View // offsets may be absent
	count, positions int64
	rows, padding    int64 // indices of none of the rows, and of the padding row, are left out
}

// of returns the positions of a bag.
func (b *bags) of(number int64) (begin, end int64) {
	if !b.offsets.Present() {
		length := b.indices.Shape[1]
		return number * length, (number + 1) * length
	}
	end = b.positions
	if number+1 < b.offsets.Shape[0] {
		end = indexAt(b.offsets, number+1)
	}
	return indexAt(b.offsets, number), end
}

// last returns where the last bag ends.
func (b *bags) last() int64 {
	if b.count == 0 {
		return 0
	}
	_, end := b.of(b.count - 1)
	return end
}

// at returns the first bag that ends behind a position, and where that is; the
// number of bags where none does.
func (b *bags) at(position int64) (bag, end int64) {
	bag = int64(sort.Search(int(b.count), func(i int) bool { _, end := b.of(int64(i)); return end > position }))
	if bag < b.count {
		_, end = b.of(bag)
	}
	return bag, end
}

func (b *bags) keeps(row int64) bool { return uint64(row) < uint64(b.rows) && row != b.padding }

// check asks offsets to begin at 0, not to descend, and not to exceed the
// number of indices.
func (b *bags) check(c *call) error {
	if !b.offsets.Present() {
		return nil
	}
	n, low := b.positions, int64(0)
	for i := range b.offsets.Shape[0] {
		high := n
		if i == 0 {
			high = 0
		}
		v := indexAt(b.offsets, i)
		if v < low || v > high {
			return errorf(InvalidArgument, c.problem.op.name, "offsets", "is %d at position %d; want %d to %d", v, i, low, high)
		}
		low = v
	}
	return nil
}

// readIndices fills list with the indices from a row-major position on.
func readIndices(list []int64, v *tensor.View, from int64) {
	switch {
	case !v.IsContiguous():
		for i := range list {
			list[i] = indexAt(v, from+int64(i))
		}
	case v.DType == tensor.I32:
		for i, r := range tensor.Slice[int32](*v)[from:][:len(list)] {
			list[i] = int64(r)
		}
	default:
		copy(list, tensor.Slice[int64](*v)[from:])
	}
}

// readNumbers fills list with the elements of a float type from a row-major
// position on.
func readNumbers(list []float64, v *tensor.View, from int64) {
	switch {
	case len(list) == 0: // from may be where memory ends
	case v.IsContiguous():
		cpu.Load(list, elementAt(v, from))
	default:
		for i := range list {
			list[i] = numberAt(v, from+int64(i))
		}
	}
}

// elementAt returns the span of one element, by its row-major number.
func elementAt(v *tensor.View, number int64) cpu.Span {
	if !v.IsContiguous() {
		number = elementOffset(v, number)
	}
	size := v.DType.Size()
	return cpu.Span{P: unsafe.Add(v.Data, number*size), Stride: size, DType: v.DType}
}

// numberAt returns one element of a float type, by its row-major number.
func numberAt(v *tensor.View, number int64) float64 {
	return cpu.Number[v.DType](elementAt(v, number).P)
}

// words hands out the workspace in pieces of 64-bit words.
type words []byte

func (w *words) ints(n int64) []int64     { return take[int64](w, n) }
func (w *words) floats(n int64) []float64 { return take[float64](w, n) }

func take[T int64 | float64](w *words, n int64) []T {
	list := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(*w))), n)
	*w = (*w)[n*8:]
	return list
}
