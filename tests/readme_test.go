package tests

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/plans"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the README's support table")

const (
	tableBegin = "<!-- support table: made by go test ./tests -run TestSupportTable -update -->\n"
	tableEnd   = "<!-- end of support table -->"
)

// TestSupportTable holds the README's table against the plans' own tables.
func TestSupportTable(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(readme), tableBegin)
	require.True(t, ok, "README.md has no support table")
	_, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "README.md's support table has no end")
	want := before + tableBegin + supportTable() + tableEnd + after
	if *update {
		require.NoError(t, os.WriteFile("../README.md", []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(readme), "README.md's support table is stale: go test ./tests -run TestSupportTable -update")
}

// supportTable writes one line per op; ops that differ only in granularity
// share one.
func supportTable() string {
	var b strings.Builder
	b.WriteString("| op | in | out | devices | rows |\n|---|---|---|---|---|\n")
	granularity := regexp.MustCompile(`_per_(tensor|channel|token|group|block)`)
	grouped := map[string][]string{}
	var order []string
	for _, r := range plans.Support() {
		kind := granularity.FindStringSubmatch(r.Op)
		name := granularity.ReplaceAllString(r.Op, "_per_*")
		line := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, argList(r, "in"), argList(r, "out"), strings.Replace(strings.Join(r.Devices, ", "), "cuda", `cuda\*`, 1), strings.Join(r.Rows, ", "))
		if _, seen := grouped[line]; !seen {
			order = append(order, line)
		}
		grouped[line] = append(grouped[line], append(kind, "", "")[1])
	}
	for _, line := range order {
		b.WriteString(strings.Replace(line, "_per_*", "_per_{"+strings.Join(grouped[line], ",")+"}", 1))
	}
	return b.String()
}

func argList(r plans.SupportRow, direction string) string {
	var list []string
	for _, a := range r.Args {
		types := strings.Join(a.DTypes, " ")
		types = strings.Replace(types, "f32 f64 f16 bf16", "floats", 1)
		if a.Direction == direction {
			list = append(list, a.Name+": "+types)
		}
	}
	return strings.Join(list, "; ")
}

// TestReadmeGo runs the README's Go program in a module of its own, without cgo.
func TestReadmeGo(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), block[1], 0o644))
	requires := regexp.MustCompile(`(?s)require .*`).FindString(string(mod))
	own := "module readme\n\ngo 1.26.0\n\nrequire github.com/isobit-ml/isobit v0.0.0\n\nreplace github.com/isobit-ml/isobit => " + root + "\n\n" + requires
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(own), 0o644))
	sum, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))
	run := exec.Command("go", "run", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "[2 -50 127 10 20 30] <nil>\n", string(out))
}

// TestSupportIsJSON holds what the C ABI hands out.
func TestSupportIsJSON(t *testing.T) {
	text, err := json.Marshal(plans.Support())
	require.NoError(t, err)
	require.Contains(t, string(text), `"op":"quantize_per_channel"`)
}
