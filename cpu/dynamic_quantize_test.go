package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Scales and zero points that kernels choose, and codes that they make with
// them, are those of the definitions, one after the other.
func TestChosenRuns(t *testing.T) {
	inputs := []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}
	for _, in := range inputs {
		for _, out := range []tensor.DType{tensor.S8, tensor.U8, tensor.S16, tensor.U16, tensor.None} {
			table := cpu.DynamicQuantizeRows[float32]()
			if out == tensor.None {
				table = cpu.ChooseQParamsRows[float32]()
			}
			for _, row := range table {
				t.Run(fmt.Sprintf("%v/%v/%s", in, out, row.Name), func(t *testing.T) {
					if row.Needs > cpu.Best() {
						t.Skip("this machine is without", row.Needs)
					}
					types := cpu.Types{Compute: tensor.F32, In: cpu.InTypes{in}, Out: cpu.OutTypes{out}}
					kernel, ok := row.Pick(types)
					if !ok {
						t.Fatal("the row does not take these types")
					}
					r := rand.New(rand.NewPCG(uint64(in), uint64(out)))
					for range 600 {
						x := newChosenRuns(types, r)
						for row.Needs == cpu.AVX2 && x.length < 16 { // a step, which it takes at least
							x = newChosenRuns(types, r)
						}
						x.check(t, kernel)
					}
				})
			}
		}
	}
}

// chosenRuns are groups whose parameters are chosen, a run each.
type chosenRuns struct{ *runs }

func newChosenRuns(types cpu.Types, r *rand.Rand) chosenRuns {
	table := &tableTest{name: "min max", data: 1}
	x := newRuns(table, [3]tensor.DType{types.In[0], tensor.None, types.Out[0]}, r)
	x.strands, x.rounds, x.strandsOutside = 1, 1, false
	x.steps = min(x.steps, cpu.MaxGroupRuns)
	x.n = x.length * x.steps
	x.types.Attrs = cpu.Attrs{Symmetric: r.IntN(2) == 0, Eps: oneOf(r, 0, 0, 0x1p-23, 1, 1e30)}
	for step := range x.steps {
		x.draw(r, step)
	}
	return chosenRuns{x}
}

// draw makes the elements of a group: of one magnitude, perhaps of one sign,
// seldom with one that is not finite.
func (x *runs) draw(r *rand.Rand, step int) {
	d := x.types.In[0]
	put := func(i int, v float64) { put(x.in[0], d, step*x.length+i, v) }
	magnitude, from, to := math.Ldexp(1+r.Float64(), oneOf(r, 0, -3, 14, 127, -60, -130, -141, -149, 60)), -1.0, 1.0
	switch r.IntN(6) {
	case 0:
		from = 0
	case 1:
		to = 0
	case 2:
		magnitude = math.Copysign(0, float64(r.IntN(2)*2-1))
	}
	for i := range x.length {
		put(i, magnitude*(from+r.Float64()*(to-from)))
	}
	if r.IntN(8) == 0 {
		put(r.IntN(x.length), oneOf(r, math.NaN(), math.Copysign(math.NaN(), -1), math.Inf(1), math.Inf(-1)))
	}
}

func (x chosenRuns) check(t *testing.T, kernel cpu.ChooseRuns[float32]) {
	t.Helper()
	defer releaseGuards()
	a := &cpu.Args{Lo: x.lo, Hi: x.hi, Attrs: x.types.Attrs, Scratch: scratch, Stream: x.stream, Ahead: x.ahead}
	a.Runs.Steps, a.Runs.Strands = x.steps, 1
	in, out := x.types.In[0], x.types.Out[0]
	a.In[0] = cpu.Span{DType: in, Stride: in.Size()}
	x.operand(a, 0, &a.In[0], x.in[0], x.length, x.gap)
	var memory []byte
	size := int(out.Size())
	if x.out {
		a.Out[0] = cpu.Span{DType: out, Stride: out.Size()}
		memory = x.operand(a, len(a.In), &a.Out[0], bytes.Repeat([]byte{canary}, x.n*size), x.length, x.gap)
	}
	to := [2][]float32{make([]float32, x.steps), make([]float32, x.steps)}
	if !kernel(x.length, a, to) {
		t.Fatal("the row does not take these runs")
	}
	length, pitch := x.length*size, (x.length+x.gap)*size
	for step := range x.steps {
		what := func() string {
			return fmt.Sprintf("group %d of %d, length=%d gap=%d bounds=[%v, %v] %+v", step, x.steps, x.length, x.gap, x.lo, x.hi, x.types.Attrs)
		}
		codes, qparams := x.defined(step)
		got := [2]float32{to[0][step], to[1][step]}
		compareBits(t, tensor.F32, bytesOf(&got), bytesOf(&qparams), "scale and zero point", what)
		if x.out {
			compareBits(t, out, memory[step*pitch:][:length], codes, "output", what)
			if end := min((step+1)*pitch, len(memory)); bytes.Count(memory[step*pitch+length:end], []byte{canary}) != end-step*pitch-length {
				t.Fatal(what(), "written behind the group")
			}
		}
	}
}

// defined returns what the definitions give for a group.
func (x chosenRuns) defined(step int) (codes []byte, qparams [2]float32) {
	pick := func(table []cpu.Row[cpu.Striped]) cpu.Striped {
		f, _ := table[len(table)-1].Pick(x.types)
		return f
	}
	in := x.types.In[0]
	a := &cpu.Args{Lo: x.lo, Hi: x.hi, Scratch: scratch}
	a.In[0] = cpu.Span{P: unsafe.Pointer(&x.in[0][step*x.length*int(in.Size())]), DType: in, Stride: in.Size()}
	for i := range 2 {
		clear(cpu.LanesOf[float64](scratch, i)[:])
	}
	pick(cpu.MinMax)(x.length, 0, a)
	e := cpu.FoldMinMax(cpu.BothLanes[float32](scratch))
	chosen := cpu.Codes[float32]{QMin: float32(x.lo), QMax: float32(x.hi), Eps: float32(x.types.Attrs.Eps), Symmetric: x.types.Attrs.Symmetric}
	qparams[0], qparams[1] = chosen.QParams(e[0], e[1])
	if x.out {
		out := x.types.Out[0]
		codes = make([]byte, int64(x.length)*out.Size())
		a.In[1], a.In[2] = cpu.Span{P: unsafe.Pointer(&qparams[0]), DType: tensor.F32}, cpu.Span{P: unsafe.Pointer(&qparams[1]), DType: tensor.F32}
		if x.types.Attrs.Symmetric {
			a.In[2] = cpu.Span{} // a float zero point would be held to the bounds
		}
		a.Out[0] = cpu.Span{P: unsafe.Pointer(&codes[0]), DType: out, Stride: out.Size()}
		pick(elementwise(cpu.Quantize))(x.length, 0, a)
	}
	return codes, qparams
}

func bytesOf(v *[2]float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
