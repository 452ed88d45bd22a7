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
				t.code, t.types = code, with(each(floats, []tensor.DType{code}), func(a, b tensor.DType) [3]tensor.DType { return [3]tensor.DType{a, 0, b} })
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
		tableTest{"dequantize 8-bit floats", elementwise(cpu.Dequantize), 1, with(each(float8s, floats), func(a, b tensor.DType) [3]tensor.DType { return [3]tensor.DType{a, 0, b} }), false, 0},
		tableTest{"dequantize 8-bit floats backward", cpu.DequantizeBackward, 2, with(each(floats, float8s), func(a, b tensor.DType) [3]tensor.DType { return [3]tensor.DType{a, b, a} }), true, 0})
}

var wholeTables = []tableTest{
	{"quantize", elementwise(cpu.Quantize), 1, with(each(floats, codes), func(a, b tensor.DType) [3]tensor.DType { return [3]tensor.DType{a, 0, b} }), false, 0},
	{"quantize to floats", elementwise(cpu.Quantize), 1, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, 0, d} }), false, 0},
	{"quantize backward", elementwise(cpu.QuantizeBackward), 2, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, d, d} }), false, 0},
	{"dequantize", elementwise(cpu.Dequantize), 1, with(each(codes, floats), func(a, b tensor.DType) [3]tensor.DType { return [3]tensor.DType{a, 0, b} }), false, 0},
	{"dequantize floats", elementwise(cpu.Dequantize), 1, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, 0, d} }), false, 0},
	{"dequantize backward input", elementwise(cpu.DequantizeBackwardInput), 2, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, tensor.S8, d} }), false, 0},
	{"dequantize backward", cpu.DequantizeBackward, 2, with(each(floats, codes), func(a, b tensor.DType) [3]tensor.DType { return [3]tensor.DType{a, b, a} }), true, 0},
	{"dequantize floats backward", cpu.DequantizeBackward, 2, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, d, d} }), true, 0},
	{"fake quantize", elementwise(cpu.FakeQuantize), 1, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, 0, d} }), false, 0},
	{"fake quantize backward input", elementwise(cpu.FakeQuantizeBackwardInput), 2, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, d, d} }), false, 0},
	{"fake quantize backward", cpu.FakeQuantizeBackward, 2, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, d, d} }), true, 0},
	{"min max", cpu.MinMax, 1, same(func(d tensor.DType) [3]tensor.DType { return [3]tensor.DType{d, 0, 0} }), true, 0},
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

func each(a, b []tensor.DType) (pairs [][2]tensor.DType) {
	for _, x := range a {
		for _, y := range b {
			pairs = append(pairs, [2]tensor.DType{x, y})
		}
	}
	return pairs
}

func with(pairs [][2]tensor.DType, f func(a, b tensor.DType) [3]tensor.DType) (types [][3]tensor.DType) {
	for _, p := range pairs {
		types = append(types, f(p[0], p[1]))
	}
	return types
}

func same(f func(d tensor.DType) [3]tensor.DType) (types [][3]tensor.DType) {
	for _, d := range floats {
		types = append(types, f(d))
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
