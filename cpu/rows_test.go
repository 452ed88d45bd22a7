package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

// tableTest is an op's table of rows, with what its operands may be.
type tableTest struct {
	name  string
	rows  []cpu.Row[cpu.Striped]
	data  int               // data inputs; scale and zero point come after them
	types [][3]tensor.DType // of the data inputs and the output
	sums  bool
	code  tensor.DType // the 8-bit float type that codes are rounded to, or None
}

var (
	floats = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}
	codes  = []tensor.DType{tensor.S8, tensor.U8, tensor.S16, tensor.U16, tensor.I32}

	float8s = tensor.Float8s()
	none    = []tensor.DType{tensor.None}
)

// elementwise makes striped kernels of elementwise ones.
func elementwise(table []cpu.Row[cpu.Elementwise]) (rows []cpu.Row[cpu.Striped]) {
	for _, r := range table {
		rows = append(rows, cpu.Row[cpu.Striped]{Name: r.Name, Needs: r.Needs, Pick: func(t cpu.Types) (cpu.Striped, bool) {
			kernel, ok := r.Pick(t)
			return func(n int, _ int64, a *cpu.Args) { kernel(n, a) }, ok
		}})
	}
	return rows
}

var tables = append(wholeTables, float8Tables()...)

// float8Tables has the ops on 8-bit float codes.
func float8Tables() (tables []tableTest) {
	for _, t := range wholeTables {
		switch {
		case t.name == "quantize":
			for _, code := range float8s {
				t.code, t.types = code, operands("a-b", floats, []tensor.DType{code})
				t.name = "quantize to " + code.String()
				tables = append(tables, t)
			}
		case t.name == "quantize backward" || strings.HasPrefix(t.name, "fake quantize"):
			for _, code := range float8s {
				named := t
				named.name, named.code = t.name+" "+code.String(), code
				tables = append(tables, named)
			}
		}
	}
	return append(tables,
		tableTest{name: "dequantize 8-bit floats", rows: elementwise(cpu.Dequantize), data: 1, types: operands("a-b", float8s, floats)},
		tableTest{name: "dequantize 8-bit floats backward", rows: cpu.DequantizeBackward, data: 2, types: operands("aba", floats, float8s), sums: true})
}

var wholeTables = []tableTest{
	{name: "quantize", rows: elementwise(cpu.Quantize), data: 1, types: operands("a-b", floats, codes)},
	{name: "quantize to floats", rows: elementwise(cpu.Quantize), data: 1, types: operands("a-a", floats, none)},
	{name: "quantize backward", rows: elementwise(cpu.QuantizeBackward), data: 2, types: operands("aaa", floats, none)},
	{name: "dequantize", rows: elementwise(cpu.Dequantize), data: 1, types: operands("a-b", codes, floats)},
	{name: "dequantize floats", rows: elementwise(cpu.Dequantize), data: 1, types: operands("a-a", floats, none)},
	{name: "dequantize backward input", rows: elementwise(cpu.DequantizeBackwardInput), data: 2, types: operands("aba", floats, []tensor.DType{tensor.S8})},
	{name: "dequantize backward", rows: cpu.DequantizeBackward, data: 2, types: operands("aba", floats, codes), sums: true},
	{name: "dequantize floats backward", rows: cpu.DequantizeBackward, data: 2, types: operands("aaa", floats, none), sums: true},
	{name: "fake quantize", rows: elementwise(cpu.FakeQuantize), data: 1, types: operands("a-a", floats, none)},
	{name: "fake quantize backward input", rows: elementwise(cpu.FakeQuantizeBackwardInput), data: 2, types: operands("aaa", floats, none)},
	{name: "fake quantize backward", rows: cpu.FakeQuantizeBackward, data: 2, types: operands("aaa", floats, none), sums: true},
	{name: "min max", rows: cpu.MinMax, data: 1, types: operands("a--", floats, none), sums: true},
}

// Every table of generated kernels that map or sum elements is one of these.
func TestEveryTableOfRowsIsTested(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	tests, err := os.ReadFile("rows_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^var (\w+) = (elementwise|striped)Rows\(`).FindAllSubmatch(text, -1) {
			if !regexp.MustCompile(`cpu\.` + string(m[1]) + `\b`).Match(tests) {
				t.Errorf("no line of wholeTables in rows_test.go has cpu.%s", m[1])
			}
		}
	}
}

// operands pairs types: pattern says of both data inputs and the output which of
// the pair they have, or - for none.
func operands(pattern string, a, b []tensor.DType) (types [][3]tensor.DType) {
	for _, x := range a {
		for _, y := range b {
			of := map[byte]tensor.DType{'a': x, 'b': y, '-': tensor.None}
			types = append(types, [3]tensor.DType{of[pattern[0]], of[pattern[1]], of[pattern[2]]})
		}
	}
	return types
}

// compute is the type that arithmetic is done in: of the first float.
func compute(types [3]tensor.DType) tensor.DType {
	for _, d := range types {
		if d.IsFloat() {
			return d.Compute()
		}
	}
	return tensor.F32
}

// Sizes around those of vectors, blocks and the parts that rows are run in.
var sizes = []int{1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 66, 100, 127, 128, 129, 191, 200, 255, 256, 257, 511, 513, 2047, 2048, 2049, 2113, 5000}

// Every row of every table gives the definition's bits, on every instruction
// set of this machine, between pages that are not mapped.
func TestRows(t *testing.T) {
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			for _, types := range table.types {
				forRows(t, &table, types, func(t *testing.T, row *cpu.Row[cpu.Striped], r *rand.Rand) {
					for _, n := range sizes {
						runs := 3
						if n > 600 && table.code != tensor.None {
							runs = 1 // their definition takes long
						}
						for range runs {
							newRun(&table, types, r, n).check(t, row)
						}
					}
				})
			}
		})
	}
}

// The same for every value of the 16-bit types.
func TestRowsOnAllHalves(t *testing.T) {
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			for _, types := range table.types {
				if types[0].Size() != 2 {
					continue
				}
				forRows(t, &table, types, func(t *testing.T, row *cpu.Row[cpu.Striped], r *rand.Rand) {
					for range 2 {
						x := newRun(&table, types, r, 1<<16)
						last := x.in[table.data-1]
						if len(last) < 1<<17 {
							last = x.in[0] // the other input has codes, or is absent
						}
						for i := range 1 << 16 {
							binary.NativeEndian.PutUint16(last[2*i:], uint16(i))
						}
						x.check(t, row)
					}
				})
			}
		})
	}
}

// forRows runs a test for the rows of a table, the definition aside. All of them must take
// the types.
func forRows(t *testing.T, table *tableTest, types [3]tensor.DType, test func(t *testing.T, row *cpu.Row[cpu.Striped], r *rand.Rand)) {
	for i := range table.rows[:len(table.rows)-1] {
		row := &table.rows[i]
		t.Run(fmt.Sprintf("%v/%s", types, row.Name), func(t *testing.T) {
			if row.Needs > cpu.Best() {
				t.Skip("this machine is without", row.Needs)
			}
			x := newRun(table, types, rand.New(rand.NewPCG(1, 1)), 1)
			if _, ok := row.Pick(x.types); !ok {
				t.Fatal("the row does not take these types")
			}
			test(t, row, rand.New(rand.NewPCG(uint64(i), 7)))
		})
	}
}
