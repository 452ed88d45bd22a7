package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
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

// TestGolden runs every golden case, of which each op has some, through every row of
// its op, with compact arguments on one thread and strided ones on three.
// ISOBIT_GOLDEN names another folder.
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
	missing := plans.OpNames()
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
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == op })
				// The empty name is the row that a user gets: it must take the case.
				for _, row := range append([]string{""}, rows[op]...) {
					err := c.run(testcase.Compact, plans.Preference{Row: row, Threads: 1})
					if err == nil {
						err = c.run(testcase.Scattered, plans.Preference{Row: row, Threads: 3})
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
	for _, op := range missing {
		t.Errorf("no golden case of %s: give tests/reference the op and tests/golden/make.py cases, and run the latter", op)
	}
}

// run runs the case on tensors with a layout and compares the outputs.
func (c *goldenCase) run(layout testcase.Layout, pref plans.Preference) error {
	filled, err := testcase.Blank(c.Problem)
	if err != nil {
		return err
	}
	given, outputs := slices.Concat(c.Inputs, c.Initial), c.Outputs
	for i, g := range append(given, c.Outputs...)[:len(filled.Args)] {
		a := &filled.Args[i]
		if (g != nil) != a.Present {
			return fmt.Errorf("%s: present is %v", a.Name, a.Present)
		}
		if g != nil {
			if err := g.lend(a, i < len(given)); err != nil {
				return fmt.Errorf("%s: %w", a.Name, err)
			}
		}
	}
	results, err := filled.Run(testcase.Options{Preference: pref, Layout: layout})
	if err != nil {
		return err
	}
	for _, a := range filled.Args {
		if a.Direction == "in" {
			continue
		}
		if outputs[0] != nil {
			if err := outputs[0].compare(a.DType, results[0]); err != nil {
				return fmt.Errorf("%s: %w", a.Name, err)
			}
			results = results[1:]
		}
		outputs = outputs[1:]
	}
	return nil
}
