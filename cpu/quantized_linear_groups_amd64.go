package cpu

import (
	"math"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// groupLinearRows are the rows of QuantizedLinearPerGroup before the definition.
var groupLinearRows = []Row[GroupLinearLayer]{
	{"avx512vnni", AVX512, func(t Types) (GroupLinearLayer, bool) {
		return groupVNNI.layer(), t.Compute == tensor.F32 && hasVNNI()
	}},
	{"avx2", AVX2, func(t Types) (GroupLinearLayer, bool) { return groupAVX2.layer(), t.Compute == tensor.F32 }},
}

// groupProducts adds what some groups make of some rows of x and a panel of weight to y: see internal/gen/linear_groups.go.
type groupProducts func(x *byte, xStride int, xPairs, w, wPairs *byte, scale *float32, steps, pieces, groups int, xScale, y *float32, acc *int32, keep int)

// groupKernel is an instruction set's.
type groupKernel struct {
	sums  [4]groupProducts // of 1 to 4 rows of x
	step  int64            // codes that are multiplied at a time
	code  int64            // bytes of one
	panel int64            // columns
	pairs bool
	packX func(g *groupRun, m, k, codes, pieces int64, to, pairs unsafe.Pointer)
	packW func(g *groupRun, c groupChunk)
	few   func(g *groupRun, n int64, xScale []float32) // unless nil: takes few rows of x, and groupRows columns, at once
}

// groupRun is a tile under way.
type groupRun struct {
	*GroupLinearTile
	*groupKernel
	groupCut
	memory *groupMemory
	isFew  bool  // rows of x
	halved bool  // codes of 4 bits are multiplied in the order in which halves of bytes become bytes
	first  int64 // of the groups whose parameters are in memory,
	loaded int64 // up to this one
}

const (
	groupParams  = groupDepth / groupLeast // groups whose parameters are loaded at a time
	groupCodes   = 2 * groupDepth * LinearColumns
	groupFewRows = 4
	groupFewMost = 1 << 15 // codes of a row of weight that few takes in a call, which cannot be preempted
	groupRows    = 16      // of weight that are packed at a time
	groupRowRoom = groupDepth + streamAlignment
)

// groupMemory is where a tile's sums and panels lie.
type groupMemory struct {
	y      [MostLinearRows][LinearColumns]float32
	acc    [MostLinearRows][LinearColumns]int32
	codes  [groupCodes]byte
	pairs  [groupParams][LinearColumns]int32
	scales [groupParams][LinearColumns]float32
	zeros  [groupParams][LinearColumns]float32
	loads  [groupParams * LinearColumns]float32
	rows   [groupRows][groupRowRoom]byte
}

// There is room for it: a negative number would not compile.
const _ = uint(int(unsafe.Sizeof(Scratch{}.columns)) - int(unsafe.Sizeof(groupMemory{})))

func (k *groupKernel) layer() GroupLinearLayer {
	return GroupLinearLayer{
		Run: func(t *GroupLinearTile) {
			if t.Packed == nil {
				quantizedLinearPerGroup[float32](t)
				return
			}
			run := &t.Scratch.group // a local one would be allocated: kernels are called through it
			*run = k.begin(t)
			run.tile()
			*run = groupRun{}
		},
		Pack: func(t *GroupLinearTile) {
			run := &t.Scratch.group
			*run = k.begin(t)
			run.packRows()
			*run = groupRun{}
		},
		Packed: func(t *GroupLinearTile) int64 {
			if t.K == 0 || !t.fitsInt32() {
				return 0
			}
			run := k.begin(t)
			return run.chunks * t.M * run.row()
		},
	}
}

func (k *groupKernel) begin(t *GroupLinearTile) groupRun {
	g := groupRun{GroupLinearTile: t, groupKernel: k}
	if t.Scratch != nil {
		g.memory = (*groupMemory)(unsafe.Pointer(&t.Scratch.columns))
	}
	step, depth := k.step, int64(groupDepth)
	whole := t.Rows%groupRows == 0 && t.GroupSize%groupPart == 0 && t.K%t.GroupSize == 0
	if k.few != nil && t.M <= groupFewRows && whole && min(t.K, groupParams*t.GroupSize) <= groupFewMost {
		g.isFew, depth = true, math.MaxInt64
	}
	if k.pairs && t.Weight.DType.Packed() {
		g.groupCut = newGroupCut(t.K, t.GroupSize, 2*step, depth)
		g.halved = g.whole()
	}
	if !g.halved {
		g.groupCut = newGroupCut(t.K, t.GroupSize, step, depth)
	}
	return g
}

// row is how many bytes a packed row of x has in each chunk: codes, then pairs.
func (g *groupRun) row() int64 {
	row := g.mostPieces() * g.size * g.code
	if g.pairs {
		row += 4 * g.mostPieces()
	}
	return row
}

// packedX is where a row of x is packed.
func (g *groupRun) packedX(chunk, m int64) (codes, pairs unsafe.Pointer) {
	codes = unsafe.Add(g.Packed, (chunk*g.M+m)*g.row())
	if !g.pairs {
		return codes, nil
	}
	return codes, unsafe.Add(codes, g.mostPieces()*g.size*g.code)
}

// packRows is Pack.
func (g *groupRun) packRows() {
	for m := g.M0; m < g.M1; m++ {
		for number := range g.chunks {
			c := g.chunk(number)
			g.packRow(&c, m)
		}
	}
}

// packRow packs what a chunk has of a row of x.
func (g *groupRun) packRow(c *groupChunk, m int64) {
	to, pairs := g.packedX(c.number, m)
	done := int64(0) // pieces
	pack := func(k, codes, pieces int64) {
		own := pairs
		if g.pairs {
			own = unsafe.Add(pairs, 4*done)
		}
		g.packX(g, m, k, codes, pieces, unsafe.Add(to, done*g.size*g.code), own)
		done += pieces
	}
	for group := c.group; group < c.group+c.groups; group++ {
		k, codes := g.codes(c, group)
		pieces := codes / g.size
		if pieces > 0 {
			pack(k, g.size, pieces)
		}
		for ; pieces < c.pieces; pieces++ {
			at := min(codes, pieces*g.size)
			pack(g.within(k+at), codes-at, 1)
		}
	}
}

// tile is Run.
func (g *groupRun) tile() {
	rows := g.M1 - g.M0
	y := g.memory.y[:rows]
	for i := range y {
		for j := range y[i] {
			y[i][j] = negativeZero // to which adding the first changes nothing
		}
	}
	xScale := BlockOf[float32](g.Scratch, 0, int(rows))
	Load(xScale, g.XScale.At(g.M0))
	if g.isFew {
		g.tileOfFew(xScale)
		g.store(y)
		return
	}
	for number := range g.chunks {
		c := g.chunk(number)
		g.loadParams(&c)
		g.packW(g, c)
		for n := int64(0); n < g.N1-g.N0; n += g.panel {
			g.multiply(&c, n, xScale)
		}
	}
	g.store(y)
}

// tileOfFew makes y of few rows of x, as many groups at a time as have their parameters in memory.
func (g *groupRun) tileOfFew(xScale []float32) {
	for first := int64(0); first < g.groups; first += groupParams {
		g.loadParams(&groupChunk{group: first, groups: min(groupParams, g.groups-first)})
		for n := int64(0); n < g.N1-g.N0; n += groupRows {
			g.few(g, n, xScale)
		}
	}
}

var negativeZero = float32(math.Copysign(0, -1))

// multiply adds what a panel of weight makes of a chunk.
func (g *groupRun) multiply(c *groupChunk, n int64, xScale []float32) {
	m, keep := g.memory, 0
	if !c.begins {
		keep++
	}
	if !c.ends {
		keep += 2
	}
	rows, w := g.M1-g.M0, &m.codes[n*groupDepth*g.code]
	for i := int64(0); i < rows; i += 4 {
		x, pairs := g.packedX(c.number, g.M0+i)
		g.sums[min(4, rows-i)-1]((*byte)(x), int(g.row()), (*byte)(pairs), w, (*byte)(unsafe.Pointer(&m.pairs)), &m.scales[c.group-g.first][n],
			int(g.size/g.step), int(c.pieces), int(c.groups), &xScale[i], &m.y[i][n], &m.acc[i][n], keep)
	}
}

// loadParams loads scales and zero points of a chunk's groups and later ones, if that was not done.
func (g *groupRun) loadParams(c *groupChunk) {
	if c.group+c.groups <= g.loaded {
		return
	}
	g.first, g.loaded = c.group, min(c.group+groupParams, g.groups)
	g.loadParam(&g.memory.scales, g.Scale, areScales)
	if g.Zero.P != nil {
		g.loadParam(&g.memory.zeros, g.Zero, areZeroPoints)
	}
}

// loadParam loads a parameter of these groups, side by side for all columns.
func (g *groupRun) loadParam(to *[groupParams][LinearColumns]float32, from Rows, zeroPoints bool) {
	count, columns := g.loaded-g.first, g.N1-g.N0
	source := from.Row(g.N0, g.first)
	apart := from.RowStride
	if zeroPoints || source.DType != tensor.F32 || !source.Contiguous() {
		loads := g.memory.loads[:count*columns]
		lo, hi := g.Weight.DType.WholeRange()
		loadRows(loads, count, from, g.N0, g.first, zeroPoints, float64(lo), float64(hi))
		source.P, apart = unsafe.Pointer(&loads[0]), 4*count
	}
	transposeBySize[4](unsafe.Pointer(to), 4*LinearColumns, source.P, apart, columns, count)
}

// store writes y.
func (g *groupRun) store(y [][LinearColumns]float32) {
	columns := g.N1 - g.N0
	bias := BlockOf[float32](g.Scratch, 1, int(columns))
	Load(bias, g.Bias.At(g.N0))
	for i := range y {
		row := y[i][:columns]
		if g.Bias.P != nil {
			for j, b := range bias {
				row[j] += b
			}
		}
		Store(g.Y.Row(g.M0+int64(i), g.N0), row)
	}
}
