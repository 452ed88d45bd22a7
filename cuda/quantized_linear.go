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
