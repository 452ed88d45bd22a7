package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// run is one run of a kernel: operands with their contents.
type run struct {
	table                  *tableTest
	types                  cpu.Types
	n                      int
	pos                    int64
	in                     [4][]byte // nil: absent
	step                   [4]int    // elements from one to the next; 0: one for all
	out                    bool
	outStep                int
	inPlace                int // the input that is also the output, or -1
	lo, hi                 float64
	ready                  bool // parameters are prepared
	ahead                  int
	cut                    int // where a second call begins
	wide, stream, atTheEnd bool
	start                  [2][]byte // accumulators before
}

func newRun(table *tableTest, types [3]tensor.DType, r *rand.Rand, n int) *run {
	x := &run{table: table, n: n, inPlace: -1, out: types[2] != tensor.None, pos: r.Int64N(200)}
	b := oneOf(r, boundsOf[table.code]...)
	for _, d := range types {
		if of := boundsOf[d]; d.IsInt() && of != nil {
			b = oneOf(r, of...)
		}
	}
	x.lo, x.hi = b[0], b[1]
	x.wide, x.stream, x.atTheEnd = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	x.ready, x.ahead = r.IntN(3) == 0, oneOf(r, 0, 64, 4096, -100, math.MaxInt>>23)
	x.outStep = dataStep(r)
	x.types = cpu.Types{Compute: compute(types), Attrs: cpu.Attrs{Reciprocal: r.IntN(4) == 0, Code: table.code}}
	scale := math.Ldexp(1+r.Float64(), r.IntN(8)-4)
	for k := range table.data {
		x.types.In[k], x.step[k] = types[k], dataStep(r)
		x.in[k] = values(r, types[k], n, scale, true)
		if table.code != tensor.None {
			middles(r, x.in[k], types[k], n, scale, table.code)
		}
	}
	if table.sums && strings.HasPrefix(table.name, "dequantize") && r.IntN(8) == 0 {
		x.in[1] = nil
	}
	x.types.Out[0] = types[2]
	if table.sums && r.IntN(8) == 0 {
		x.out = false
	}
	if table.name != "min max" {
		x.params(r, scale)
	}
	for k := range table.data {
		if x.out && x.in[k] != nil && types[k] == types[2] && r.IntN(3) == 0 {
			x.inPlace, x.outStep = k, x.step[k]
		}
	}
	if r.IntN(2) == 0 {
		x.cut = r.IntN(n)
	}
	for i := range x.start {
		x.start[i] = values(r, x.types.Compute, n+cpu.Lanes, 1, false)
		noNegativeZero(x.start[i], x.types.Compute)
	}
	if table.name == "min max" {
		x.start = [2][]byte{make([]byte, (n+cpu.Lanes)*8), make([]byte, (n+cpu.Lanes)*8)}
	}
	return x
}

// params draws scale and zero point.
func (x *run) params(r *rand.Rand, scale float64) {
	d := x.table.data
	x.step[d], x.step[d+1] = oneOf(r, 0, 0, 1, 1, 2, 3, -1, -2), oneOf(r, 0, 0, 1, 1, 2, 3, -1, -2)
	x.types.In[d] = floats[r.IntN(len(floats))]
	x.in[d] = values(r, x.types.In[d], x.n, 1, false)
	for i := range x.n {
		switch {
		case r.IntN(16) > 0:
			put(x.in[d], x.types.In[d], i, scale*(1+float64(r.IntN(8))))
		case r.IntN(4) > 0:
			put(x.in[d], x.types.In[d], i, math.Ldexp(1+r.Float64(), r.IntN(40)-20))
		}
	}
	zeros := append([]tensor.DType{tensor.None, tensor.I32, tensor.I64, tensor.S8, tensor.U8, tensor.S16, tensor.U16}, floats...)
	if x.table.code != tensor.None {
		zeros = zeros[:1]
	}
	x.types.In[d+1] = zeros[r.IntN(len(zeros))]
	if x.types.In[d+1] == tensor.None {
		return
	}
	x.in[d+1] = values(r, x.types.In[d+1], x.n, 1, false)
	lo, hi := x.lo, x.hi
	if x.types.In[d+1].IsInt() {
		least, most := x.types.In[d+1].WholeRange()
		lo, hi = max(lo, float64(least)), min(hi, float64(most))
	}
	for i := range x.n {
		if x.types.In[d+1].IsInt() || r.IntN(2) > 0 {
			put(x.in[d+1], x.types.In[d+1], i, math.Round(lo+r.Float64()*(hi-lo)))
		}
	}
}

// results are what a run leaves behind.
type results struct {
	out  []byte
	sums [2][]byte
}

// check compares a row with the definition.
func (x *run) check(t *testing.T, row *cpu.Row[cpu.Striped]) {
	t.Helper()
	defer releaseGuards()
	definition, _ := x.table.rows[len(x.table.rows)-1].Pick(x.types)
	kernel, _ := row.Pick(x.types)
	if !x.out {
		x.types.Out[0] = tensor.None
	}
	want, got := x.do(t, definition, false), x.do(t, kernel, true)
	what := func() string {
		return fmt.Sprintf("n=%d cut=%d pos=%d wide=%v stream=%v inPlace=%d step=%v outStep=%d ready=%v types=%v bounds=[%v, %v]", x.n, x.cut, x.pos, x.wide, x.stream, x.inPlace, x.step, x.outStep, x.ready, x.types, x.lo, x.hi)
	}
	if x.out {
		compareBits(t, x.types.Out[0], got.out, want.out, "output", what)
	}
	for i := range got.sums {
		if x.table.sums {
			compareBits(t, x.types.Compute, got.sums[i], want.sums[i], fmt.Sprint("sum ", i), what)
		}
	}
}

func compareBits(t *testing.T, d tensor.DType, got, want []byte, name string, what func() string) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	size := int(d.Size())
	g, w := make([]float64, 1), make([]float64, 1)
	for i := 0; i < len(want); i += size {
		cpu.Load(g, cpu.Span{P: unsafe.Pointer(&got[i]), DType: d})
		cpu.Load(w, cpu.Span{P: unsafe.Pointer(&want[i]), DType: d})
		bothNaN := !d.IsInt() && g[0] != g[0] && w[0] != w[0]
		if !bothNaN && !bytes.Equal(got[i:i+size], want[i:i+size]) {
			t.Fatalf("%s: element %d of the %s is %v (%x), want %v (%x)", what(), i/size, name, g[0], got[i:i+size], w[0], want[i:i+size])
		}
	}
}

// scratch is one for all runs: what they leave there must not matter, but for
// the lanes.
var scratch, otherScratch = new(cpu.Scratch), new(cpu.Scratch)

// do runs a kernel: the definition on elements one after the other and on
// parameters as they are, a row on guarded memory, laid out as was drawn.
func (x *run) do(t *testing.T, kernel cpu.Striped, row bool) (res results) {
	t.Helper()
	for i := range 2 {
		clear(cpu.LanesOf[float64](scratch, i)[:])
	}
	a, output := x.arguments(row)
	cut, step := 0, 1
	if row {
		cut, step = x.cut, x.outStep
	}
	rest, size := a.At(int64(cut)), int(x.types.Compute.Size())
	for i, start := range x.start {
		sums := bytes.Clone(start)
		a.Sums[i] = cpu.Span{P: unsafe.Pointer(unsafe.SliceData(sums)), Stride: int64(size), DType: x.types.Compute}
		rest.Sums[i] = a.Sums[i].At(int64(cut))
		res.sums[i] = sums[:x.n*size]
	}
	if cut > 0 {
		kernel(cut, x.pos, a)
	}
	before := rest
	kernel(x.n-cut, x.pos+int64(cut), &rest)
	if rest != before { // plans call a kernel again with the same
		t.Fatal("the kernel changed its arguments")
	}
	if x.out {
		res.out = gather(output, int(x.types.Out[0].Size()), step, x.n)
	}
	switch {
	case x.table.sums && !x.wide && x.types.Compute == tensor.F64:
		res.sums = lanes(cpu.BothLanes[float64](scratch), x.table.name)
	case x.table.sums && !x.wide:
		res.sums = lanes(cpu.BothLanes[float32](scratch), x.table.name)
	case x.table.name == "min max": // a NaN is noted in the largest only
		dropNaN(res.sums, x.types.Compute)
	}
	return res
}

// arguments makes those of a call but for its sums, and returns the output's memory.
func (x *run) arguments(row bool) (a *cpu.Args, output []byte) {
	a = &cpu.Args{Lo: x.lo, Hi: x.hi, Attrs: x.types.Attrs, Scratch: scratch, Wide: x.wide}
	if row {
		a.Stream, a.Ahead = x.stream, x.ahead
		a.Ready = x.ready && x.table.name != "min max"
	}
	for k, data := range x.in {
		d := x.types.In[k]
		a.In[k].DType = d
		if k >= x.table.data && a.Ready {
			data, d = x.prepared(k, a)
			a.In[k], _ = x.place(row, data, d, min(max(x.step[k], -x.step[k]), 1))
			continue
		}
		if data == nil {
			continue
		}
		var input []byte
		if a.In[k], input = x.place(row, data, d, x.step[k]); x.inPlace == k {
			a.Out[0], output = a.In[k], input
		}
	}
	if x.out && x.inPlace < 0 {
		empty := bytes.Repeat([]byte{canary}, x.n*int(x.types.Out[0].Size()))
		a.Out[0], output = x.place(row, empty, x.types.Out[0], x.outStep)
	}
	a.Out[0].DType = x.types.Out[0]
	return a, output
}

// place lays elements out in memory of their own, some steps apart: for the definition one after the other.
func (x *run) place(row bool, data []byte, d tensor.DType, step int) (cpu.Span, []byte) {
	if !row && step != 0 {
		step = 1
	}
	memory := spread(data, int(d.Size()), step)
	if row {
		memory = guard(memory, x.atTheEnd)
	}
	first := max(0, -step) * (x.n - 1) * int(d.Size())
	return cpu.Span{P: unsafe.Pointer(&memory[first]), Stride: int64(step) * d.Size(), DType: d}, memory
}

// dropNaN makes smallest values of which the largest is a NaN one, too.
func dropNaN(sums [2][]byte, d tensor.DType) {
	v := make([]float64, 1)
	for i := 0; i < len(sums[1]); i += int(d.Size()) {
		cpu.Load(v, cpu.Span{P: unsafe.Pointer(&sums[1][i]), DType: d})
		if v[0] != v[0] {
			put(sums[0][i:], d, 0, v[0])
		}
	}
}

// lanes returns what a striped kernel left in its lanes.
func lanes[C cpu.Compute](left [2]*[cpu.Lanes]C, name string) (sums [2][]byte) {
	if name == "min max" {
		e := cpu.FoldMinMax(left)
		for i := range sums {
			sums[i] = bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&e[i])), unsafe.Sizeof(e[i])))
		}
		return sums
	}
	for i := range sums {
		sums[i] = bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(left[i])), unsafe.Sizeof(*left[i])))
	}
	return sums
}
