package plans_test

import (
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// The definition on one thread, on compact tensors: what every other way to
// run a case is compared with.
var definition = testcase.Options{Preference: plans.Preference{Row: "go", Threads: 1}}

// forEachOp runs a test on cases of every op. Seeds are fixed, and differ by op.
func forEachOp(t *testing.T, size testcase.Size, cases int, test func(t *testing.T, c *testcase.Case, r *rand.Rand)) {
	for i := range testcase.Table {
		o := &testcase.Table[i]
		t.Run(o.Name, func(t *testing.T) {
			hash := fnv.New64a()
			hash.Write([]byte(o.Name))
			for n := range cases {
				s := testcase.NewSource(hash.Sum64()+uint64(n), size)
				c, err := o.New(s)
				require.NoError(t, err)
				test(t, c, s.Rand)
			}
		})
	}
}

// caseOf draws the tensors of a problem.
func caseOf(t *testing.T, size testcase.Size, text string) *testcase.Case {
	t.Helper()
	c, err := testcase.NewCase(testcase.NewSource(1, size), text)
	require.NoError(t, err)
	return c
}

// finiteCase is caseOf, without infinities and NaN: one decides a sum alone.
func finiteCase(t *testing.T, text string) *testcase.Case {
	t.Helper()
	s := testcase.NewSource(1, testcase.Large)
	s.Finite = true
	c, err := testcase.NewCase(s, text)
	require.NoError(t, err)
	return c
}

// run runs a case, by workers that remember no other, and turns a fault (a read
// or write beside a tensor) into a failure that names it.
func run(t *testing.T, c *testcase.Case, o testcase.Options) [][]byte {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("%s\npanic: %v\n%s", c.Text, v, debug.Stack())
		}
	}()
	plans.PoisonWorkers()
	outputs, err := c.Run(o)
	require.NoError(t, err, c.Text)
	return outputs
}

// defined runs a case by its definition, one group after the other.
func defined(t *testing.T, c *testcase.Case) [][]byte {
	t.Helper()
	defer plans.SetOneByOne()()
	return run(t, c, definition)
}

// same asks a way of running a case to give the definition's bits.
func same(t *testing.T, c *testcase.Case, o testcase.Options, want [][]byte, how string) {
	t.Helper()
	if err := c.Compare(run(t, c, o), want); err != nil {
		t.Fatalf("%s\n%s: %v", c.Text, how, err)
	}
}

// rowsFor lists the rows that take a case on this machine; the definition always does.
func rowsFor(c *testcase.Case) []string {
	return slices.DeleteFunc(slices.Clone(rowsOf(c.Op.Name)), func(row string) bool {
		_, err := plans.Select(0, c.Problem, plans.Preference{Row: row})
		return err != nil
	})
}

// anyRow draws one of them.
func anyRow(r *rand.Rand, c *testcase.Case) string {
	rows := rowsFor(c)
	return rows[r.IntN(len(rows))]
}

// Every op has cases, in plans' order.
func TestTableHasEveryOp(t *testing.T) {
	var names []string
	for _, o := range testcase.Table {
		names = append(names, o.Name)
	}
	require.Equal(t, plans.OpNames(), names, "internal/testcase lists ops in grouped_ops.go (elements share scales) and table.go, in the order of plans/ops.go")
}

var layouts = []struct {
	name   string
	layout testcase.Layout
}{
	{"strided", testcase.Strided}, {"transposed", testcase.Transposed}, {"sliced", testcase.Sliced},
	{"reversed", testcase.Reversed}, {"expanded", testcase.Expanded},
}

// Views give the bits of compact tensors. All tensors lie between pages that
// are not mapped, inputs cannot be written, and outputs' gaps stay as they were.
func TestViews(t *testing.T) {
	forEachOp(t, testcase.Small, 12, func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		c.Expand(r)
		want := defined(t, c)
		o := definition
		for _, l := range layouts {
			o.Layout, o.Memory = l.layout, testcase.Memory(1+r.IntN(2))
			same(t, c, o, want, l.name)
		}
		for i := range 6 {
			o.Layout, o.Memory, o.Alternate = testcase.Mixed(r), testcase.Memory(1+r.IntN(2)), i%2 == 0
			same(t, c, o, want, "mixed strides")
		}
	})
}

// Every row gives the definition's bits, and touches nothing beside its
// tensors, at whichever side of them memory ends.
func TestRows(t *testing.T) {
	rows := map[string][]string{}
	for _, s := range plans.Support() {
		rows[s.Op] = s.Rows
	}
	ran := map[string]int{}
	test := func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		if r.IntN(2) == 0 {
			c.ExpandParams(r)
		}
		want := defined(t, c)
		for _, row := range rows[c.Op.Name] {
			o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 1}}
			if _, err := plans.Select(0, c.Problem, o.Preference); err != nil {
				requireKind(t, err, plans.Unsupported)
				continue
			}
			ran[row]++
			for _, o.Memory = range []testcase.Memory{testcase.EndsPage, testcase.BeginsPage} {
				same(t, c, o, want, "row "+row)
			}
			o.Layout = testcase.Mixed(r)
			same(t, c, o, want, "row "+row+", mixed strides")
			for range 2 {
				o.Layout, o.Params = nil, testcase.Mixed(r)
				same(t, c, o, want, "row "+row+", mixed strides of parameters")
				o.Layout = testcase.Alike(r)
				same(t, c, o, want, "row "+row+", dimensions in another order")
			}
		}
	}
	forEachOp(t, testcase.Small, 16, test)
	forEachOp(t, testcase.Wide, 6, test)
	for _, row := range cpu.ISANames() {
		if rank(row) <= rank(plans.ISA()) {
			require.Greater(t, ran[row], 100, "row %s: %v", row, ran)
		}
	}
	t.Logf("cases per row on this machine (%s): %v", plans.ISA(), ran)
}

// An output may take the place of an input of its type, strided or not.
func TestInPlace(t *testing.T) {
	ran := 0
	forEachOp(t, testcase.Small, 12, func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		want := defined(t, c)
		for _, pair := range c.Op.InPlace {
			out, in := c.Arg(pair[0]), c.Arg(pair[1])
			if out.Out() && in.In() && out.DType == in.DType {
				same(t, c, testcase.Options{InPlace: pair, Memory: testcase.EndsPage}, want, "in place")
				same(t, c, testcase.Options{InPlace: pair, Layout: testcase.Mixed(r)}, want, "in place, mixed strides")
				ran++
			}
		}
	})
	require.Greater(t, ran, 100)
}

// Extents of 0, 1 and 2, and tensors of rank 0.
func TestEdges(t *testing.T) {
	forEachOp(t, testcase.Edge, 40, func(t *testing.T, c *testcase.Case, r *rand.Rand) {
		want := defined(t, c)
		same(t, c, testcase.Options{Memory: testcase.EndsPage}, want, "compact")
		same(t, c, testcase.Options{Memory: testcase.BeginsPage, Layout: testcase.Mixed(r), Alternate: true}, want, "mixed strides")
		same(t, c, testcase.Options{Preference: plans.Preference{Threads: 8}}, want, "8 threads")
	})
}

// Tensors without elements need no memory.
func TestEmptyTensorsMayBeNull(t *testing.T) {
	forEachOp(t, testcase.Edge, 20, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		want := defined(t, c)
		plan, err := plans.Select(0, c.Problem, plans.Preference{})
		require.NoError(t, err)
		placed, workspace, free := c.Place(plan, testcase.Options{})
		defer free()
		for _, p := range placed {
			if p.View.NumElements() == 0 {
				p.View.Data, p.View.Low, p.View.High = nil, 0, 0
			}
		}
		require.NoError(t, plan.Run(0, workspace, placed.Views()), c.Text)
		require.NoError(t, c.Compare(placed.Outputs(c), want), c.Text)
	})
}
