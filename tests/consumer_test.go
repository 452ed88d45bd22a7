package tests

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// programElsewhere builds a main.go in a module of its own that imports this one,
// without cgo, and returns the program's path.
func programElsewhere(t *testing.T, source string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	// What it needs is what the root needs; nothing is fetched.
	_, requires, _ := strings.Cut(readRoot(t, "go.mod"), "require")
	for name, text := range map[string]string{
		"main.go": source,
		"go.sum":  readRoot(t, "go.sum"),
		"go.mod":  "module example.com/consumer\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n\nrequire" + requires,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	program := filepath.Join(dir, "consumer")
	goTool(t, dir, []string{"GOFLAGS=-mod=mod", "GOPROXY=off"}, "build", "-o", program, ".")
	return program
}

// A module elsewhere imports plans and reproduces the digest of a golden result.
func TestModuleElsewhere(t *testing.T) {
	program := programElsewhere(t, readRoot(t, "tests/testdata/consumer/main.go"))
	var golden struct{ Cases []goldenCase }
	require.NoError(t, json.Unmarshal([]byte(readRoot(t, "tests/golden/quantize.json")), &golden))
	ran := 0
	for _, c := range golden.Cases {
		if args, ok := consumerArgs(&c); ok && ran < 5 {
			out, err := exec.Command(program, args...).CombinedOutput()
			require.NoError(t, err, string(out))
			data, err := hex.DecodeString(*c.Outputs[0].Data)
			require.NoError(t, err)
			sum := sha256.Sum256(data)
			require.Equal(t, hex.EncodeToString(sum[:])+"\n", string(out), c.Problem)
			ran++
		}
	}
	require.Equal(t, 5, ran)
}

// consumerArgs writes a case as the program's arguments, if all its tensors
// are in the file and its result is integers.
func consumerArgs(c *goldenCase) (args []string, ok bool) {
	if c.Outputs[0].Data == nil || c.Outputs[0].DType != "s8" {
		return nil, false
	}
	args = []string{c.Problem}
	for _, in := range c.Inputs {
		switch {
		case in == nil:
			args = append(args, "none")
		case in.Data == nil:
			return nil, false
		default:
			shape := strings.Trim(string(must(json.Marshal(in.Shape))), "[nul]") // "[2,3]", or "null"
			args = append(args, in.DType+":"+shape+":"+*in.Data)
		}
	}
	return args, true
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
