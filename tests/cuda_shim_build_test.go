package tests

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isobit-ml/isobit/plans"
)

// buildShim compiles the kernels into a program and a stand-in for libcuda.so.1
// beside it. They are kept in build/ under the hash of what they were made from.
func buildShim(t *testing.T) string {
	compiler, sources, hash := shimSources(t)
	kept, err := filepath.Abs("../build/cuda-shim")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(kept, hash)
	if program := filepath.Join(folder, "kernels"); exists(program) {
		return program
	}
	os.RemoveAll(kept)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return compileShim(t, append([]string{compiler}, shimFlags...), folder, sources)
}

// buildMutant compiles kernels with a mistake into folder, and links them with what was compiled
// beside the program whole: units without the mistake, and what runs kernels.
func buildMutant(t *testing.T, m mutant, whole, folder string, kernels map[string]bool) string {
	compiler, sources, _ := shimSources(t)
	if strings.Count(sources[m.file], m.from) != 1 {
		t.Fatalf("%s does not contain %q once", m.file, m.from)
	}
	sources[m.file] = strings.Replace(sources[m.file], m.from, m.to, 1)
	kept, units := filepath.Dir(whole), strings.Split(m.unit, ",")
	objects := []string{filepath.Join(kept, "run.o"), filepath.Join(kept, "fibers.o")}
	for name := range sources {
		unit, isKernel := strings.CutSuffix(name, ".cu")
		switch {
		case strings.HasSuffix(name, ".cc") || isKernel && !slices.Contains(units, unit):
			delete(sources, name)
		case isKernel && !includes(t, filepath.Join(kept, unit+".d"), m.file):
			objects = append(objects, filepath.Join(kept, unit+".o"))
			delete(sources, name)
		}
	}
	command := append(append([]string{compiler}, shimFlags...), "-O0", "-DSHIM_CHOOSES") // compiles in a fraction of the time
	for kernel := range kernels {
		command = append(command, "-DSHIM_"+kernel+"=,KERNEL_TAKEN")
	}
	return compileShim(t, command, folder, sources, objects...)
}

// includes reports whether a file is among what the compiler's list names.
func includes(t *testing.T, list, file string) bool {
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Fields(string(text)), file)
}

// shimSources returns the C++ compiler, the sources by name and their hash.
func shimSources(t *testing.T) (compiler string, sources map[string]string, digest string) {
	if compiler = os.Getenv("CXX"); compiler == "" {
		compiler = "g++"
	}
	if _, err := exec.LookPath(compiler); err != nil || runtime.GOOS != "linux" {
		t.Skipf("the CUDA kernels run on the CPU with g++ on Linux: %v", err)
	}
	sources = map[string]string{}
	hash := sha256.New()
	fmt.Fprintln(hash, shimFlags, compiler)
	for _, pattern := range []string{"../cuda/kernels/*.cu", "../cuda/kernels/*.cuh", "../cuda/shim/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources[filepath.Base(path)] = string(text)
			fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(path), len(text), text)
		}
	}
	return compiler, sources, hex.EncodeToString(hash.Sum(nil))[:16]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The last two end the program where a GPU would fail (access off an
// alignment) or give other bits (a float that its integer cannot hold).
var shimFlags = append([]string{
	"-O1", "-MMD", "-std=c++17", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-fPIC",
	"-fsanitize=alignment,float-cast-overflow,shift,signed-integer-overflow", "-fsanitize-undefined-trap-on-error",
}, fusedSteps()...)

// fusedSteps has fma be an instruction rather than a call, where there is one.
func fusedSteps() []string {
	if runtime.GOARCH == "amd64" && plans.ISA() != "go" {
		return []string{"-mfma"}
	}
	return nil
}

// compileShim compiles the sources into folder, links them with objects and
// returns the program.
func compileShim(t *testing.T, command []string, folder string, sources map[string]string, objects ...string) string {
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var units []string
	for name, text := range sources {
		save(name, text)
		unit, isKernel := strings.CutSuffix(name, ".cu")
		if isKernel {
			save(unit+".cc", fmt.Sprintf("#include \"shim.h\"\nnamespace {\n#include %q\n}\n", name))
		}
		if unit, isUnit := strings.CutSuffix(unit, ".cc"); isKernel || isUnit {
			units = append(units, unit)
		}
	}
	compile := func(args ...string) error {
		c := exec.Command(command[0], slices.Concat(command[1:], args)...)
		c.Dir = folder
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s\n%s", c, out)
		}
		return nil
	}
	var wg sync.WaitGroup
	failed := make([]error, len(units))
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, unit := range units {
		wg.Go(func() {
			places <- struct{}{}
			failed[i] = compile("-c", unit+".cc", "-o", unit+".o")
			<-places
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	driver, executable := []string{"-shared", "-o", "libcuda.so.1"}, append([]string{"-o", "kernels.new"}, objects...)
	for _, unit := range units {
		if unit != "run" {
			driver = append(driver, unit+".o")
		}
		if unit != "driver" {
			executable = append(executable, unit+".o")
		}
	}
	if slices.Contains(units, "driver") {
		if err := compile(driver...); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(folder, "kernels")
	if err := errors.Join(compile(executable...), os.Rename(program+".new", program)); err != nil {
		t.Fatal(err)
	}
	return program
}
