package plans_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// requireKind asks for an Error of a kind and returns it.
func requireKind(t *testing.T, err error, kind plans.Kind) *plans.Error {
	t.Helper()
	var e *plans.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind, "%v", err)
	require.ErrorIs(t, err, kind)
	return e
}

// Names are renamed wherever they stand, and nothing else is: not a caller's
// text, and not a word that is a name elsewhere.
func TestRenamed(t *testing.T) {
	for text, want := range map[string]string{
		"quantize_per_tensor x=f32[2] q=s8 qmin=5 qmax=4":                 "QUANTIZE_PER_TENSOR: QMIN is 5, above QMAX, which is 4",
		"quantize_per_tensor x=x q=s8 qmin=5 qmax=4":                      `QUANTIZE_PER_TENSOR: X is "x"; want one of F32, F64, F16, BF16`,
		"quantize_per_tensor x=f32[2] q=s8 qmin=scale qmax=4":             `QUANTIZE_PER_TENSOR: QMIN is "scale"; want a whole number`,
		"quantize_per_tensor x=f32[2] q=f8e4m3 qmin=-1 qmax=1":            "QUANTIZE_PER_TENSOR: ZERO_POINT is I32; F8E4M3 codes have a scale only: want none",
		"quantize_per_tensor x=f32[2] q=s8 qmin=5 qmax=4 a\x00qmin\x00=1": `QUANTIZE_PER_TENSOR: TEXT has "a\x00qmin\x00=1"; want key=value, each key once, separated by single spaces`,
		"grid_sample input=f32[1,1,2,2] grid=f16[1,2,2,2]":                "GRID_SAMPLE: GRID is F16 with an input of F32; want F32",
	} {
		_, err := plans.Parse(text)
		e := requireKind(t, err, plans.InvalidProblem)
		require.Equal(t, want, e.Renamed(strings.ToUpper))
		require.NotContains(t, e.Error(), "\x00")
	}
	plan, err := plans.Select(0, plans.MustParse("quantize_per_tensor x=f32[2] zero_point=none q=s8 qmin=0 qmax=4"), plans.Preference{})
	require.NoError(t, err)
	for came, want := range map[string]tensor.View{
		"QUANTIZE_PER_TENSOR: X is S16[2]; want F32[2]":  tensor.Of([]int16{1, 2}),
		"QUANTIZE_PER_TENSOR: X is missing; want F32[2]": {},
	} {
		e := requireKind(t, plan.CanImplement([]tensor.View{want, {}, {}, {}}), plans.InvalidArgument)
		require.Equal(t, came, e.Renamed(strings.ToUpper))
	}
}

// A kind is an error of its own, and another than the others.
func TestKinds(t *testing.T) {
	_, err := plans.Parse("")
	require.NotErrorIs(t, err, plans.InvalidArgument)
	require.ErrorIs(t, fmt.Errorf("a program's: %w", err), plans.InvalidProblem)
	for kind, text := range map[plans.Kind]string{-1: "kind(-1)", 0: "no error", plans.InvalidProblem: "invalid problem", plans.DeviceError: "device", plans.Internal: "internal", plans.Internal + 1: "kind(9)"} {
		require.EqualError(t, kind, text)
	}
}
