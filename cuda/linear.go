package cuda

import "github.com/isobit-ml/isobit/tensor"

type linearArgs struct {
	m, n, k                                 int64
	x, xScale, weight, weightScale, bias, y tensorArg
	xPitch, weightPitch                     int64
	packed, hasBias                         int32
}

const linearTile = 64

func buildQuantizedLinear(p *Problem, to *Program) error {
	to.Compute, to.Accumulator = p.Types[5].Compute(), tensor.I64
	a := linearArgs{m: p.Shapes[0][0], k: p.Shapes[0][1], n: p.Shapes[2][0], hasBias: boolArg(p.Types[4] != tensor.None)}
	k := to.kernel("quantized_linear%s", typeNames(p.Types[5]))
	to.run = func(r *run) {
		if a.m == 0 || a.n == 0 {
			return
		}
		a := a
		for i, t := range []*tensorArg{&a.x, &a.xScale, &a.weight, &a.weightScale, &a.bias, &a.y} {
			*t = tensorOf(&r.args[i])
		}
		var packed [2]bool
		a.xPitch, packed[0] = fourCodes(&r.args[0])
		a.weightPitch, packed[1] = fourCodes(&r.args[2])
		a.packed = boolArg(packed[0] && packed[1])
		tiles := ((a.m + linearTile - 1) / linearTile) * ((a.n + linearTile - 1) / linearTile)
		launch(r, k, blocks(tiles, 1<<20), &a)
	}
	return nil
}

// fourCodes reports whether four codes of a row can be loaded at once, and
// the distance between rows.
func fourCodes(v *tensor.View) (pitch int64, ok bool) {
	pitch = v.Stride(0)
	return pitch, v.Shape[1]%4 == 0 && v.Stride(1) == 1 && pitch%4 == 0 && addressOf(v)%4 == 0
}

type weightArgs struct {
	stripe                          stripeArgs
	n, k, group                     int64
	x, weight, scale, zero, bias, y tensorArg
	hasBias, learned                int32
	lo, hi                          float64 // bounds of learned zero points
}

func buildWeightOnlyLinear(p *Problem, to *Program) error {
	to.Compute = p.Types[0].Compute()
	to.Accumulator = to.Compute
	a := weightArgs{n: p.Shapes[1][0], k: p.Shapes[1][1], group: p.Int("group_size"), hasBias: boolArg(p.Types[4] != tensor.None)}
	a.learned = boolArg(p.Types[3].IsFloat())
	lo, hi := p.Types[1].WholeRange()
	a.lo, a.hi = float64(lo), float64(hi)
	k := to.stripeKernel("weight_only_linear%s", typeNames(p.Types[0]))
	var partial int64
	a.stripe, partial = to.stripeOf(p.Shapes[0][0]*a.n, a.k, 1, to.Compute)
	to.run = func(r *run) {
		a := a
		a.x, a.weight, a.scale = tensorOf(&r.args[0]), codesOf(&r.args[1], p.Types[1]), tensorOf(&r.args[2])
		a.zero, a.bias, a.y = tensorOf(&r.args[3]), tensorOf(&r.args[4]), tensorOf(&r.args[5])
		launchStripe(r, k, &a.stripe, partial, &a)
	}
	return nil
}
