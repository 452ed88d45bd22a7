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
	to.Compute, to.Accumulator = computeType(p.Types[5]), tensor.I64
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
