package tests

import (
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

var update = flag.Bool("update", false, "write what is made from the plans' tables: the README's support table, OPS.md")

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
	sameText(t, want, string(readme), "README.md", "go test ./tests -run TestSupportTable -update")
}

// sameText holds a document against what a command would write. It names the first line that is not the same, since
// documents are long.
func sameText(t *testing.T, want, got, document, command string) {
	t.Helper()
	for i, line := range strings.Split(want, "\n") {
		var came string
		came, got, _ = strings.Cut(got, "\n")
		require.Equal(t, line, came, "%s is stale from line %d on: %s", document, i+1, command)
	}
	require.Empty(t, got, "%s is stale, and too long: %s", document, command)
}

// supportTable writes one line per op; ops that differ only in granularity
// share one.
func supportTable() string {
	var b strings.Builder
	b.WriteString("| op | in | out | devices | rows |\n|---|---|---|---|---|\n")
	grouped := map[string][]string{}
	var order []string
	for _, r := range plans.Support() {
		kind := granularityName.FindStringSubmatch(r.Op)
		name := granularityName.ReplaceAllString(r.Op, "_per_*$2")
		line := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, argList(r, "in"), argList(r, "out"), strings.Replace(strings.Join(r.Devices, ", "), "cuda", `cuda\*`, 1), strings.Join(r.Rows, ", "))
		if _, seen := grouped[line]; !seen {
			order = append(order, line)
		}
		grouped[line] = append(grouped[line], append(kind, "", "")[1])
	}
	for _, line := range order {
		kinds := strings.Join(grouped[line], ",")
		if len(grouped[line]) > 1 {
			kinds = "{" + kinds + "}"
		}
		b.WriteString(strings.Replace(line, "_per_*", "_per_"+kinds, 1))
	}
	return b.String()
}

func argList(r plans.SupportOp, direction string) string {
	var list []string
	for _, a := range r.Args {
		if strings.Contains(a.Direction, direction) {
			list = append(list, a.Name+": "+typesOf(a))
		}
	}
	return strings.Join(list, "; ")
}

// readmeProgram returns the README's program in a language.
func readmeProgram(t *testing.T, language string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(readRoot(t, "README.md"))
	require.NotNil(t, block, "README.md has no program in %s", language)
	return block[1]
}

// TestReadmeGo runs the README's Go program in a module of its own.
func TestReadmeGo(t *testing.T) {
	out, err := exec.Command(programElsewhere(t, readmeProgram(t, "go"))).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "[2 -50 127 10 20 30] <nil>\n", string(out))
}

// TestReadmeCpp runs the README's C++ program.
func TestReadmeCpp(t *testing.T) {
	source := filepath.Join(t.TempDir(), "demo.cpp")
	require.NoError(t, os.WriteFile(source, []byte(readmeProgram(t, "cpp")), 0o666))
	out := runProgram(t, nil, compile(t, library(t), "c++", source))
	require.Equal(t, "2 -50 127 10 20 30 ", out)
}
