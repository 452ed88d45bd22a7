package cpu_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Many runs in one call give the bits of one run after the other.
func TestManyRuns(t *testing.T) {
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			for _, types := range table.types {
				forRows(t, &table, types, func(t *testing.T, row *cpu.Row[cpu.Striped], r *rand.Rand) {
					for range 40 {
						newRuns(&table, types, r).check(t, row)
					}
				})
			}
		})
	}
}

// Results may take the place of elements, also where the call before, which a kernel keeps, was on memory apart: no
// element is mapped again whose place a result has taken.
func TestRunsInPlace(t *testing.T) {
	const length, steps = 50, 3
	float := cpu.Types{Compute: tensor.F32, In: cpu.InTypes{tensor.F32, tensor.F32}, Out: cpu.OutTypes{tensor.F32}}
	x, scale := make([]float32, steps*length), float32(0.5)
	for i := range x {
		x[i] = float32(i) - 70.25
	}
	for _, row := range cpu.Dequantize { // twice is a quarter
		kernel, ok := row.Pick(float)
		if !ok || row.Needs > cpu.Best() {
			continue
		}
		a := &cpu.Args{Lo: -128, Hi: 127, Scratch: scratch, Repeats: true}
		a.Runs = cpu.Runs{Steps: steps, Strands: 1}
		a.Runs.Step[0], a.Runs.Step[len(a.In)] = 4*length, 4*length
		a.In[1] = cpu.Span{P: unsafe.Pointer(&scale), DType: tensor.F32}
		apart, y := slices.Clone(x), slices.Clone(x)
		for _, in := range [][]float32{apart, y} {
			a.In[0] = cpu.Span{P: unsafe.Pointer(&in[0]), Stride: 4, DType: tensor.F32}
			a.Out[0] = cpu.Span{P: unsafe.Pointer(&y[0]), Stride: 4, DType: tensor.F32}
			kernel(length, a)
		}
		for i, v := range y {
			if v != x[i]/4 {
				t.Fatalf("%s: element %d is %v, want %v", row.Name, i, v, x[i]/4)
			}
		}
	}
}

// An output that is absent is written in the scratch, beside nothing: a row wrote in front of its place, where the zeros
// are that an absent input is read from.
func TestRunsWithoutOutput(t *testing.T) {
	const length = 4000
	types := cpu.Types{Compute: tensor.F32, In: cpu.InTypes{tensor.F32, tensor.S8, tensor.F32}, Out: cpu.OutTypes{tensor.F32}}
	dy, q, scale := slices.Repeat([]float32{1}, 2*length), make([]int8, 2*length), float32(1)
	for _, row := range cpu.DequantizeBackward {
		kernel, ok := row.Pick(types)
		if !ok || row.Needs > cpu.Best() {
			continue
		}
		a := &cpu.Args{Lo: -128, Hi: 127, Scratch: scratch}
		a.In[0] = cpu.Span{P: unsafe.Pointer(&dy[0]), Stride: 4, DType: tensor.F32}
		a.In[1] = cpu.Span{P: unsafe.Pointer(&q[0]), Stride: 1, DType: tensor.S8}
		a.In[2] = cpu.Span{P: unsafe.Pointer(&scale), DType: tensor.F32}
		a.Out[0].DType = tensor.F32
		a.Runs = cpu.Runs{Steps: 2, Strands: 1}
		a.Runs.Step[0], a.Runs.Step[1] = 4*length, length
		kernel(length, 0, a)
		a.Runs, a.In[1].P = cpu.Runs{}, nil
		sums := cpu.BothLanes[float32](scratch)
		*sums[0], *sums[1] = [cpu.Lanes]float32{}, [cpu.Lanes]float32{}
		kernel(length, 0, a)
		if *sums[0] != [cpu.Lanes]float32{} {
			t.Errorf("%s: of codes that are absent: %v", row.Name, *sums[0])
		}
	}
}

// runs are runs of equal length: the elements of a run, one after the other.
type runs struct {
	*run
	length, steps, strands int
	rounds                 int  // all these runs, with the same parameters
	first                  int  // elements of a run that a call before this one took
	gap                    int  // elements between a run and the next in memory
	strandsOutside         bool // the steps of a strand follow each other in memory
	shared                 bool // all have the parameters of the first
	repeats                bool // the call repeats one on other memory
	turn                   int  // the lane of sums that comes first in the end
	fold                   bool
}

func newRuns(table *tableTest, types [3]tensor.DType, r *rand.Rand) *runs {
	x := &runs{steps: 1 + r.IntN(6), strands: oneOf(r, 1, 1, 2, 4, 8), length: oneOf(r, sizes[:30]...)}
	x.gap, x.strandsOutside, x.shared = oneOf(r, 0, 0, 1, 64, 64-x.length%64), r.IntN(2) == 0, r.IntN(4) == 0
	x.repeats = !table.sums && r.IntN(2) == 0
	if x.length < 20 && r.IntN(2) == 0 {
		x.steps = 100 + r.IntN(100) // more than one call of the kernel
	}
	x.rounds = oneOf(r, 1, 1, 3)
	if table.sums {
		x.strands, x.rounds = 1, 1
		x.first = r.IntN(1+(x.length-1)/cpu.Lanes) * cpu.Lanes
		if table.name != "min max" {
			x.turn, x.fold = oneOf(r, 0, 16, r.IntN(cpu.Lanes)), r.IntN(2) == 0
		}
		if x.first > 0 || !x.fold {
			x.steps = min(x.steps, cpu.MaxGroupRuns)
		}
	}
	round := x.length * x.steps * x.strands
	x.run = newRun(table, types, r, round*x.rounds)
	x.step, x.outStep, x.inPlace, x.ready, x.cut = [4]int{1, 1, 1, 1}, 1, -1, false, 0
	if k := r.IntN(table.data); x.out && x.in[k] != nil && x.types.In[k] == x.types.Out[0] && r.IntN(2) == 0 {
		x.inPlace = k
	}
	for k := table.data; k < table.data+2 && x.in[k] != nil; k++ {
		size := int(x.types.In[k].Size())
		for i := range x.n {
			from := (i - i%x.length) % round
			if x.shared {
				from = 0
			}
			copy(x.in[k][i*size:][:size], x.in[k][from*size:][:size])
		}
	}
	return x
}

// place returns where a run lies in memory, counted in runs.
func (x *runs) place(step, strand int) int {
	before := step / x.steps * x.steps * x.strands // rounds
	if step %= x.steps; x.strandsOutside {
		return before + strand*x.steps + step
	}
	return before + step*x.strands + strand
}

// operand lays data out, which is all elements, or one for each run.
func (x *runs) operand(a *cpu.Args, k int, s *cpu.Span, data []byte, length, gap int) (memory []byte) {
	size := int(s.DType.Size())
	count := x.steps * x.strands * x.rounds
	memory = bytes.Repeat([]byte{canary}, (count*(length+gap)-gap)*size)
	for run := range count {
		at := x.place(run/x.strands, run%x.strands)
		copy(memory[at*(length+gap)*size:], data[run*x.length*size:][:length*size])
	}
	memory = guard(memory, x.atTheEnd)
	s.P = unsafe.Pointer(&memory[0])
	distance := func(step, strand int) int64 { return int64(x.place(step, strand) * (length + gap) * size) }
	a.Runs.Step[k], a.Runs.Apart[k], a.Runs.Round[k] = distance(min(1, x.steps-1), 0), distance(0, 1), distance(x.steps, 0)
	return memory
}

func (x *runs) check(t *testing.T, row *cpu.Row[cpu.Striped]) {
	t.Helper()
	definition, _ := x.table.rows[len(x.table.rows)-1].Pick(x.types)
	kernel, _ := row.Pick(x.types)
	want := x.call(t, definition, true)
	for name, kernel := range map[string]cpu.Striped{row.Name: kernel, "go": definition} {
		got := x.call(t, kernel, false)
		what := func() string {
			return fmt.Sprintf("%s: length=%d first=%d steps=%d strands=%d rounds=%d gap=%d strandsOutside=%v shared=%v repeats=%v turn=%d fold=%v inPlace=%d stream=%v out=%v types=%v bounds=[%v, %v]",
				name, x.length, x.first, x.steps, x.strands, x.rounds, x.gap, x.strandsOutside, x.shared, x.repeats, x.turn, x.fold, x.inPlace, x.stream, x.out, x.types, x.lo, x.hi)
		}
		if x.out {
			compareBits(t, x.types.Out[0], got.out, want.out, "output", what)
		}
		for i := range want.sums {
			compareBits(t, x.types.Compute, got.sums[i], want.sums[i], fmt.Sprint("sums ", i), what)
		}
	}
}

// call runs a kernel on all runs, at once or one by one.
func (x *runs) call(t *testing.T, kernel cpu.Striped, oneByOne bool) (res results) {
	t.Helper()
	defer releaseGuards()
	a := &cpu.Args{Lo: x.lo, Hi: x.hi, Attrs: x.types.Attrs, Scratch: scratch, Stream: x.stream}
	a.Runs.Steps, a.Runs.Strands, a.Runs.Rounds = x.steps, x.strands, x.rounds
	if x.repeats && !oneByOne {
		x.atTheEnd = !x.atTheEnd // other addresses, also within a register
		x.lay(a)
		x.atTheEnd = !x.atTheEnd
		a.Repeats, a.Scratch = true, otherScratch
		kernel(x.length, 0, a)
		a.Scratch = scratch
	}
	memory := x.lay(a)
	if oneByOne {
		x.oneByOne(kernel, a, &res)
	} else {
		rest := a.At(int64(x.first))
		if x.first > 0 {
			kernel(x.first, 0, a)
			rest.Runs.Keep = true
		}
		rest.Runs.Turn, rest.Runs.Fold = x.turn, x.fold
		if rest.Sums = cpu.ColumnsOf[float32](scratch, 1, x.steps).Row(0); x.types.Compute == tensor.F64 {
			rest.Sums = cpu.ColumnsOf[float64](scratch, 1, x.steps).Row(0)
		}
		before := rest
		kernel(x.length-x.first, int64(x.first), &rest)
		// Plans call a kernel again with the same; its call, which it keeps where calls repeat, may have changed.
		if !x.repeats && rest != before || rest.In != before.In || rest.Out != before.Out || rest.Runs != before.Runs {
			t.Fatal("the kernel changed its arguments")
		}
		for step := range x.steps {
			x.keepSums(&res, step, false)
		}
	}
	if !x.out {
		return res
	}
	size := int(x.types.Out[0].Size())
	pitch := (x.length + x.gap) * size
	for run := range x.steps * x.strands * x.rounds {
		at := x.place(run/x.strands, run%x.strands) * pitch
		res.out = append(res.out, memory[at:][:x.length*size]...)
		end := min(at+pitch, len(memory))
		if gap := memory[at+x.length*size : end]; len(gap) != bytes.Count(gap, []byte{canary}) {
			t.Fatalf("written between runs %d and the next", run)
		}
	}
	return res
}

// lay puts the operands somewhere in memory, and returns the output's.
func (x *runs) lay(a *cpu.Args) (memory []byte) {
	for k, data := range x.in {
		if a.In[k].DType = x.types.In[k]; data == nil {
			continue
		}
		if k < x.table.data {
			of := x.operand(a, k, &a.In[k], data, x.length, x.gap)
			if a.In[k].Stride = x.types.In[k].Size(); k == x.inPlace {
				memory = of
			}
			continue
		}
		x.operand(a, k, &a.In[k], data, 1, 0)
		if a.Runs.Round[k] = 0; x.shared {
			a.Runs.Step[k], a.Runs.Apart[k] = 0, 0
		}
	}
	if k, out := x.inPlace, len(a.In); k >= 0 {
		a.Out[0] = a.In[k]
		a.Runs.Step[out], a.Runs.Apart[out], a.Runs.Round[out] = a.Runs.Step[k], a.Runs.Apart[k], a.Runs.Round[k]
	} else if d := x.types.Out[0]; x.out {
		a.Out[0] = cpu.Span{DType: d, Stride: d.Size()}
		memory = x.operand(a, len(a.In), &a.Out[0], bytes.Repeat([]byte{canary}, x.n*int(d.Size())), x.length, x.gap)
	}
	return memory
}

// oneByOne runs a kernel that need not know of runs.
func (x *runs) oneByOne(kernel cpu.Striped, a *cpu.Args, res *results) {
	all := *a
	runs := all.Runs
	for step := range x.steps * x.rounds {
		for strand := range x.strands {
			*a = all
			a.Runs = cpu.Runs{}
			offset := func(k int) int64 {
				return int64(step/x.steps)*runs.Round[k] + int64(step%x.steps)*runs.Step[k] + int64(strand)*runs.Apart[k]
			}
			for k := range a.In {
				a.In[k] = moved(a.In[k], offset(k))
			}
			a.Out[0] = moved(a.Out[0], offset(len(a.In)))
			for i := range 2 {
				clear(cpu.LanesOf[float64](scratch, i)[:])
			}
			kernel(x.length, 0, a)
		}
		x.keepSums(res, step, true)
	}
}

// keepSums keeps what a striped kernel left in the lanes of a step's group, or of what these folded to; one by one, what
// it should have left, from the lanes of the scratch.
func (x *runs) keepSums(res *results, step int, oneByOne bool) {
	if !x.table.sums {
		return
	}
	sums := cpu.ForCompute(x.types.Compute, sumsOfStep[float32], sumsOfStep[float64])(x, step, oneByOne)
	for i := range sums {
		res.sums[i] = append(res.sums[i], sums[i]...)
	}
}

func sumsOfStep[C cpu.Compute](x *runs, step int, oneByOne bool) (sums [2][]byte) {
	switch both := cpu.BothLanes[C](scratch); {
	case oneByOne:
		for _, of := range both {
			if *of = [cpu.Lanes]C(append(slices.Clone(of[x.turn:]), of[:x.turn]...)); x.fold {
				*of = [cpu.Lanes]C{cpu.FoldLanes(of)}
			}
		}
		return lanes(both, x.table.name)
	case x.fold:
		for i, folded := range cpu.ColumnsOf[C](scratch, 1, x.steps).Sums {
			*both[i] = [cpu.Lanes]C{folded[step]}
		}
		return lanes(both, x.table.name)
	}
	return lanes(cpu.LanesOfGroup[C](scratch, step), x.table.name)
}

// moved returns a span some bytes further on.
func moved(s cpu.Span, bytes int64) cpu.Span {
	if s.P != nil {
		s.P = unsafe.Add(s.P, bytes)
	}
	return s
}
