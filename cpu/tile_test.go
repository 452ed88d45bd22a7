package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Tiles have the parameters that the definition has: of every type, any number of
// them, each for any number of elements.
func TestTileRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	definition := &cpu.ParamRows[len(cpu.ParamRows)-1]
	for _, row := range cpu.ParamRows[:len(cpu.ParamRows)-1] {
		if row.Needs > cpu.Best() {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			defer releaseGuards()
			r := rand.New(rand.NewPCG(seed, uint64(row.Needs)))
			for range 4000 {
				x := newTiled(r)
				for _, compute := range []tensor.DType{tensor.F32, tensor.F64} {
					if got := x.fill(&row, compute); got != nil {
						require.Equal(t, x.fill(definition, compute), got, "%v %+v", compute, x)
					}
				}
			}
		})
	}
}

// tiled is a number of parameters, each for a run of elements.
type tiled struct {
	dtype            tensor.DType
	number           int // 0: scales, 1: zero points
	data             []byte
	step, count, run int
	lo, hi           float64
}

func newTiled(r *rand.Rand) *tiled {
	x := &tiled{number: r.IntN(2), step: oneOf(r, 1, 1, 1, 2, 0), count: 1 + r.IntN(70), run: 1 + r.IntN(70)}
	x.dtype = oneOf(r, floats...)
	if x.number == 1 {
		x.dtype = oneOf(r, append([]tensor.DType{tensor.I32, tensor.I64, tensor.S8, tensor.U8}, floats...)...)
	}
	if r.IntN(2) == 0 {
		x.run = 1 << r.IntN(9)
	}
	x.count = min(x.count, cpu.TileSize/x.run)
	x.lo, x.hi = float64(-r.IntN(200)), float64(r.IntN(200))
	x.data = guard(values(r, x.dtype, x.count*max(1, x.step), 50, true), r.IntN(2) == 0)
	return x
}

// fill returns the bits of a tile's elements, those of NaN being the same: none where a row does not take the compute type.
func (x *tiled) fill(row *cpu.Row[cpu.ParamKernels], compute tensor.DType) []uint64 {
	tile := new(cpu.ParamTile)
	by, ok := row.Pick(cpu.Types{Compute: compute})
	if !ok {
		return nil
	}
	from := cpu.Span{P: unsafe.Pointer(&x.data[0]), Stride: int64(x.step) * x.dtype.Size(), DType: x.dtype}
	tile.Add(&cpu.Args{Lo: x.lo, Hi: x.hi}, x.number, cpu.ParamRuns{Of: from, Count: x.count, Run: x.run}, compute, &by)
	v := make([]float64, x.count*x.run)
	cpu.Load(v, tile.Span(x.number, true, compute))
	bits := make([]uint64, len(v))
	for i, n := range v {
		if bits[i] = math.Float64bits(n); n != n {
			bits[i] = math.Float64bits(math.NaN())
		}
	}
	return bits
}
