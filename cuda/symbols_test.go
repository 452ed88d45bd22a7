//go:build cgo && cuda && linux

package cuda

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write z_symbols.h")

// TestSymbolsAreCurrent lists the driver's functions that gorgonia.org/cu
// leaves undefined.
func TestSymbolsAreCurrent(t *testing.T) {
	export, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", "gorgonia.org/cu").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	unpack := exec.Command("ar", "x", strings.TrimSpace(string(export)))
	unpack.Dir = folder
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Skipf("no ar: %v %s", err, out)
	}
	objects, _ := filepath.Glob(folder + "/*.o")
	undefined, defined := map[string]bool{"cuInit": false}, map[string]bool{"cuInit": true}
	for _, object := range objects {
		symbols, _ := exec.Command("nm", object).Output() // fails for Go's own objects
		for line := range strings.Lines(string(symbols)) {
			if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(f[len(f)-1], "cu") {
				if f[len(f)-2] == "U" {
					undefined[f[1]] = true
				} else {
					defined[f[len(f)-1]] = true
				}
			}
		}
	}
	var names []string
	for name := range undefined {
		if !defined[name] {
			names = append(names, "X("+name+")\n")
		}
	}
	slices.Sort(names)
	text := "// The functions of CUDA's driver that gorgonia.org/cu calls, but cuInit. Written by\n" +
		"// go test -tags cuda ./cuda -write; DO NOT EDIT.\n" + strings.Join(names, "")
	if *write {
		if err := os.WriteFile("z_symbols.h", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if current, err := os.ReadFile("z_symbols.h"); err != nil || string(current) != text {
		t.Errorf("z_symbols.h is not current (%v): run go test -tags cuda ./cuda -write", err)
	}
}
