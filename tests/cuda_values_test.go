package tests

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// special values that definitions must agree on.
var special = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e-45, -1e-40, 3e38, -65504, 0.5, -0.5, 1.5, 2.5}

const hotScale = float64(float32(1.3 / 16))

// value makes one element of an argument. data says how: "plain" has no special
// values, "hot" prefers one destination, one scale and ties, grids are within the
// image when "inner" and at one place of it when "calm"; other words mix everything.
func (c deviceCase) value(r *rand.Rand, a *testcase.Arg, p *plans.Problem) float64 {
	name, dtype := a.Name, a.DType
	wild := c.data != "plain" && r.IntN(16) == 0
	switch {
	case c.data == "extreme" && dtype == tensor.S8:
		return -128
	case c.data == "extreme" && strings.HasSuffix(name, "zero_point"): // differences as large as they may be
		return 300
	case name == "indices":
		return c.index(r, wild, float64(indexRows(p)))
	case name == "chosen":
		return float64(r.IntN(int(tensor.NumElements(p.Shape("indices")))))
	case dtype.IsInt():
		return c.whole(r, name, dtype)
	case dtype.IsFloat8():
		code := r.IntN(256)
		if v := float64(tensor.Float8Values(dtype)[code]); math.IsNaN(v-v) && !wild {
			return 0
		}
		return float64(code)
	case name == "q":
		return math.Floor(r.Float64()*255) - 128
	case name == "scale" || strings.HasSuffix(name, "_scale"):
		return c.scale(r, wild)
	case name == "grid":
		return c.coordinate(r, wild)
	case wild:
		return special[r.IntN(len(special))]
	case c.data == "hot" && name == "x": // quotients that are ties, or next to them
		return (math.Floor(r.Float64()*64) - 31.5) * hotScale
	case r.IntN(3) == 0: // ties
		return (math.Floor(r.Float64()*64) - 32) / 32
	}
	return r.NormFloat64()
}

// index makes the number of one of some rows, or, where that is allowed, of none.
func (c deviceCase) index(r *rand.Rand, wild bool, rows float64) float64 {
	switch {
	case c.data == "hot" && r.IntN(8) > 0:
		return math.Floor(rows / 2)
	case wild && !strings.Contains(c.text, "bounds=error") && c.data != "valid":
		return rows + float64(r.IntN(3)) - float64(r.IntN(2))*(rows+3)
	}
	return math.Floor(r.Float64() * rows)
}

// whole makes a code, a zero point or another whole number.
func (c deviceCase) whole(r *rand.Rand, name string, dtype tensor.DType) float64 {
	lo, hi := -8.0, 7.0
	if name == "q" || dtype == tensor.S8 || dtype == tensor.U8 {
		l, h := dtype.WholeRange()
		lo, hi = float64(l), float64(h)
	}
	if name == "zero_point" {
		lo, hi = max(lo, -8), 7
		if strings.Contains(c.text, "qmin=0 ") || dtype == tensor.U8 {
			lo = 0
		}
	}
	return lo + math.Floor(r.Float64()*(hi-lo+1))
}

func (c deviceCase) scale(r *rand.Rand, wild bool) float64 {
	switch {
	case wild && r.IntN(4) == 0:
		return special[r.IntN(len(special))]
	case c.data == "hot":
		return hotScale
	case r.IntN(2) == 0: // few quotients by it are exact
		return math.Ldexp(1+r.Float64(), -4)
	}
	return math.Ldexp(1+math.Floor(r.Float64()*4)/4, -4)
}

// coordinate makes one of a grid.
func (c deviceCase) coordinate(r *rand.Rand, wild bool) float64 {
	switch {
	case c.data == "inner":
		return r.Float64() - 0.5
	case c.data == "calm":
		return (r.Float64() - 0.5) / 64
	case wild:
		return special[r.IntN(len(special))]
	case c.data == "hot":
		return math.Floor(r.Float64()*3) / 64
	case r.IntN(8) == 0: // where the padding of align_corners begins
		return float64(r.IntN(3) - 1)
	}
	return r.Float64()*3 - 1.5
}

// values returns how the elements of an argument are made. Some hang together: offsets ascend
// from 0 on, and of each bag that is a row of indices some position is chosen.
func (c deviceCase) values(r *rand.Rand, a *testcase.Arg, p *plans.Problem) func() float64 {
	i := int64(-1)
	switch {
	case a.Name == "offsets":
		list := make([]float64, a.Shape[0])
		for k := range list[1:] {
			list[k+1] = float64(r.Int64N(p.Shape("indices")[0] + 1))
		}
		slices.Sort(list)
		return func() float64 { i++; return list[i] }
	case a.Name == "chosen" && len(p.Shape("indices")) == 2:
		length := p.Shape("indices")[1]
		return func() float64 { i++; return float64(i/a.Shape[1]*length + r.Int64N(length)) }
	}
	return func() float64 { return c.value(r, a, p) }
}

func indexRows(p *plans.Problem) int64 {
	if strings.HasPrefix(p.Op(), "embedding") && strings.HasSuffix(p.Op(), "_backward") && !strings.Contains(p.Op(), "weights") {
		return p.Shape("grad_weight")[0]
	}
	return p.Shape("weight")[0]
}
