package plans_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// What the fields of a good text are replaced by.
var (
	someTypes   = []string{"none", "f32", "f64", "f16", "bf16", "s8", "u8", "s4", "u4", "s16", "u16", "i32", "i64", "f8e4m3", "f8e5m2", "bool"}
	someWords   = []string{"true", "false", "zeros", "border", "reflection", "nearest", "bilinear", "bicubic", "reciprocal", "skip", "int", "f8e4m3"}
	someNumbers = []string{"-1", "0", "1", "2", "3", "7", "64", "127", "-128", "255", "8388608", "0.5", "1e300", "nan", "-inf", "9223372036854775807", "-9223372036854775808", "[]", "[0]", "="}
	someExtents = []string{"0", "1", "2", "3", "8", "9", "70", "0", "1", "2", "3", "-1", "+2", "x", "", "281474976710656", "9223372036854775807"}
	someFields  = []string{"device=cuda:0", "device=cpu", "colour=red", "=", "x=", "qmin", "accumulate=true"}
)

func oneOf(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// changed returns another value of the kind that a field's value looks like.
func changed(r *rand.Rand, value string) string {
	name, shape, shaped := strings.Cut(value, "[")
	switch {
	case shaped && r.IntN(3) > 0:
		extents := strings.Split(strings.TrimSuffix(shape, "]"), ",")
		i := r.IntN(len(extents))
		switch r.IntN(4) {
		case 0:
			extents = slices.Insert(extents, i, oneOf(r, someExtents))
		case 1:
			extents = slices.Delete(extents, i, i+1)
		default:
			extents[i] = oneOf(r, someExtents)
		}
		return name + "[" + strings.Join(extents, ",") + "]"
	case shaped:
		return oneOf(r, someTypes) + "[" + shape
	case slices.Contains(someTypes, value):
		return oneOf(r, someTypes)
	case value >= "a":
		return oneOf(r, someWords)
	}
	return oneOf(r, someNumbers)
}

// randomText returns a good text with up to three changes, in any order.
func randomText(s *testcase.Source) (string, error) {
	r := s.Rand
	c, err := testcase.Table[r.IntN(len(testcase.Table))].New(s)
	if err != nil {
		return "", err
	}
	fields := strings.Split(c.Text, " ")[1:]
	for range r.IntN(4) {
		i := r.IntN(len(fields))
		key, value, _ := strings.Cut(fields[i], "=")
		switch r.IntN(12) {
		case 0:
			fields[i] = oneOf(r, someFields)
		case 1:
			fields[i] = oneOf(r, fields)
		default:
			fields[i] = key + "=" + changed(r, value)
		}
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	return c.Op.Name + " " + strings.Join(fields, " "), nil
}

// TestRandomTexts asks that texts which nearly fit are refused with an error
// that names the key, or become plans that run.
func TestRandomTexts(t *testing.T) {
	refused, ran := 0, 0
	seed := rand.Uint64()
	for until := time.Now().Add(time.Second); time.Now().Before(until); seed++ {
		s := testcase.NewSource(seed, testcase.Small)
		text, err := randomText(s)
		require.NoError(t, err)
		p, err := plans.Parse(text)
		if err != nil {
			e := requireKind(t, err, plans.InvalidProblem)
			require.NotEmpty(t, e.Arg, text)
			refused++
			continue
		}
		again, err := plans.Parse(p.String())
		require.NoError(t, err, text)
		require.Equal(t, p.String(), again.String(), text)
		if p.Device().IsCPU() && bytesOf(t, p) < 1<<20 {
			c, err := testcase.NewCase(s, text)
			require.NoError(t, err)
			if _, err := c.Run(definition); err != nil { // a type without a zero point in range, a table without rows
				require.Contains(t, []string{"zero_point", "indices"}, requireKind(t, err, plans.InvalidArgument).Arg, text)
				continue
			}
			same(t, c, testcase.Options{Preference: plans.Preference{Row: anyRow(s.Rand, c)}}, defined(t, c), "changed text")
			ran++
		}
	}
	require.Positive(t, refused)
	require.Positive(t, ran)
}

// bytesOf returns the memory that a problem takes.
func bytesOf(t *testing.T, p plans.Problem) (n int64) {
	plan, err := plans.Select(0, p, plans.Preference{})
	require.NoError(t, err, p.String())
	for _, a := range plans.Describe(plan).Args {
		elements := int64(8)
		for _, d := range a.Shape {
			elements *= max(d, 1)
		}
		n += elements
	}
	return n + plan.WorkspaceSize()
}
