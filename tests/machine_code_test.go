package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goTool runs the go command in a folder, for a target, without cgo.
func goTool(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds packages for another target")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is missing")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v go %s\n%s", env, strings.Join(args, " "), out)
	return string(out)
}

// fusing are targets for which Go fuses x*y + z, and how that looks.
var fusing = []struct{ env, instruction string }{
	{"GOOS=darwin GOARCH=arm64", `\bFN?M(ADD|SUB)[SD]\b`},
	{"GOARCH=amd64 GOAMD64=v3", `\bVFN?M(ADD|SUB)\w+\b`},
}

// No multiplication and addition were fused: where the compiler may do so,
// the definitions' products are converted first, which forbids it.
func TestNothingIsFused(t *testing.T) {
	for _, target := range fusing {
		t.Run(target.env, func(t *testing.T) {
			env := strings.Fields(target.env)
			fused := regexp.MustCompile(target.instruction)

			// What the test looks for is what the compiler writes.
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module fused\n\ngo 1.26\n"), 0o666))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "fused.go"), []byte(
				"package fused\n\nfunc Fused(x, y, z float32) float32 { return x*y + z }\n\nfunc Apart(x, y, z float32) float32 { return float32(x*y) + z }\n"), 0o666))
			listing := goTool(t, dir, env, "build", "-gcflags=-S", ".")
			instructions := fused.FindAllString(listing, -1)
			require.Len(t, instructions, 1)
			require.True(t, isCandidate(instructions[0]))

			listing = goTool(t, "..", env, "build", "-gcflags=-S", "./tensor", "./cpu", "./plans", "./autodiff/...", "./examples/digits-go")
			for _, part := range []string{"/cpu.quantizeGo", "/autodiff/internal/kernel.Descend", "/autodiff/internal/detmath.Erf"} {
				require.Contains(t, listing, module+part)
			}
			for _, line := range strings.Split(listing, "\n") {
				if isCandidate(line) && fused.MatchString(line) && !asksToFuse(t, line) {
					t.Error(line)
				}
			}
		})
	}
}

// isCandidate is what every instruction of fusing has in common: of millions of
// lines a regular expression would take long.
func isCandidate(line string) bool {
	return strings.Contains(line, "MADD") || strings.Contains(line, "MSUB")
}

// asksToFuse reports whether the source of a line of the listing calls math.FMA.
func asksToFuse(t *testing.T, line string) bool {
	at := regexp.MustCompile(`\((\S+\.go):(\d+)\)`).FindStringSubmatch(line)
	if at == nil {
		return false
	}
	text, err := os.ReadFile(at[1])
	require.NoError(t, err)
	number, err := strconv.Atoi(at[2])
	require.NoError(t, err)
	return strings.Contains(strings.Split(string(text), "\n")[number-1], "math.FMA(")
}
