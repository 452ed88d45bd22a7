package tests

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// TestCUDARandom runs drawn problems of every op on the CPU build of the
// kernels: any shape, any strides, repeated elements, outputs in place of inputs.
func TestCUDARandom(t *testing.T) {
	s := startShim(t, buildShim(t))
	defer cuda.ReplaceDriver(s)()
	refused := 0
	for _, run := range []struct {
		size  testcase.Size
		cases int
	}{{testcase.Small, 16}, {testcase.Edge, 12}, {testcase.Large, 1}} {
		for i := range testcase.Table {
			o := &testcase.Table[i]
			hash := fnv.New64a()
			fmt.Fprint(hash, "cuda ", o.Name, run.size)
			cases := run.cases
			if strings.HasPrefix(o.Name, "grid_sample") && run.size != testcase.Large { // of many kinds
				cases *= 3
			}
			for n := range cases {
				err := randomCase(s, o, testcase.NewSource(hash.Sum64()+uint64(n), run.size))
				var e *plans.Error
				switch refusal := errors.As(err, &e) && e.Kind == plans.Unsupported; {
				case refusal && o.Name == "embedding_renorm": // other norms than 1, 2 and infinity
					refused++
				case err != nil:
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("refused: %d", refused)
}

// randomCase draws a case, and where and how its tensors lie, and compares the
// device's result with the definition's.
func randomCase(s *shim, o *testcase.Op, source *testcase.Source) error {
	c, err := o.New(source)
	if err != nil {
		return err
	}
	var options testcase.Options
	expanded := source.IntN(2) == 0
	if expanded {
		c.Expand(source.Rand)
	}
	want, err := c.Run(definition)
	if err != nil {
		return err
	}
	if source.IntN(3) > 0 {
		options.Layout = testcase.Mixed(source.Rand)
	}
	options.Alternate = source.IntN(2) == 0
	for _, pair := range o.InPlace {
		if out, in := c.Arg(pair[0]), c.Arg(pair[1]); out.Out() && in.In() && out.DType == in.DType && !expanded {
			options.InPlace = pair
		}
	}
	shift := 8 * uint64(source.IntN(2))
	if err := compareOnDevice(s, c, options, want, shift, source.IntN(2) == 0); err != nil {
		return fmt.Errorf("%s: %w", c.Text, err)
	}
	return nil
}
