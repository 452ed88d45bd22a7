package plans

import (
	"math"
	"sort"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// What the ops over bags of indices have in common.

var (
	bagIndicesArg = arg{
		name: "indices", shaped: true, allow: indices, form: "[N] with offsets, else [B, L]",
		doc: "rows of weight, bag after bag; without offsets each row of indices is a bag",
	}
	offsetsArg = arg{
		name: "offsets", optional: true, shaped: true, allow: indices, defaultType: fixed(tensor.None),
		form: "[B], with include_last_offset [B + 1]", doc: "where bags begin: 0 first, none less than the one before it",
	}
	factorsArg = arg{
		name: "per_sample_weights", optional: true, allow: floats, defaultType: fixed(tensor.None), form: "indices'",
		doc: "what each index's row is multiplied by, in weight's type; with mode=sum alone",
	}
	bagAttrs = []attr{
		{name: "include_last_offset", kind: boolAttr, def: false, doc: "offsets end with where the last bag ends"},
		paddingAttr,
	}
	modeAttr = attr{
		name: "mode", kind: wordAttr, def: "mean", words: []string{"sum", "mean", "max"},
		doc: "what becomes of a bag's rows, column by column",
	}
)

// The places of the arguments that a bag and its gradient by weight begin with.
const (
	bagRows    = iota // weight, or grad_output
	bagIndices        // those of bagIndicesArg, and so on
	bagOffsets
	bagFactors
	bagFurther
)

// inferBags returns the number of bags of a table's rows and sets the shape of the weights of
// the indices; they have the type of the argument named.
func inferBags(p *Problem, table, factors, of string) (count int64, err error) {
	index := p.Shape("indices")
	switch last := p.bool("include_last_offset"); {
	case !p.has("offsets") && len(index) != 2:
		return 0, p.errorf("indices", "has shape %s; want [B, L], or [N] and %s", tensor.ShapeText(index), named("offsets"))
	case !p.has("offsets") && last:
		return 0, p.errorf("include_last_offset", "is %v; want %v without %s", true, false, named("offsets"))
	case !p.has("offsets"):
		count = index[0]
	case len(index) != 1:
		return 0, p.errorf("indices", "has shape %s; want [N] beside %s", tensor.ShapeText(index), named("offsets"))
	case len(p.Shape("offsets")) != 1:
		return 0, p.errorf("offsets", "has shape %s; want [B]", tensor.ShapeText(p.Shape("offsets")))
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
	if pad, rows := p.int("padding_idx"), p.Shape(table)[0]; pad >= rows {
		return 0, p.errorf("padding_idx", "is %d; want a row of %s, which has %d, or -1 for none", pad, named(table), rows)
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
		return p.errorf("per_sample_weights", "is %s; want none with %s=%s, only %[2]s=sum has them", p.DType("per_sample_weights"), named("mode"), mode)
	}
	if p.op.arg("chosen") >= 0 && p.has("chosen") && mode != "max" {
		return p.errorf("chosen", "is %s; want none with %s=%s", p.DType("chosen"), named("mode"), mode)
	}
	return nil
}

// bags are the runs of indices that belong together: those between offsets,
// or the rows of two-dimensional indices.
type bags struct {
	indices, offsets *tensor.View // offsets may be absent
	count, positions int64
	rows, padding    int64 // indices of none of the rows, and of the padding row, are left out
	// Where indices lie as a list, of 64 bits or of 32, and where offsets do, of 64: those are read
	// without a look at strides and types. Else nil.
	list   []int64
	list32 []int32
	begins []int64
}

// newBags looks at how indices and offsets lie, of which the latter may be absent.
func newBags(indices, offsets *tensor.View, count, positions, rows, padding int64) bags {
	b := bags{indices: indices, offsets: offsets, count: count, positions: positions, rows: rows, padding: padding}
	switch {
	case isList(indices):
		b.list = tensor.Slice[int64](*indices)
	case indices.IsContiguous():
		b.list32 = tensor.Slice[int32](*indices)
	}
	if offsets.Present() && isList(offsets) {
		b.begins = tensor.Slice[int64](*offsets)
	}
	return b
}

// index returns the index at a row-major position.
func (b *bags) index(at int64) int64 {
	if b.list != nil {
		return b.list[at]
	}
	return b.otherIndex(at)
}

// otherIndex is apart, so that index is inlined.
//
//go:noinline
func (b *bags) otherIndex(at int64) int64 {
	if b.list32 != nil {
		return int64(b.list32[at])
	}
	return indexAt(b.indices, at)
}

// some returns indices from a position on, up to an end behind it: all of them where they lie as a list,
// else as many as memory takes.
func (b *bags) some(memory []int64, from, end int64) []int64 {
	if b.list != nil {
		return b.list[from:end]
	}
	part := memory[:min(int64(len(memory)), end-from)]
	if b.list32 != nil {
		readWider(part, b.list32[from:])
	} else {
		readIndices(part, b.indices, from)
	}
	return part
}

// begin returns where a bag begins.
func (b *bags) begin(number int64) int64 {
	if number == 0 {
		return 0
	}
	return b.end(number - 1)
}

// end returns where a bag ends and the next one begins.
func (b *bags) end(number int64) int64 {
	if int(number)+1 < len(b.begins) {
		return b.begins[number+1]
	}
	return b.otherEnd(number)
}

// otherEnd is apart, so that end is inlined.
func (b *bags) otherEnd(number int64) int64 {
	switch next := number + 1; {
	case !b.offsets.Present():
		return next * b.indices.Shape[1]
	case next < b.offsets.Shape[0]:
		return indexAt(b.offsets, next)
	}
	return b.positions
}

// last returns where the last bag ends.
func (b *bags) last() int64 {
	if b.count == 0 {
		return 0
	}
	return b.end(b.count - 1)
}

// at returns the first bag that ends behind a position, and where that is; the
// number of bags where none does.
func (b *bags) at(position int64) (bag, end int64) {
	bag = int64(sort.Search(int(b.count), func(i int) bool { return b.end(int64(i)) > position }))
	if bag < b.count {
		end = b.end(bag)
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
	if b.ascend(pickSupport(cpu.FirstOutside, cpu.Types{})) {
		return nil
	}
	n, low := b.positions, int64(0) // to say what is wrong
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

// ascend reports whether offsets are as check wants them; false where it does not know.
func (b *bags) ascend(search cpu.IndexSearch) bool {
	n := b.offsets.Shape[0]
	if n == 0 || !b.offsets.IsContiguous() || indexAt(b.offsets, 0) != 0 || indexAt(b.offsets, n-1) > b.positions {
		return false
	}
	if b.offsets.DType == tensor.I32 {
		return !search.LeapsI32(tensor.Slice[int32](*b.offsets), math.MaxInt32)
	}
	return !search.LeapsI64(tensor.Slice[int64](*b.offsets), math.MaxInt64)
}

// copyElements copies elements from a row-major position on.
func copyElements(list cpu.Span, v *tensor.View, from, n int64) {
	switch {
	case n == 0: // from may be where memory ends
	case v.IsContiguous():
		cpu.CopyRow(list, elementAt(v, from), n)
	default:
		for i := range n {
			copyElement(list.At(i), elementAt(v, from+i))
		}
	}
}

// copyElement copies an element of a float type.
func copyElement(to, from cpu.Span) {
	switch to.DType.Size() {
	case 8:
		*(*uint64)(to.P) = *(*uint64)(from.P)
	case 4:
		*(*uint32)(to.P) = *(*uint32)(from.P)
	default:
		*(*uint16)(to.P) = *(*uint16)(from.P)
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
