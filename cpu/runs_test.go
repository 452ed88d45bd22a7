package cpu_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// Many runs in one call give the bits of one run after the other.
func TestManyRuns(t *testing.T) {
	for _, table := range tables {
		if table.sums {
			continue
		}
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

// runs are runs of equal length: the elements of a run, one after the other.
type runs struct {
	*run
	length, steps, strands int
	gap                    int  // elements between a run and the next in memory
	strandsOutside         bool // the steps of a strand follow each other in memory
	shared                 bool // all have the parameters of the first
}

func newRuns(table *tableTest, types [3]tensor.DType, r *rand.Rand) *runs {
	x := &runs{steps: 1 + r.IntN(6), strands: oneOf(r, 1, 1, 2, 4, 8), length: oneOf(r, sizes[:30]...)}
	x.gap, x.strandsOutside, x.shared = oneOf(r, 0, 0, 1, 64, 64-x.length%64), r.IntN(2) == 0, r.IntN(4) == 0
	if x.length < 20 && r.IntN(2) == 0 {
		x.steps = 100 + r.IntN(100) // more than one call of the kernel
	}
	x.run = newRun(table, types, r, x.length*x.steps*x.strands)
	x.step, x.outStep, x.inPlace, x.ready, x.cut = [4]int{1, 1, 1, 1}, 1, -1, false, 0
	for k := table.data; k < table.data+2 && x.in[k] != nil; k++ {
		size := int(x.types.In[k].Size())
		for i := range x.n {
			from := i - i%x.length
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
	if x.strandsOutside {
		return strand*x.steps + step
	}
	return step*x.strands + strand
}

// operand lays data out, which is all elements, or one for each run.
func (x *runs) operand(a *cpu.Args, k int, s *cpu.Span, data []byte, length, gap int) (memory []byte) {
	size := int(s.DType.Size())
	count := x.steps * x.strands
	memory = bytes.Repeat([]byte{canary}, (count*(length+gap)-gap)*size)
	for run := range count {
		at := x.place(run/x.strands, run%x.strands)
		copy(memory[at*(length+gap)*size:], data[run*x.length*size:][:length*size])
	}
	memory = guard(memory, x.atTheEnd)
	s.P = unsafe.Pointer(&memory[0])
	distance := func(step, strand int) int64 { return int64(x.place(step, strand) * (length + gap) * size) }
	a.Runs.Step[k], a.Runs.Apart[k] = distance(1, 0), distance(0, 1)
	return memory
}

func (x *runs) check(t *testing.T, row *cpu.Row[cpu.Striped]) {
	t.Helper()
	definition, _ := x.table.rows[len(x.table.rows)-1].Pick(x.types)
	kernel, _ := row.Pick(x.types)
	want := x.do(definition, false).out
	for name, kernel := range map[string]cpu.Striped{row.Name: kernel, "go": definition} {
		got := x.call(t, kernel)
		compareBits(t, x.types.Out[0], got, want, "output", func() string {
			return fmt.Sprintf("%s: length=%d steps=%d strands=%d gap=%d strandsOutside=%v shared=%v stream=%v types=%v bounds=[%v, %v]",
				name, x.length, x.steps, x.strands, x.gap, x.strandsOutside, x.shared, x.stream, x.types, x.lo, x.hi)
		})
	}
}

// call runs a kernel on all runs at once.
func (x *runs) call(t *testing.T, kernel cpu.Striped) (out []byte) {
	t.Helper()
	defer releaseGuards()
	a := &cpu.Args{Lo: x.lo, Hi: x.hi, Attrs: x.types.Attrs, Scratch: scratch, Stream: x.stream}
	a.Runs.Steps, a.Runs.Strands = x.steps, x.strands
	for k, data := range x.in {
		if a.In[k].DType = x.types.In[k]; data == nil {
			continue
		}
		if k < x.table.data {
			x.operand(a, k, &a.In[k], data, x.length, x.gap)
			a.In[k].Stride = x.types.In[k].Size()
			continue
		}
		if x.operand(a, k, &a.In[k], data, 1, 0); x.shared {
			a.Runs.Step[k], a.Runs.Apart[k] = 0, 0
		}
	}
	d := x.types.Out[0]
	size := int(d.Size())
	a.Out[0] = cpu.Span{DType: d, Stride: d.Size()}
	memory := x.operand(a, len(a.In), &a.Out[0], bytes.Repeat([]byte{canary}, x.n*size), x.length, x.gap)
	before := *a
	kernel(x.length, 0, a)
	if a.In != before.In || a.Out != before.Out || a.Runs != before.Runs {
		t.Fatal("the kernel changed its arguments")
	}
	pitch := (x.length + x.gap) * size
	for run := range x.steps * x.strands {
		at := x.place(run/x.strands, run%x.strands) * pitch
		out = append(out, memory[at:][:x.length*size]...)
		end := min(at+pitch, len(memory))
		if gap := memory[at+x.length*size : end]; len(gap) != bytes.Count(gap, []byte{canary}) {
			t.Fatalf("written between runs %d and the next", run)
		}
	}
	return out
}
