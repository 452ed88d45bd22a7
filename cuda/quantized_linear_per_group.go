package cuda

import "github.com/isobit-ml/isobit/tensor"

// groupShapes are the kernels for compact codes: of few rows, and of others with tensor cores.
var groupShapes = []tileShape{
	{"row", 1, 32, blockThreads, floats[:1]}, {"four", 4, 32, blockThreads, floats[:1]}, {"few", 8, 16, blockThreads, floats[:1]},
	{"small_sm80", 64, 64, blockThreads, floats[:1]}, {"wide_sm80", 64, 128, blockThreads, floats[:1]},
}

// groupShape chooses one for products of m rows and n columns, and says how many tiles it has.
func groupShape(m, n int64) (shape tileShape, tiles int64) {
	if m <= fewRows {
		shape, tiles, _ = tilesOf(groupShapes[:3], tensor.F32, 1, m, n)
		return shape, tiles
	}
	for _, s := range groupShapes[3:] {
		if count := ceilDiv(m, s.rows) * ceilDiv(n, s.cols); tiles == 0 || count >= manyTiles {
			shape, tiles = s, count
		}
	}
	return shape, tiles
}

// The places of quantized_linear_per_group's arguments.
const (
	groupX = iota
	groupXScale
	groupXZero
	groupWeight
	groupScale
	groupZero
	groupBias
	groupY
)

const (
	groupRun   = 32    // codes of one group, which those kernels take at once
	groupExact = 32768 // products of differences that sum up within 32 bits
)

type groupArgs struct {
	m, n, k                                        int64
	group, groups                                  int64
	x, xScale, xZero, weight, scale, zero, bias, y tensorArg
	xCodes, weightCodes                            codeKind
	xPitch, weightPitch                            int64
	xWords, weightWords                            int32
	hasBias                                        int32
	runsOf                                         ratio
}

// codeKind is struct CodeKind.
type codeKind struct {
	lo, hi, shift int32
	flip          uint32
}

// signedCodes say how codes become signed bytes that are not: those of u8 less 128, those of s4 plus 8.
var signedCodes = [tensor.Count]codeKind{tensor.U8: {shift: -128, flip: 0x80808080}, tensor.S4: {shift: 8, flip: 0x88888888}}

func codeKindOf(d tensor.DType) codeKind {
	c := signedCodes[d]
	lo, hi := d.WholeRange()
	c.lo, c.hi = int32(lo), int32(hi)
	return c
}

func buildQuantizedLinearPerGroup(p *Problem, prog *Program) error {
	x, codes := p.Shapes[groupX], p.Types[groupWeight]
	prog.Compute, prog.Accumulator = p.Types[groupY].Compute(), tensor.I64
	a := groupArgs{
		m: x[0], k: x[1], n: p.Shapes[groupWeight][0], hasBias: boolArg(p.Types[groupBias] != tensor.None),
		xCodes: codeKindOf(p.Types[groupX]), weightCodes: codeKindOf(codes),
	}
	a.group = min(p.Int("group_size"), max(1, a.k))
	a.groups = ceilDiv(a.k, a.group)
	k := prog.kernel("quantized_linear_per_group%s", typeNames(prog.Compute))
	fast := -1
	shape, tiles := groupShape(a.m, a.n)
	if a.inRuns(p) {
		a.runsOf = ratioOf(ceilDiv(a.group, groupRun))
		fast = prog.kernel("group_linear_%s", shape.name)
	}
	prog.run = func(r *run) {
		if a.m == 0 || a.n == 0 {
			return
		}
		a := a
		a.x, a.xScale, a.xZero = r.tensor(groupX), r.tensor(groupXScale), r.tensor(groupXZero)
		a.weight, a.scale, a.zero = codesOf(&r.args[groupWeight], codes), r.tensor(groupScale), r.tensor(groupZero)
		a.bias, a.y = r.tensor(groupBias), r.tensor(groupY)
		x, weight := &r.args[groupX], &r.args[groupWeight]
		a.xPitch, a.weightPitch = x.Stride(0), weight.Stride(0)
		if fast >= 0 && r.functions[fast] != 0 && a.scale.rank|a.zero.rank == 0 && atOnce(x, packBytes) && atOnce(weight, packBytes) {
			launch(r, fast, shape.blocks(tiles), &a)
			return
		}
		if words := a.k > 0 && a.k%4 == 0 && (a.group%4 == 0 || a.groups == 1); words {
			a.xWords, a.weightWords = boolArg(atOnce(x, 4)), boolArg(atOnce(weight, 4*weight.Shape[1]/a.k))
		}
		launch(r, k, blocks(ceilDiv(a.m, linearTile)*ceilDiv(a.n, linearTile), mostBlocks), &a)
	}
	return nil
}

// inRuns reports whether the kernels of groupShapes serve a problem, where tensors are compact.
func (a *groupArgs) inRuns(p *Problem) bool {
	scale, zero := p.Types[groupScale], p.Types[groupZero]
	return a.k > 0 && a.k < 1<<30 && a.k%groupRun == 0 && (a.group%groupRun == 0 || a.groups == 1) && a.group <= groupExact &&
		p.Types[groupY].Compute() == tensor.F32 && scale.Size() <= 4 && (zero == tensor.None || zero.Size() <= 4)
}
