package cuda

import "github.com/isobit-ml/isobit/tensor"

type linearArgs struct {
	m, n, k                                 int64
	x, xScale, weight, weightScale, bias, y tensorArg
	xPitch, weightPitch                     int64
	packed, hasBias                         int32
}

// The places of quantized_linear's arguments.
const (
	linearX = iota
	linearXScale
	linearWeight
	linearWeightScale
	linearBias
	linearY
)

const (
	linearTile  = 64
	linearChunk = 16     // codes that kernels with tensor cores copy at once
	linearExact = 131071 // products of codes that sum up within 32 bits
)

// linearShapes are the kernels with tensor cores.
var linearShapes = []tileShape{
	{"few", 16, 32, blockThreads, floats}, {"low", 64, 32, blockThreads, floats[:1]},
	{"small", 64, 64, blockThreads, floats[:1]}, {"wide", 128, 128, blockThreads, floats},
}

func buildQuantizedLinear(p *Problem, prog *Program) error {
	dtype, x := p.Types[linearY], p.Shapes[linearX]
	prog.Compute, prog.Accumulator = dtype.Compute(), tensor.I64
	a := linearArgs{m: x[0], k: x[1], n: p.Shapes[linearWeight][0], hasBias: boolArg(p.Types[linearBias] != tensor.None)}
	k := prog.kernel("quantized_linear%s", typeNames(dtype))
	fast := -1
	shape, tiles, ok := tilesOf(linearShapes, dtype, 1, a.m, a.n)
	if ok && a.k <= linearExact {
		fast = prog.kernel("quantized_linear_%s_sm80%s", shape.name, typeNames(dtype))
	}
	prog.run = func(r *run) {
		if a.m == 0 || a.n == 0 {
			return
		}
		a := a
		a.x, a.xScale = r.tensor(linearX), r.tensor(linearXScale)
		a.weight, a.weightScale = r.tensor(linearWeight), r.tensor(linearWeightScale)
		a.bias, a.y = r.tensor(linearBias), r.tensor(linearY)
		x, weight := &r.args[linearX], &r.args[linearWeight]
		a.xPitch, a.weightPitch = x.Stride(0), weight.Stride(0)
		a.packed = boolArg(atOnce(x, 4) && atOnce(weight, 4))
		if fast >= 0 && r.functions[fast] != 0 && a.y.rank == 0 && atOnce(x, linearChunk) && atOnce(weight, linearChunk) {
			launch(r, fast, shape.blocks(tiles), &a)
			return
		}
		launch(r, k, blocks(ceilDiv(a.m, linearTile)*ceilDiv(a.n, linearTile), mostBlocks), &a)
	}
	return nil
}

// atOnce reports whether so many codes of a row can be loaded at once.
func atOnce(v *tensor.View, codes int64) bool {
	return v.Shape[1]%codes == 0 && v.Stride(1) == 1 && v.Stride(0)%codes == 0 && addressOf(v)%uint64(codes) == 0
}

// weightShapes are the kernels for compact codes.
var weightShapes = []tileShape{
	{"row", 1, 16, blockThreads, weightTypes}, {"four", 4, 16, blockThreads, weightTypes}, {"few", 8, 32, blockThreads, weightTypes},
}

var weightTypes = []tensor.DType{tensor.F32, tensor.BF16}

// The places of weight_only_linear's arguments.
const (
	weightX = iota
	weightCodes
	weightScale
	weightZero
	weightBias
	weightY
)

const weightRun = 32 // codes that have the same parameters there

type weightArgs struct {
	stripe                          stripeArgs
	n, k, group, groups             int64
	groupOf                         ratio
	_                               int32
	x, weight, scale, zero, bias, y tensorArg
	hasBias, learned                int32
	lo, hi                          float64 // bounds of learned zero points
}

func buildWeightOnlyLinear(p *Problem, prog *Program) error {
	dtype, codes, weight := p.Types[weightX], p.Types[weightCodes], p.Shapes[weightCodes]
	prog.Compute = dtype.Compute()
	prog.Accumulator = prog.Compute
	a := weightArgs{n: weight[0], k: weight[1], group: p.Int("group_size"), hasBias: boolArg(p.Types[weightBias] != tensor.None)}
	a.learned = boolArg(p.Types[weightZero].IsFloat())
	lo, hi := codes.WholeRange()
	a.lo, a.hi = float64(lo), float64(hi)
	a.groups = ceilDiv(a.k, a.group)
	m := p.Shapes[weightX][0]
	var partial int64
	a.stripe, partial = prog.stripeOf(m*a.n, a.k, 1, prog.Compute)
	k := prog.suffixed("weight_only_linear"+typeNames(dtype), stripeKernels, true, a.stripe.blocks > 1)
	fast := -1
	shape, tiles, ok := tilesOf(weightShapes, dtype, 1, m, a.n)
	if ok && a.fits(p) {
		a.group = min(a.group, a.k)
		a.groupOf = ratioOf(a.group)
		fast = prog.kernel("weight_%s%s", shape.name, typeNames(dtype))
	}
	prog.run = func(r *run) {
		a := a
		a.x, a.weight, a.bias, a.y = r.tensor(weightX), codesOf(&r.args[weightCodes], codes), r.tensor(weightBias), r.tensor(weightY)
		a.scale, a.zero = r.tensor(weightScale), r.tensor(weightZero)
		if fast >= 0 && a.x.rank|a.weight.rank|a.scale.rank|a.zero.rank == 0 {
			launchTiles(r, fast, k+1, tiles, &a.stripe, partial, &a)
			return
		}
		launchStripe(r, k, &a.stripe, partial, &a)
	}
	return nil
}

// fits reports whether the kernels of weightShapes serve a problem, where tensors are compact.
func (a *weightArgs) fits(p *Problem) bool {
	scale, zero := p.Types[weightScale], p.Types[weightZero]
	return a.k > 0 && a.k < 1<<30 && a.k%8 == 0 && (a.group%weightRun == 0 || a.group >= a.k) &&
		scale.Size() <= 4 && (zero == tensor.None || zero.Size() <= 4)
}
