package cpu

import (
	"math/bits"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// What stands between WeightOnlyLinear and its kernels. Few rows of x are
// multiplied with weights as these are made; more of them with rows of weights that
// are packed as kernels read them, as those of x are: some vectors of each stripe
// after others.

type (
	dequantizeGroups func(q *byte, groups, size int, scale, zero, w *float32)
	// weightCodes are kernels for codes; numbers may be nil where 32 of them have a scale in common.
	weightCodes struct {
		multiply  func(q *byte, steps, shift int, numbers *int32, scale, zero, codes, x *float32, xRow, rows int, lanes *float32, more, columns, qRow, scaleRow, zeroRow int, rest uint64)
		packCodes func(q *byte, steps, shift int, numbers *int32, scale, zero, codes, to *float32, toRow, apart, columns, qRow, scaleRow, zeroRow int, rest uint64) // nil: bytes are packed
	}
)

// weightKernel has the kernels of an instruction set.
type weightKernel struct {
	needs      ISA
	lanes      int                          // of a vector
	together   int                          // vectors of a stripe that are multiplied at a time
	few        int64                        // rows of x that are multiplied on the way
	masks      bool                         // codes that a stripe lacks are not read
	near       int64                        // positions that are multiplied at once
	depth      int64                        // of more, how many are multiplied before the next ones are
	sliced     bool                         // of more, what is for another time comes later: that of all times would not stay in the first cache
	shared     map[tensor.DType]weightCodes // of groups of 32 or a power of two times as many, or of whole rows
	grouped    map[tensor.DType]weightCodes // of others, by numbers
	dequantize map[tensor.DType]dequantizeGroups
	tiles      func(x *float32, xRow, rows int, w *float32, wRow, columns, steps, time, end int, lanes *float32, more int, sums *float32, sumsRow, folding int, folds *float32, foldsTile int)
	pack       func(from *float32, steps int, to *float32, apart int)
	fold       func(lanes *float32, rows int, y *float32, yRow int)
	doubled    *doubleKernel // of f64; or nil
}

const (
	weightTileRows    = 72      // of x
	weightTileColumns = 4       // rows of weight that kernels take multiples of
	weightColumns     = 64      // sums that wait for their bias
	weightTogether    = 16      // rows of weight that kernels take at most
	weightPacked      = 1 << 12 // weights that are multiplied at a time at most, and stay in the first cache
	weightLeastDepth  = 1024    // the least depth of a kernel
	weightSlack       = 16      // elements that keep packed rows from meeting in a cache
	sharedUnit        = 32      // positions: groups that weightCodes take are a power of two times as many
)

// weightScratch is a tile's memory.
type weightScratch struct {
	lanes [weightFewRows * weightTileColumns][Lanes]float32          // of few rows, weightTileColumns each, or of one row
	parts [weightTileRows*weightTogether*Lanes + weightSlack]float32 // sums of some positions
	folds [weightTileRows/2*weightFolds + weightSlack]float32
	sums  [weightTileRows][weightColumns]float32
	row   [TileSize]float32
	tile  [2*weightPacked + weightTogether*weightSlack + weightSlack]float32
}

// weightTable makes the rows before the definition.
func weightTable() (table []Row[WeightLayer]) {
	for i := range weightKernels {
		k := &weightKernels[i]
		table = append(table, Row[WeightLayer]{k.needs.String(), k.needs, func(t Types) (WeightLayer, bool) {
			if t.Compute != tensor.F32 {
				return k.doubles(t.In[1])
			}
			r := k.newRow(typeFor(k.needs, t.In[0]), t.In[1])
			return WeightLayer{
				Run: func(t *WeightTile) {
					run := r.begin(t)
					run.columns()
				},
				Rows: weightTileRows, Packed: packedSize, Numbers: r.numbers,
				Pack: func(t *WeightTile) {
					run := r.begin(t)
					for m := t.M0; m < t.M1; m++ {
						run.packRow(m)
					}
				},
			}, true
		}})
	}
	return table
}

// weightRow is a row for some types.
type weightRow struct {
	*weightKernel
	x                             *gatherType
	packing                       Packing
	bytes                         dequantizeGroups // of codes as bytes
	unsigned                      bool             // these are
	shared, grouped, groupedBytes weightReader
}

// weightRun is a tile under way.
type weightRun struct {
	*weightRow
	*weightReader
	*WeightTile
	s      *weightScratch
	takes  bool     // kernels take the tile; else the definition does
	shift  int      // positions p to p+31, p a multiple of 32, have scale number p/32 >> shift, or numbers have all
	few    bool     // rows of x are multiplied with weights in registers
	rest   uint64   // the elements of the last stripe, if it is not whole
	deep   int64    // positions that all rows are multiplied over before the next positions
	inside int64    // rows of codes that kernels may read whole stripes of
	most   int64    // rows of scales that there is room for
	read   rowCodes // what kernels take next: returned, it would wait for its parts to be stored
}

func (r *weightRow) begin(t *WeightTile) weightRun {
	run := weightRun{weightRow: r, WeightTile: t, s: &t.Scratch.weights, takes: t.forKernels(), few: t.M <= r.few}
	run.weightReader, run.shift = r.reader(t.GroupSize, t.K)
	if run.deep = r.depth; t.K <= r.near {
		run.deep = max(t.K, 1)
	}
	run.rest = run.restOf(t.K%Lanes, run.evenFirst(run.few))
	run.most = max(1, mostScales/(t.K/t.GroupSize+1))
	if run.inside = t.Rows; !r.masks {
		run.inside = t.rowsInside()
	}
	return run
}

// reader returns what reads groups of a size.
func (r *weightRow) reader(group, k int64) (reader *weightReader, shift int) {
	units := group / sharedUnit
	switch {
	case group >= k:
		return &r.shared, 63
	case group%sharedUnit == 0 && units&(units-1) == 0:
		return &r.shared, bits.TrailingZeros64(uint64(units))
	case group%2 == 0:
		return &r.grouped, 0
	}
	return &r.groupedBytes, 0 // neighbours may have different scales
}

// evenFirst reports whether codes are read two in a byte.
func (r *weightReader) evenFirst(few bool) bool { return r.halves != nil && (few || r.packs) }

// numbers returns which scales the elements of a row have, where kernels ask for it.
func (r *weightRow) numbers(m, k, group int64) []int32 {
	reader, _ := r.reader(group, k)
	if reader == &r.shared || k > StripeBlock {
		return nil
	}
	each := int64(1)
	if reader.evenFirst(m <= r.few) {
		each = 2
	}
	numbers := make([]int32, roundUp(k, Lanes)/each)
	for i := range numbers {
		numbers[i] = int32(min(int64(i)*each, k-1) / group)
	}
	return numbers
}

// restOf has the bits of the first n elements of a stripe: of codes that are two in a byte the even ones of two vectors come first.
func (r *weightRow) restOf(n int64, evenFirst bool) (bits uint64) {
	if !evenFirst {
		return 1<<n - 1
	}
	lanes := int64(r.lanes)
	for first := int64(0); first < n; first += 2 * lanes {
		of := min(n-first, 2*lanes)
		bits |= (1<<((of+1)/2) - 1 | (1<<(of/2)-1)<<lanes) << first
	}
	return bits
}

// restIn has the bits of the last stripe of so many positions, where kernels take it and it is not whole.
func (r *weightRun) restIn(size int64) uint64 {
	if size%Lanes == 0 {
		return 0
	}
	return r.rest
}

// forKernels reports whether kernels take a tile.
func (t *WeightTile) forKernels() bool {
	return t.K > 0 && t.K <= StripeBlock && (t.Weight.DType.Packed() || t.Weight.Contiguous())
}

// define computes a tile by the definition.
func define[C Compute](t *WeightTile) {
	part := *t
	for ; part.M0 < t.M1; part.M0 += weightTreeRows {
		part.M1 = min(part.M0+weightTreeRows, t.M1)
		weightOnlyLinear[C](&part)
	}
}

// packed returns where an element of packed x lies.
func (r *weightRun) packed(at int64) *float32 { return (*float32)(unsafe.Add(r.Packed, at*4)) }

// packRow copies a row of x: as it is, or packed, some positions at a time, of which
// all rows follow each other.
func (r *weightRun) packRow(m int64) {
	switch {
	case !r.takes:
	case r.few:
		row := unsafe.Slice(r.packed(m*packedWidth(r.K)), roundUp(r.K, Lanes))
		loadRow(r.x, row[:r.K], r.X.Row(m, 0))
		clear(row[r.K:]) // what memory holds may be subnormal, which takes long to multiply
		if r.halves != nil {
			evenFirst(row, 2*r.lanes)
		}
	default:
		for k := int64(0); k < r.K; k += r.deep {
			row := r.s.row[:min(r.deep, r.K-k)]
			loadRow(r.x, row, r.X.Row(m, k))
			r.packStripes(row, r.packedPart(m, k), stripes(len(row)))
		}
	}
}

// evenFirst moves the even ones of every so many elements, up to 32, to the front.
func evenFirst(row []float32, of int) {
	var from [32]float32
	for ; len(row) > 0; row = row[of:] {
		copy(from[:of], row)
		for i := range of / 2 {
			row[i], row[of/2+i] = from[2*i], from[2*i+1]
		}
	}
}

// columns computes the tile's part of y.
func (r *weightRun) columns() {
	if !r.takes {
		define[float32](r.WeightTile)
		return
	}
	for first := r.N0; first < r.N1; first += weightColumns {
		end := min(first+weightColumns, r.N1)
		if r.few {
			for n, step := first, r.fewColumns(); n < end; n += step {
				count := min(step, end-n)
				r.multiply(n, count)
				r.foldRows(n-first, count)
			}
		} else {
			r.multiplyTiles(first, end)
		}
		r.store(first, end)
	}
}

// store adds the bias to the sums of some columns.
func (r *weightRun) store(first, end int64) {
	bias := BlockOf[float32](r.Scratch, 0, int(end-first))
	Load(bias, r.Bias.At(first))
	for m := r.M0; m < r.M1; m++ {
		y := r.s.sums[m-r.M0][:end-first]
		if r.Bias.P != nil {
			for i, b := range bias {
				y[i] += b
			}
		}
		storeRow(r.x, r.Y.Row(m, first), y)
	}
}

// fewColumns returns how many columns few rows are multiplied by at a time.
func (r *weightRun) fewColumns() int64 {
	if r.M1-r.M0 == 1 {
		return int64(len(r.s.lanes))
	}
	return weightTileColumns
}

// multiply adds the products of some rows of weight from n on, some positions of one after the other: so many that
// weightFewRows of x stay in the first cache meanwhile. One or two rows of x wait for the weights, which come faster in
// long runs.
func (r *weightRun) multiply(n, count int64) {
	step := r.K
	if r.M1-r.M0 > 2 || !r.direct || n+count > r.inside || r.Numbers != nil {
		step = TileSize // or what room for copies of codes there is
	}
	for k := int64(0); k < r.K; k += step {
		for i := int64(0); i < count; {
			i += r.multiplySlice(n, i, count-i, k, min(step, r.K-k))
		}
	}
}

// multiplySlice adds the products of some positions of up to so many rows from n+i of weight on, and returns of how many.
func (r *weightRun) multiplySlice(n, i, count, k, size int64) int64 {
	width, c := packedWidth(r.K), &r.read
	r.codes(c, n+i, count, k, size, r.direct)
	r.weightCodes.multiply((*byte)(c.codes), int(size/Lanes), r.shift, r.numbersFrom(k), c.scale, c.zero, r.halves,
		r.packed(r.M0*width+k), int(width*4), int(r.M1-r.M0), &r.s.lanes[i][0], int(k),
		int(c.rows), c.codeRow, c.scaleRow, c.zeroRow, r.restIn(size))
	return c.rows
}

// numbersFrom returns those of the elements from position k on, if there are any.
func (r *weightRun) numbersFrom(k int64) *int32 {
	switch {
	case r.Numbers == nil:
		return nil
	case r.evenFirst(r.few):
		return &r.Numbers[k/2]
	}
	return &r.Numbers[k]
}

// foldRows folds the lanes of some columns into sums.
func (r *weightRun) foldRows(column, count int64) {
	rows, apart := r.M1-r.M0, unsafe.Sizeof(r.s.sums[0])
	if rows == 1 {
		rows, apart = roundUp(count, weightTileColumns)/weightTileColumns, weightTileColumns*4
	}
	r.fold(&r.s.lanes[0][0], int(rows), &r.s.sums[0][column], int(apart))
}
