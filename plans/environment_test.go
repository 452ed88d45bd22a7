package plans_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/plans"
)

// limitRowsAgain sets the cap that the tests run under. Go's cache of results sees that they depend on it.
func limitRowsAgain() { plans.SetRows(os.Getenv("ISOBIT_ROWS")) }

// What the environment of a Go program asks for holds for plans until SetRows says something else.
func TestEnvironment(t *testing.T) {
	const text = "fake_quantize_per_tensor x=f32[100] qmin=-128 qmax=127"
	const child = "ISOBIT_TEST_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println("isa", plans.ISA())
		_, err := plans.Select(0, plans.MustParse(text), plans.Preference{})
		fmt.Println("error", err)
		require.NoError(t, plans.SetRows("go"))
		_, err = plans.Select(0, plans.MustParse(text), plans.Preference{})
		require.NoError(t, err)
		return
	}
	const taken = `isobit: select "` + text + `" row=go workspace=0`
	for _, c := range []struct {
		rows, verbose string
		has, lacks    string
	}{
		{"go", "", "isa go\nerror <nil>\n", "select"},
		{"", "0", "isa " + cpu.Best().String() + "\nerror <nil>\n", "select"},
		{"avx512", "", "isa " + cpu.Best().String() + "\nerror <nil>\n", "select"}, // a cap, no demand
		{"go", "1", "isa go\n" + `isobit: refuse fake_quantize_per_tensor row=`, "nothing"},
		{"go", "1", taken + "\nerror <nil>\n", "nothing"},
		{"sse", "1", `error ISOBIT_ROWS is "sse"; want one of go, avx2, avx512`, taken + "\nerror"},
		{"sse", "1", taken, "nothing"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironment$")
		cmd.Env = append(os.Environ(), child+"=1", "ISOBIT_ROWS="+c.rows, "ISOBIT_VERBOSE="+c.verbose)
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Contains(t, string(said), c.has)
		require.NotContains(t, string(said), c.lacks)
	}
}
