package plans_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// What every plan says of itself, and that the support matrix says the same.
func TestPlansDescribeThemselves(t *testing.T) {
	require.Panics(t, func() { plans.Describe(nil) })
	forEachOp(t, testcase.Small, 5, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 2})
		require.NoError(t, err)
		require.Equal(t, c.Problem, plan.Problem())
		require.Equal(t, c.Op.Name, plan.Problem().Op())
		require.Equal(t, tensor.Device{}, plan.Problem().Device())

		sku := plan.SKU()
		require.Equal(t, c.Op.Name, sku.Op)
		require.Contains(t, rowsOf(sku.Op), sku.Row)
		require.Len(t, strings.Split(sku.DTypes, ","), len(c.Args))
		again, err := plans.Select(0, c.Problem, plans.Preference{Threads: 2})
		require.NoError(t, err)
		require.True(t, sku == again.SKU(), "the same problem has the same identity")
		require.Equal(t, plan.WorkspaceSize(), again.WorkspaceSize())

		g := plan.PrecisionGuarantee()
		require.Contains(t, []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}, g.Math)
		require.True(t, g.Deterministic && g.BitStable)
		require.Equal(t, strings.Contains(c.Text, "norm_type=3"), !g.SameEverywhere)

		d := plans.Describe(plan)
		support := supportOf(sku.Op)
		require.Equal(t, support.Category, d.Category)
		require.Len(t, d.Args, len(support.Args))
		require.Equal(t, c.Problem.String(), d.Problem)
		require.Equal(t, []any{sku.Category, sku.Row, sku.Arch, plan.WorkspaceSize()}, []any{d.Category, d.Row, d.Arch, d.WorkspaceSize})
		for i, a := range d.Args {
			s := support.Args[i]
			direction := s.Direction
			if direction == "out" && strings.Contains(c.Text, "accumulate=true") {
				direction = "inout"
			}
			require.Equal(t, []any{s.Name, direction, s.Optional}, []any{a.Name, a.Direction, a.Optional})
			require.Equal(t, c.Args[i].Present, a.DType != "none")
			require.Equal(t, a.Present, a.Shape != nil, a.Name)
			require.True(t, a.Present || a.Optional, a.Name)
			if a.Present {
				require.Equal(t, a.DType, c.Problem.DType(a.Name).String())
				require.Contains(t, s.DTypes, a.DType, a.Name)
			}
		}
		text, err := json.Marshal(d)
		require.NoError(t, err)
		var back plans.Description
		require.NoError(t, json.Unmarshal(text, &back))
	})
}

// Arguments without memory are held against the problem, and run by nobody.
func TestArgumentsOnMeta(t *testing.T) {
	forEachOp(t, testcase.Small, 5, func(t *testing.T, c *testcase.Case, _ *rand.Rand) {
		plan, err := plans.Select(0, c.Problem, plans.Preference{Threads: 2})
		require.NoError(t, err)
		described := plans.Describe(plan).Args
		args := make([]tensor.View, len(described))
		for i, a := range described {
			if a.Present {
				d, _ := tensor.ParseDType(a.DType)
				if d.Packed() {
					d = tensor.U8
				}
				args[i] = tensor.View{DType: d, Shape: a.Shape, Device: tensor.Device{Kind: tensor.Meta}}
			}
		}
		require.NoError(t, plan.CanImplement(args))
		e := requireKind(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), args), plans.InvalidArgument)
		require.Equal(t, "is on meta; want cpu", e.Msg)
		for i := range args {
			if !args[i].Present() {
				continue
			}
			other := slices.Clone(args)
			other[i].Shape = append(slices.Clone(args[i].Shape), 2)
			e := requireKind(t, plan.CanImplement(other), plans.InvalidArgument)
			require.Equal(t, []any{described[i].Name, true}, []any{e.Arg, strings.HasPrefix(e.Msg, "has shape ")})
		}
	})
}

// Those with memory beside them are still kept apart.
func TestOverlapBesideMeta(t *testing.T) {
	plan, err := plans.Select(0, plans.MustParse("quantize_per_channel x=f32[4,2] zero_point=none q=s8 axis=0 qmin=-8 qmax=7"), plans.Preference{})
	require.NoError(t, err)
	scale := tensor.Of([]float32{1, 1, 1, 1})
	x := tensor.View{DType: tensor.F32, Shape: []int64{4, 2}, Device: tensor.Device{Kind: tensor.Meta}}
	q := tensor.View{Data: scale.Data, DType: tensor.S8, Shape: []int64{4, 2}}
	e := requireKind(t, plan.CanImplement([]tensor.View{x, scale, {}, q}), plans.InvalidArgument)
	require.Equal(t, []string{"q", "overlaps scale in memory"}, []string{e.Arg, e.Msg})
}

// The support matrix has every op, every row's definition last, and types
// that the problem text takes.
func TestSupport(t *testing.T) {
	table := plans.Support()
	require.Len(t, table, len(plans.OpNames()))
	for _, s := range table {
		require.Equal(t, "go", s.Rows[len(s.Rows)-1], s.Op)
		require.Contains(t, s.Devices, "cpu", s.Op)
		require.NotNil(t, s.Attributes, s.Op) // a list in JSON, not null
		outputs := 0
		for _, a := range s.Args {
			require.NotEmpty(t, a.DTypes)
			for _, d := range a.DTypes {
				_, ok := tensor.ParseDType(d)
				require.True(t, ok, d)
			}
			if a.Direction != "in" {
				outputs++
			}
		}
		require.Positive(t, outputs, s.Op)
	}
}

// What a caller does with the matrix changes no op.
func TestSupportIsACopy(t *testing.T) {
	for _, s := range plans.Support() {
		for _, a := range s.Attributes {
			clear(a.Words)
		}
		for _, a := range s.Args {
			clear(a.DTypes)
		}
		clear(s.Rows)
		clear(s.Devices)
	}
	_, err := plans.Parse("grid_sample input=f32[1,1,2,2] grid=f32[1,1,2,2] mode=nearest padding_mode=border")
	require.NoError(t, err)
	for _, s := range plans.Support() {
		require.NotContains(t, s.Rows, "")
		require.NotContains(t, s.Devices, "")
	}
}

// A cap on rows holds for Select, and is lifted again.
func TestSetRows(t *testing.T) {
	defer limitRowsAgain()
	p := plans.MustParse("fake_quantize_per_tensor x=f32[100] qmin=-128 qmax=127")
	for _, name := range cpu.ISANames() {
		require.NoError(t, plans.SetRows(name))
		require.Equal(t, min(rank(cpu.Best().String()), rank(name)), rank(plans.ISA()))
		plan, err := plans.Select(0, p, plans.Preference{})
		require.NoError(t, err)
		require.LessOrEqual(t, rank(plan.SKU().Arch), rank(name))
	}
	require.NoError(t, plans.SetRows("go"))
	for _, row := range rowsOf(p.Op())[:len(rowsOf(p.Op()))-1] {
		_, err := plans.Select(0, p, plans.Preference{Row: row})
		require.Regexp(t, `^names row "`+row+`", which needs \w+; this machine, or SetRows, allows go$`, requireKind(t, err, plans.Unsupported).Msg)
	}
	require.NoError(t, plans.SetRows(""))
	_, err := plans.Select(0, plans.MustParse("quantize_per_tensor x=f32[2] q=f64 qmin=0 qmax=7"), plans.Preference{Row: "avx2"})
	require.Regexp(t, `^names row "avx2", which (does not take these types|needs avx2; .*)$`, requireKind(t, err, plans.Unsupported).Msg)
	e := requireKind(t, plans.SetRows("sse"), plans.InvalidArgument)
	require.Equal(t, `SetRows: name is "sse"; want one of go, avx2, avx512`, e.Error())
	long := strings.Repeat("x", 1<<20)
	require.Contains(t, plans.SetRows(long).Error(), `x..."; want one of go, avx2, avx512`)
	require.Contains(t, plans.SetRows(long[:64]).Error(), `x"; want one of go, avx2, avx512`)
	_, err = plans.Select(0, p, plans.Preference{Row: long})
	require.Contains(t, err.Error(), `x..."; want one of `)
}

func rank(isa string) int { return slices.Index(cpu.ISANames(), isa) }

// The log names the problem, the row taken and why others were not.
func TestSetVerbose(t *testing.T) {
	defer plans.SetVerbose(nil)
	defer limitRowsAgain()
	require.NoError(t, plans.SetRows("go"))
	var log []string
	plans.SetVerbose(func(line string) { log = append(log, line) })
	const text = "fake_quantize_per_tensor x=f32[100] qmin=-128 qmax=127"
	_, err := plans.Select(0, plans.MustParse(text), plans.Preference{})
	require.NoError(t, err)
	require.Equal(t, `isobit: select "`+text+`" row=go workspace=0`, log[len(log)-1])
	require.Len(t, log, len(rowsOf("fake_quantize_per_tensor")))
	for _, line := range log[:len(log)-1] {
		require.Regexp(t, `^isobit: refuse fake_quantize_per_tensor row=\w+: needs \w+$`, line)
	}
	// An op that selects from several tables refuses a row once.
	log = nil
	_, err = plans.Select(0, plans.MustParse("grid_sample_backward grad_output=f32[1,2,2,2] input=f32[1,2,3,3] grid=f32[1,2,2,2]"), plans.Preference{})
	require.NoError(t, err)
	require.Len(t, log, len(rowsOf("grid_sample_backward")))
	plans.SetVerbose(nil)
	before := len(log)
	_, err = plans.Select(0, plans.MustParse(text), plans.Preference{})
	require.NoError(t, err)
	require.Len(t, log, before)
}
