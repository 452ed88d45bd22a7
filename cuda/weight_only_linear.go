package cuda

import "github.com/isobit-ml/isobit/tensor"

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
