package cuda

import "github.com/isobit-ml/isobit/tensor"

// factorArg is struct Factor.
type factorArg struct {
	data           uint64
	lines          int64 // rows of the first factor, columns of the second
	batch, line, k int64 // strides
}

// atOnce reports whether chunks of 16 bytes can be copied at once: along k, or
// across, where neighbours in memory belong to neighbouring lines.
func (f *factorArg) atOnce(k, size int64) (ok, across bool) {
	if f.data%16 != 0 || f.batch*size%16 != 0 {
		return false, false
	}
	if f.k == 1 && f.line*size%16 == 0 && k*size%16 == 0 {
		return true, false
	}
	return f.line == 1 && f.k*size%16 == 0 && f.lines*size%16 == 0, true
}

type matmulArgs struct {
	batch, m, n, k        int64
	input, other          factorArg
	y                     uint64
	yBatch, yRow, yColumn int64
	bias                  tensorArg
	hasBias               int32
	inputAcross           int32
	otherAcross, _        int32
}

// The places of matmul's arguments.
const (
	matmulInput = iota
	matmulOther
	matmulBias
	matmulY
)

const (
	matmulTile = 64
	matmulWide = 128 // rows and columns of a tile, where that makes manyTiles
)

// matmulShapes are the kernels that copy chunks at once, and the rows and
// columns of their tiles, from those that reuse least of what they read.
var matmulShapes = []tileShape{
	{"row", 4, 32, 128, matmulTypes}, {"few", fewRows, 32, 128, matmulTypes},
	{"small", 64, 64, 128, matmulTypes[:1]}, {"wide", 128, 128, 128, matmulTypes},
}

var matmulTypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}

func buildMatmul(p *Problem, prog *Program) error {
	dtype, x, other := p.Types[matmulInput], p.Shapes[matmulInput], p.Shapes[matmulOther]
	prog.Compute = dtype.Compute()
	prog.Accumulator = prog.Compute
	a := matmulArgs{
		batch: 1, m: x[len(x)-2], k: x[len(x)-1], n: other[len(other)-1],
		hasBias: boolArg(p.Types[matmulBias] != tensor.None),
	}
	if len(x) == 3 {
		a.batch = x[0]
	}
	tiles := func(side int64) int64 { return a.batch * ceilDiv(a.m, side) * ceilDiv(a.n, side) }
	name, count := "matmul%s", tiles(matmulTile)
	if min(a.m, a.n) > matmulTile && tiles(matmulWide) >= manyTiles {
		name, count = "matmul_wide%s", tiles(matmulWide)
	}
	k := prog.kernel(name, typeNames(dtype))
	fast := -1
	shape, fastTiles, ok := tilesOf(matmulShapes, dtype, a.batch, a.m, a.n)
	if ok && (a.m <= shape.rows || shape.rows > fewRows) {
		fast = prog.kernel("matmul_%s_sm80%s", shape.name, typeNames(dtype))
	}
	prog.run = func(r *run) {
		if count == 0 {
			return
		}
		a := a
		a.input.data, a.input.batch, a.input.line, a.input.k = matricesOf(&r.args[matmulInput])
		a.other.data, a.other.batch, a.other.k, a.other.line = matricesOf(&r.args[matmulOther])
		a.input.lines, a.other.lines = a.m, a.n
		a.bias = r.tensor(matmulBias)
		a.y, a.yBatch, a.yRow, a.yColumn = matricesOf(&r.args[matmulY])
		size := dtype.Size()
		x, xAcross := a.input.atOnce(a.k, size)
		other, otherAcross := a.other.atOnce(a.k, size)
		a.inputAcross, a.otherAcross = boolArg(xAcross), boolArg(otherAcross)
		if fast >= 0 && r.functions[fast] != 0 && x && other && (!xAcross || shape.rows > fewRows) {
			launch(r, fast, shape.blocks(fastTiles), &a)
			return
		}
		launch(r, k, blocks(count, mostBlocks), &a)
	}
	return nil
}

// matricesOf is where matrices lie: the first one's address, and strides.
func matricesOf(v *tensor.View) (data uint64, batch, row, column int64) {
	rank := len(v.Shape)
	if rank == 3 {
		batch = v.Stride(0)
	}
	return addressOf(v), batch, v.Stride(rank - 2), v.Stride(rank - 1)
}
