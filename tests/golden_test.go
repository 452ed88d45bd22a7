package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// The golden files' format is described in golden/README.md.
type goldenFile struct {
	Format int
	Family string
	Cases  []goldenCase
}

type goldenCase struct {
	Problem string
	Inputs  []*goldenTensor
	Initial []*goldenTensor
	Outputs []*goldenTensor
}

type goldenTensor struct {
	DType  string
	Shape  []int64
	Data   *string
	SHA256 string
	Make   *goldenRecipe
}

type goldenRecipe struct {
	Kind     string
	Seed     uint64
	Bits     uint
	Exponent int
	Low      int64
	Count    uint64
}

// TestGolden runs every golden case through every row of its op, with compact
// arguments on one thread and strided ones on three. ISOBIT_GOLDEN names
// another folder.
func TestGolden(t *testing.T) {
	folder := os.Getenv("ISOBIT_GOLDEN")
	if folder == "" {
		folder = "golden"
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in %s (%v)", folder, err)
	}
	rows := map[string][]string{}
	for _, op := range plans.Support() {
		rows[op.Op] = op.Rows
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var file goldenFile
			if err := json.Unmarshal(text, &file); err != nil {
				t.Fatal(err)
			}
			if file.Format != 1 {
				t.Fatalf("format %d, want 1", file.Format)
			}
			failures := 0
			for i := range file.Cases {
				c := &file.Cases[i]
				op, _, _ := strings.Cut(c.Problem, " ")
				// The empty name is the row that a user gets: it must take the case.
				for _, row := range append([]string{""}, rows[op]...) {
					err := c.run(compact, plans.Preference{Row: row, Threads: 1})
					if err == nil {
						err = c.run(strided, plans.Preference{Row: row, Threads: 3})
					}
					var refusal *plans.Error
					if row != "" && errors.As(err, &refusal) && refusal.Kind == plans.Unsupported {
						continue
					}
					if err != nil {
						t.Errorf("case %d, row %q, %s\n%v", i, row, c.Problem, err)
						if failures++; failures == 10 {
							t.Fatal("and perhaps more")
						}
					}
				}
			}
		})
	}
}

// run runs the case on tensors with a layout and compares the outputs.
func (c *goldenCase) run(layout func(dtype tensor.DType, shape []int64) placed, pref plans.Preference) error {
	problem, err := plans.Parse(c.Problem)
	if err != nil {
		return err
	}
	plan, err := plans.Select(0, problem, pref)
	if err != nil {
		return err
	}
	inPlace := strings.HasPrefix(c.Problem, "embedding_renorm ")
	var args []placed
	for i, in := range c.Inputs {
		p, err := in.place(layout, true)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		p.view.ReadOnly = p.view.Present() && !(inPlace && i == 0)
		args = append(args, p)
	}
	outputs := args[:1]
	if !inPlace {
		for i, out := range c.Outputs {
			from, filled := out, false
			if c.Initial != nil {
				from, filled = c.Initial[i], true
			}
			p, err := from.place(layout, filled)
			if err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
			args = append(args, p)
		}
		outputs = args[len(c.Inputs):]
	}
	views := make([]tensor.View, len(args))
	for i := range args {
		views[i] = args[i].view
	}
	if err := plan.Run(0, make([]byte, plan.WorkspaceSize()), views); err != nil {
		return err
	}
	for i := range outputs {
		if err := c.Outputs[i].compare(outputs[i]); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}
