package autodiff

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingIsFused compiles for a machine on which the compiler fuses
// multiplications with additions where the source allows it, and finds none:
// the promise of the same bits on every machine.
func TestNothingIsFused(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("compiles for several seconds")
	}
	cmd := exec.Command("go", "build", "-gcflags=-S", ".", "./internal/kernel", "./internal/detmath")
	cmd.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := cmd.CombinedOutput()
	require.NoError(t, err)
	fused := regexp.MustCompile(`\([^)]*/autodiff/[^)]*\)\s+FN?M(ADD|SUB)[SD]?\s`)
	require.Empty(t, fused.FindAllString(string(listing), -1))
}
