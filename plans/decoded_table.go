package plans

import (
	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// decodedTable is what a small table of codes stands for, made before bags that name each of its rows some times: where
// terms are rounded, or compared, so that making one takes longer than adding it. A row is the only one of a bag of its own.
//
// Workspace: numbers of 64 bits, one more than rows, then the table, in y's type.
type decodedTable struct {
	kernel func(*cpu.EmbeddingSums) // of floats
	dtype  tensor.DType
	shape  []int64
	at     int64 // where in the workspace
}

const decodedBytes = 1 << 21 // of a table, at most: more does not stay in a near cache

// How many rows a table has for each that is named, at most: of sums, and of maxima, for which rows take longer to make.
// Tests set them.
var decodedRows, decodedMaxima = 1. / 8, 1. / 2

// newDecodedTable returns nil where rows are made as they are added. Maxima are those of floats.
func newDecodedTable(pl *plan, maxima bool) *decodedTable {
	p := &pl.problem
	t := &decodedTable{dtype: p.DType("y"), shape: p.Shape("weight"), at: pl.workspace}
	table, most := cpu.RowSums, decodedRows
	if maxima {
		table, most = cpu.BagMax, decodedMaxima
	}
	rows, named := t.shape[0], tensor.NumElements(p.Shape("indices"))
	bytes := elementBytes(tensor.NumElements(t.shape), t.dtype)
	if pl.needs == cpu.Go || bytes == 0 || bytes > decodedBytes || float64(rows) > most*float64(named) || t.dtype == tensor.F32 && !maxima {
		return nil
	}
	if pl.workspace += (rows+1)*8 + bytes; pl.checkWorkspaceLimit() != nil {
		pl.workspace = t.at
		return nil
	}
	t.kernel, _ = cpu.PickUpTo(table, pl.needs, sumTypes(t.dtype, t.dtype))
	return t
}

// run makes the table and puts it in the place of the codes.
func (t *decodedTable) run(c *call, sums *rowSums) {
	memory := words(c.workspace[t.at:])
	numbers := memory.ints(t.shape[0] + 1)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	b := need(&c.rowSums)
	b.decoded = tensor.View{Data: memory.elements(tensor.NumElements(t.shape), t.dtype).P, DType: t.dtype, Shape: t.shape}
	rows := rowSums{kernel: sums.kernel, codes: sums.codes, out: &b.decoded, start: numbers, order: numbers[:t.shape[0]]}
	if sums.sources != nil {
		rows.sources = rows.order
	}
	c.sumRows(&rows)
	sums.kernel, sums.codes, sums.terms = t.kernel, cpu.WeightRows{}, matrixOf(&b.decoded)
}
