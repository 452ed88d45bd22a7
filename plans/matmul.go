package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// The places of matmul's arguments.
const (
	matmulInput = iota
	matmulOther
	matmulBias
	matmulOutput
)

// matmul multiplies matrices, or as many pairs of them as there are batches
// (NUMERICS.md, section 8).
//
// Workspace: copies of a tile's operands and its sums, for each thread.
var matmul = op{
	name: "matmul", category: Linear,
	doc: "The product of two matrices, or of each pair in a batch of them, and a bias: a linear layer.",
	formulas: []string{
		"y[m, n] = acc + bias[n], acc = fma(input[m, k], other[k, n], acc) over k in turn, from 0",
	},
	sections: []int{8},
	args: []arg{
		{name: "input", shaped: true, allow: floats, form: "[M, K] or [B, M, K]", doc: "the left factor"},
		{name: "other", shaped: true, allow: floats, form: "[K, N] or [B, K, N]", doc: "the right factor; the weight of a linear layer, [N, K], comes with its strides exchanged"},
		{name: "bias", optional: true, allow: floats, defaultType: fixed(tensor.None), form: "[N]", doc: "what is added to each row, once"},
		{name: "y", out: true, allow: floats, defaultType: same("input"), form: "[M, N] or [B, M, N]", doc: "the result, in input's type"},
	},
	infer: inferMatmul,
	build: buildMatmul,
	rows:  namesOf(cpu.Matmul),
}

func inferMatmul(p *Problem) error {
	x, other := p.Shape("input"), p.Shape("other")
	rank := len(x)
	switch {
	case rank != 2 && rank != 3:
		return p.errorf("input", "has shape %s; want [M, K] or [B, M, K]", tensor.ShapeText(x))
	case rank == 2 && (len(other) != 2 || other[0] != x[1]):
		return p.errorf("other", "has shape %s; want [%d, N]", tensor.ShapeText(other), x[1])
	case rank == 3 && (len(other) != 3 || other[0] != x[0] || other[1] != x[2]):
		return p.errorf("other", "has shape %s; want [%d, %d, N]", tensor.ShapeText(other), x[0], x[2])
	}
	n := other[rank-1]
	p.setShape("bias", []int64{n})
	p.setShape("y", append(append([]int64{}, x[:rank-1]...), n))
	return all(sameTypeAs("other", "input"), sameTypeAs("y", "input"))(p)
}

// matmulTileCost is what a tile costs beside its products.
const matmulTileCost = 1 << 9

// isFar reports whether so many elements of other are taken to lie in memory: what is
// soon out of the nearest caches, since other matrices come between two products with
// one. A row or two pass what the last cache holds faster without being told to ask in
// advance, since two squares are transposed at a time; but for f16, of which two vectors are
// in a line that may be gone before the second one is read.
func isFar(m, elements int64, d tensor.DType) bool {
	bytes := elements * d.Size()
	switch {
	case m > 2 || d == tensor.F16:
		return bytes > streamFrom/64
	case d == tensor.BF16:
		return bytes > streamFrom/4
	}
	return bytes > streamFrom/2
}

// matmulPlan is how one problem runs.
type matmulPlan struct {
	cpu.MatmulRow
	batch, m, k, n     int64
	transposed, others bool  // see TakesBatch: others are among transposed
	rows, columns      int64 // of a tile
	down, across       int64 // tiles
	together           int64 // products of a job
	jobs               int64
	threads            int   // that there is workspace for
	bytes              int64 // of workspace for a thread
	far                bool  // other comes from memory
	tiles, small       job   // tile and products: values made once, so that running does not allocate
}

func buildMatmul(pl *plan) error {
	p := &pl.problem
	dtype := p.DType("input")
	row, err := selectRow(pl, cpu.Matmul, cpu.Types{
		Compute: dtype.Compute(), In: cpu.InTypes{dtype, p.DType("other")}, Out: cpu.OutTypes{p.DType("y")},
	})
	if err != nil {
		return err
	}
	x, other := p.Shape("input"), p.Shape("other")
	mm := &matmulPlan{MatmulRow: row, batch: 1, m: x[len(x)-2], k: x[len(x)-1], n: other[len(other)-1]}
	if len(x) == 3 {
		mm.batch = x[0]
	}
	if mm.batch*mm.m*mm.n == 0 {
		return nil // nothing to divide
	}
	if mm.batch >= leastProducts && !p.has("bias") {
		mm.transposed, mm.others = mm.TakesBatch(mm.m, mm.n, mm.k)
	}
	pl.keepAlikeCalls()
	mm.tiles, mm.small = mm.tile, mm.products
	pl.run = mm.run
	if mm.transposed && mm.others {
		return nil // tiles have nothing to do
	}
	mm.far = isFar(mm.m, tensor.NumElements(other), dtype)
	threads := int64(pl.threads())
	mm.divide(threads)
	mm.threads = int(min(threads, mm.jobs))
	mm.bytes = roundUp(row.Bytes(mm.rows, mm.columns, mm.k), WorkspaceAlignment)
	pl.workspace = mm.bytes * int64(mm.threads)
	return nil
}

func (mm *matmulPlan) run(c *call) error {
	if mm.transposed && (mm.others || c.args[matmulOther].Stride(2) != 1) {
		c.parallel(ceilDiv(mm.batch, cpu.BatchProducts), mm.batch*(mm.m*mm.k+mm.k*mm.n+mm.m*mm.n), mm.small)
		return nil
	}
	c.threads = min(c.threads, mm.threads)
	c.parallel(mm.jobs, linearCost(mm.batch*mm.m, mm.k, mm.n)+mm.jobs*matmulTileCost, mm.tiles)
	return nil
}

// divide makes tiles.
func (mm *matmulPlan) divide(threads int64) {
	mm.rows, mm.columns = mm.Divide(mm.batch, mm.m, mm.n, threads)
	mm.down, mm.across = ceilDiv(mm.m, mm.rows), ceilDiv(mm.n, mm.columns)
	mm.together = 1
	if mm.down*mm.across == 1 && mm.k > 0 {
		mm.together = max(1, min(jobSize/linearCost(mm.m, mm.k, mm.n), mm.batch/(jobsOfThread*threads)))
	}
	mm.jobs = ceilDiv(mm.batch, mm.together) * mm.down * mm.across
}

// tile computes one tile of y, or some products that are one.
func (mm *matmulPlan) tile(c *call, w *worker, number int64) {
	across, down, batch := number%mm.across, number/mm.across%mm.down, number/mm.across/mm.down*mm.together
	t := &w.ownArgs().matmul
	*t = cpu.MatmulTile{
		Input: batchOf(&c.args[matmulInput], batch), Other: batchOf(&c.args[matmulOther], batch),
		Y: batchOf(&c.args[matmulOutput], batch), Bias: vectorOf(&c.args[matmulBias]),
		K: mm.k, Far: mm.far, Scratch: &w.scratch,
	}
	if mm.bytes > 0 {
		t.Memory = unsafe.Pointer(&c.workspace[int64(w.number)*mm.bytes])
	}
	row, column := down*mm.rows, across*mm.columns
	t.M, t.N = min(mm.rows, mm.m-row), min(mm.columns, mm.n-column)
	if mm.k > 0 {
		t.Input, t.Other = t.Input.From(row, 0), t.Other.From(0, column)
	}
	t.Y, t.Bias = t.Y.From(row, column), t.Bias.At(column)
	mm.Run(t)
	for range min(mm.together, mm.batch-batch) - 1 {
		t.Input.P = unsafe.Add(t.Input.P, batchStep(&c.args[matmulInput]))
		t.Other.P = unsafe.Add(t.Other.P, batchStep(&c.args[matmulOther]))
		t.Y.P = unsafe.Add(t.Y.P, batchStep(&c.args[matmulOutput]))
		mm.Run(t)
	}
}

// jobsOfThread is how many jobs each thread has at least where products are taken together.
const jobsOfThread = 4

// leastProducts is from how many products on small ones are computed together.
const leastProducts = 8

// products computes some small products.
func (mm *matmulPlan) products(c *call, w *worker, number int64) {
	b, first := &w.ownArgs().products, number*cpu.BatchProducts
	*b = cpu.MatmulBatch{
		Input: batchOf(&c.args[matmulInput], first), Other: batchOf(&c.args[matmulOther], first), Y: batchOf(&c.args[matmulOutput], first),
		InputNext: batchStep(&c.args[matmulInput]), OtherNext: batchStep(&c.args[matmulOther]), YNext: batchStep(&c.args[matmulOutput]),
		M: mm.m, N: mm.n, K: mm.k, Count: min(cpu.BatchProducts, mm.batch-first), Scratch: &w.scratch,
	}
	mm.Batch(b)
}

// batchStep is how many bytes lie between one matrix or image of a batch and the next.
func batchStep(v *tensor.View) int64 { return v.Stride(0) * v.DType.Size() }

// batchOf describes the matrix of a batch, or the only one.
func batchOf(v *tensor.View, batch int64) cpu.Rows {
	m := rowsOf(v)
	if len(v.Shape) == 3 && v.NumElements() > 0 {
		m.P = unsafe.Add(m.P, batch*batchStep(v))
	}
	return m
}
