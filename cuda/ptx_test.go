package cuda

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPTXIsCurrent compares the digest of the sources with the one noted when
// they were last compiled.
func TestPTXIsCurrent(t *testing.T) {
	paths, err := filepath.Glob("kernels/*.cu*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no kernels (%v)", err)
	}
	paths = append(paths, "ptx.py")
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	total := sha256.New()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(total, "%s %x\n", filepath.Base(path), sha256.Sum256(text))
	}
	if got := fmt.Sprintf("%x\n", total.Sum(nil)); got != archiveSum {
		t.Errorf("the sources have changed since kernels.zip was made: run ./build.sh ptx")
	}
}

// TestPTXMatchesTable holds the compiled kernels against the table of ops.
func TestPTXMatchesTable(t *testing.T) {
	z, err := openArchive()
	if err != nil {
		t.Fatal(err)
	}
	var compiled []string
	for _, f := range z.File {
		compiled = append(compiled, f.Name)
	}
	slices.Sort(compiled)
	for _, name := range KernelNames() {
		if !slices.Contains(compiled, name) {
			t.Errorf("the table has %s, which is not compiled", name)
		}
	}
	for _, name := range compiled {
		if !slices.Contains(KernelNames(), name) {
			t.Errorf("%s is compiled, but no op has it", name)
		}
	}
}

// TestNumbered holds numbered against what ptx.py's renumbered makes.
func TestNumbered(t *testing.T) {
	const ptx = `$L__BB0_7:
	add.f32 	%f13, %f12, %f2;
	mov.u32 	%r1, %tid.x;
	add.f32 	%f14, %f13, %f13;
	@%p1 bra 	$L__BB0_6;
$L__BB0_9:
	st.global.f32 	[%rd5+-8], %f14;
}`
	const zipped = `$L__BB0_7:
	add.f32 	%f13, %f12, %f2;
	mov.u32 	%r1, %tid.x;
	add.f32 	%f1, %f0, %f0;
	@%p1 bra 	$L__BB0_-1;
$L__BB0_2:
	st.global.f32 	[%rd5+-8], %f0;
}`
	if got := numbered([]byte(zipped)); got != ptx {
		t.Errorf("got\n%s\nwant\n%s", got, ptx)
	}
}

var (
	fused = regexp.MustCompile(`\b(fma|mad)\.[a-z.]*f(32|64)`)
	// Without .rn the driver's assembler may fuse a product with a sum.
	fusible   = regexp.MustCompile(`\b(add|sub|mul)\.f(32|64)`)
	imprecise = regexp.MustCompile(`\.approx|\.ftz|div\.full|\.sat\.f|cvt\.rn\.f16\.f64`)
	entry     = regexp.MustCompile(`\.visible \.entry (\w+)\(`)
)

// TestPTXArithmetic looks for instructions that the numeric contract forbids:
// fused ones (but for the exact remainder of reflection, the step that makes a
// quotient exact, and those of matmul) and approximations.
func TestPTXArithmetic(t *testing.T) {
	for _, name := range KernelNames() {
		text, err := ptxOf(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if m := entry.FindStringSubmatch(text); len(m) == 0 || m[1] != name {
			t.Errorf("the PTX of %s has another kernel", name)
		}
		target := "sm_75"
		if strings.Contains(name, "_sm80") {
			target = "sm_80"
		}
		if !strings.Contains(text, ".version 8.0\n.target "+target+"\n") {
			t.Errorf("%s: is not for PTX 8.0, which drivers from 525 load, and %s", name, target)
		}
		if m := fusible.FindString(text); m != "" {
			t.Errorf("%s has %s, which does not say how it rounds", name, m)
		}
		if m := imprecise.FindString(text); m != "" {
			t.Errorf("%s has %s", name, m)
		}
		samples := strings.HasPrefix(name, "grid_") || strings.HasPrefix(name, "input_")
		divides := strings.HasPrefix(name, "quantize_") || strings.HasPrefix(name, "fake_quantize_") ||
			strings.HasPrefix(name, "affine_grid_backward_")
		if m := fused.FindString(text); m != "" && !samples && !divides && !strings.HasPrefix(name, "matmul_") {
			t.Errorf("%s has %s", name, m)
		}
	}
}
