package tests

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/plans"
)

// cudaLibrary returns the folder of a library that is built with CUDA. Only
// where no ready library is to be tested, one without CUDA will do: a machine
// that is offline cannot get the headers.
func cudaLibrary(t *testing.T) string {
	dir := library(t)
	if os.Getenv("ISOBIT_CUDA") == "0" {
		t.Skip("ISOBIT_CUDA=0 builds without CUDA")
	}
	data, err := os.ReadFile(filepath.Join(dir, "libisobit.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("ISOBIT_BUILD_DIR") == "" && !bytes.Contains(data, []byte("libcuda.so.1")) {
		t.Skip("capi/build.sh found no CUDA headers")
	}
	return dir
}

// casesOnCUDA returns those of cases.txt whose operations have CUDA kernels.
func casesOnCUDA(t *testing.T) (kept []string) {
	for _, c := range strings.Split(readRoot(t, "tests/cases.txt"), "\n\n") {
		op, _, _ := strings.Cut(c, " ")
		for _, row := range plans.Support() {
			if row.Op == op && slices.Contains(row.Devices, "cuda") {
				kept = append(kept, c)
			}
		}
	}
	return kept
}

// refusedOnCUDA is a case that CUDA has no kernels for.
const refusedOnCUDA = "embedding_renorm weight=f32[1,1] indices=i64[1] max_norm=1 norm_type=3\ninout f32[1,1] 0.5 0.5\nin i64[1] 0"

// writeCases writes cases to a file.
func writeCases(t *testing.T, cases ...string) string {
	file := filepath.Join(t.TempDir(), "cases.txt")
	if err := os.WriteFile(file, []byte(strings.Join(cases, "\n\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLibraryOnDriver runs every operation that has kernels through the C ABI on
// the stand-in for CUDA's driver, which the library must find by itself; then a
// problem that is refused; then with faults.
func TestLibraryOnDriver(t *testing.T) {
	program := compile(t, cudaLibrary(t), "c", "c/families.c")
	folder := filepath.Dir(buildShim(t))
	cases, refused := writeCases(t, casesOnCUDA(t)...), writeCases(t, refusedOnCUDA)
	for _, c := range []struct{ fault, device, want string }{
		{"", "cuda:0", " cases\n"},
		{"", "cuda:0", "embedding_renorm: norm_type is 3; CUDA takes 1, 2 and +Inf"},
		{"", "cuda:1", " cases\n"},
		{"capture", "cuda:0", " cases\n"},
		{"", "cuda:2", "device is cuda:2: device 2 does not exist; there are 2"},
		{"nodevice", "cuda:0", "device is cuda:0, which cannot be used: the CUDA driver finds no device"},
		{"old", "cuda:0", "the CUDA driver is for CUDA 11.8; 12.0 (driver 525) or later is needed"},
		{"launch", "cuda:0", "a kernel cannot be launched"},
		{"weak", "cuda:0", "device 0 has compute capability 7.0; 7.5 or later is needed"},
		{"image", "cuda:0", "the driver does not load the kernel "},
	} {
		file := cases
		if strings.HasPrefix(c.want, "embedding_renorm: ") {
			file = refused
		}
		command := exec.Command(program, file, c.device)
		command.Env = append(os.Environ(), "ISOBIT_FAKE_CUDA="+c.fault, "LD_LIBRARY_PATH="+folder)
		out, err := command.CombinedOutput()
		if !strings.Contains(string(out), c.want) || (err == nil) != (c.want == " cases\n") {
			t.Errorf("fault %q on %s: %v, want %q in:\n%s", c.fault, c.device, err, c.want, out)
		}
	}
}

// TestLibraryOpensDriverItself holds that the built library loads without
// CUDA: it neither needs libcuda nor refers to what is in it.
func TestLibraryOpensDriverItself(t *testing.T) {
	library, err := elf.Open(filepath.Join(cudaLibrary(t), "libisobit.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	needed, err := library.ImportedLibraries()
	if err != nil || slices.ContainsFunc(needed, func(name string) bool { return strings.Contains(name, "cuda") }) {
		t.Errorf("the library needs %v (%v)", needed, err)
	}
	symbols, err := library.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "cu") {
			t.Errorf("the library shows or misses %s", s.Name)
		}
	}
	if textrel, err := library.DynValue(elf.DT_TEXTREL); err != nil || len(textrel) > 0 {
		t.Errorf("the library has text relocations (%v)", err)
	}
}
