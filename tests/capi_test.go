package tests

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isobit-ml/isobit/plans"
)

// library returns a folder with libisobit.so.1 and libisobit.so in it: the one
// that ISOBIT_BUILD_DIR names, or a fresh build. It skips the test where the C
// library cannot be built.
func library(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the C library is for Linux")
	}
	if os.Getenv("CGO_ENABLED") == "0" {
		t.Skip("cgo is off; the C library is not built")
	}
	for _, tool := range []string{compiler("CC", "cc"), compiler("CXX", "c++")} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing; the C consumers are not compiled (Debian and Ubuntu: apt install build-essential)", tool)
		}
	}
	if dir := os.Getenv("ISOBIT_BUILD_DIR"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	run(t, nil, "sh", "../capi/build.sh", filepath.Join(dir, "libisobit.so.1"))
	if err := os.Symlink("libisobit.so.1", filepath.Join(dir, "libisobit.so")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func compiler(variable, otherwise string) string {
	if c := os.Getenv(variable); c != "" {
		return c
	}
	return otherwise
}

// run runs a command that must succeed within two minutes.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	timer := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// emulated is the command line of a program that compile made: by itself, or
// under the emulator that ISOBIT_EMULATOR names (tests/emulate.sh).
func emulated(program string, args ...string) []string {
	return slices.Concat(strings.Fields(os.Getenv("ISOBIT_EMULATOR")), []string{program}, args)
}

// runProgram runs one that must succeed.
func runProgram(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	line := emulated(program, args...)
	return run(t, env, line[0], line[1:]...)
}

var strict = []string{"-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror", "-I../include"}

// compile builds a consumer against the library in dir and returns its path.
func compile(t *testing.T, dir, language, source string, flags ...string) string {
	t.Helper()
	tool, standard := compiler("CC", "cc"), []string{"-std=c11"}
	if language == "c++" {
		tool, standard = compiler("CXX", "c++"), []string{"-std=c++17", "-Weffc++", "-Wold-style-cast"}
	}
	program := filepath.Join(t.TempDir(), "program")
	args := slices.Concat(strict, []string{"-x", language, "-D_DEFAULT_SOURCE"}, standard, flags,
		[]string{source, "-x", "none", "-o", program, "-L" + dir, "-lisobit", "-Wl,-rpath," + dir, "-pthread", "-lm", "-ldl"})
	run(t, nil, tool, args...)
	return program
}

func TestConsumers(t *testing.T) {
	dir := library(t)
	file := filepath.Join(dir, "libisobit.so.1")
	for _, c := range []struct {
		language, source string
		args             []string
	}{
		{"c", "c/families.c", []string{"cases.txt"}},
		{"c", "c/errors.c", nil},
		{"c", "c/problems.c", nil},
		{"c", "c/layout.c", nil},
		{"c", "c/threads.c", nil},
		{"c", "c/parallel.c", nil},
		{"c", "c/fork.c", []string{file}},
		{"c", "c/float_state.c", []string{file}},
		{"c", "c/overhead.c", nil},
		{"c++", "cpp/families.cpp", []string{"cases.txt"}},
		{"c++", "cpp/scratch.cpp", nil},
		{"c++", "cpp/tensors.cpp", nil},
		{"c++", "cpp/wrapper.cpp", nil},
	} {
		t.Run(c.source, func(t *testing.T) {
			t.Parallel()
			t.Log(runProgram(t, nil, compile(t, dir, c.language, c.source), c.args...))
		})
	}
}

// TestSpans runs isobit.hpp's tests of tensors in C++20, which has std::span.
func TestSpans(t *testing.T) {
	runProgram(t, nil, compile(t, library(t), "c++", "cpp/tensors.cpp", "-std=c++20"))
}

// TestBuildElsewhere holds that the library's build says where and with what it works.
func TestBuildElsewhere(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the C library is for Linux")
	}
	for variable, want := range map[string]string{
		"GOOS=darwin":         "the C library is for Linux; this is darwin",
		"GO=no-such-compiler": "Go 1.26 or later is missing",
	} {
		cmd := exec.Command("sh", "../capi/build.sh", filepath.Join(t.TempDir(), "libisobit.so.1"))
		cmd.Env = append(os.Environ(), variable)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s gave %v: %s", variable, err, out)
		}
	}
}

// TestBuildBetweenBlanks builds in a folder, and to one, whose names have blanks; a script stands in for Go.
func TestBuildBetweenBlanks(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the C library is for Linux")
	}
	root := filepath.Join(t.TempDir(), "a 'b' c")
	compiler, out := filepath.Join(root, "go"), filepath.Join(root, "out", "libisobit.so.1")
	run(t, nil, "mkdir", "-p", filepath.Join(root, "capi"), filepath.Dir(out))
	run(t, nil, "cp", "../capi/build.sh", filepath.Join(root, "capi"))
	script := "#!/bin/sh\n[ \"$1\" = env ] && echo linux && exit\necho \"$*\"; while [ \"$1\" != -o ]; do shift; done; : >\"$2\"\n"
	if err := os.WriteFile(compiler, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	said := run(t, []string{"GO=" + compiler, "ISOBIT_CUDA=0"}, "sh", filepath.Join(root, "capi", "build.sh"), out)
	_, flag, _ := strings.Cut(said, "--version-script=")
	if path, _, _ := strings.Cut(flag, "/isobit.map"); path == "" || strings.ContainsAny(path, " '") {
		t.Errorf("the linker is given %s", said)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
}

// TestWithoutExceptions holds that isobit.hpp says what it needs, and that isobit.h needs none.
func TestWithoutExceptions(t *testing.T) {
	library(t) // skips without a compiler
	check := func(header string) (string, error) {
		out, err := exec.Command(compiler("CXX", "c++"), "-std=c++17", "-fno-exceptions", "-fsyntax-only", "-x", "c++", header).CombinedOutput()
		return string(out), err
	}
	if out, err := check("../include/isobit.hpp"); err == nil || !strings.Contains(out, "isobit.hpp throws exceptions") {
		t.Errorf("isobit.hpp without exceptions gave %v:\n%s", err, out)
	}
	if out, err := check("../include/isobit.h"); err != nil {
		t.Errorf("isobit.h without exceptions gave %v:\n%s", err, out)
	}
}

// TestCasesCoverOps holds that the consumers run every operation there is.
func TestCasesCoverOps(t *testing.T) {
	cases, err := os.ReadFile("cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range plans.Support() {
		if !strings.Contains(string(cases), "\n"+op.Op+" ") {
			t.Errorf("tests/cases.txt has no case of %s: add one whose results follow by hand", op.Op)
		}
	}
}

// TestDLPackHeader compiles isobit.h with an upstream-like dlpack.h on either side.
func TestDLPackHeader(t *testing.T) {
	dir := library(t)
	for _, language := range []string{"c", "c++"} {
		for _, order := range []string{"-DDLPACK_ALONE", "-DDLPACK_BEFORE", "-DDLPACK_AFTER"} {
			t.Run(language+order, func(t *testing.T) {
				t.Parallel()
				runProgram(t, nil, compile(t, dir, language, "c/dlpack.c", order))
			})
		}
	}
}

// TestEnvironment sets the variables that the library reads when it is used first.
func TestEnvironment(t *testing.T) {
	dir := library(t)
	program := compile(t, dir, "c", "c/families.c")
	out := runProgram(t, []string{"ISOBIT_VERBOSE=1", "ISOBIT_ROWS=go"}, program, "cases.txt")
	if !strings.Contains(out, "select \"quantize_per_tensor ") || regexp.MustCompile(`select .* row=avx`).MatchString(out) {
		t.Errorf("verbose output with only the go rows:\n%s", out)
	}
	const unknown = "ISOBIT_ROWS=abacus"
	for _, line := range [][]string{append([]string{"env", unknown}, emulated(program, "cases.txt")...), emulated(program, "cases.txt", unknown)} {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(os.Environ(), "ISOBIT_VERBOSE=0")
		text, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(text), `ISOBIT_ROWS is "abacus"; want one of go, avx2, avx512`) ||
			strings.Contains(string(text), "select ") {
			t.Errorf("%q gave %v:\n%s", line, err, text)
		}
	}
}

// TestLibraryFile reads the library as the dynamic linker does.
func TestLibraryFile(t *testing.T) {
	dir := library(t)
	f, err := elf.Open(filepath.Join(dir, "libisobit.so.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	header, err := os.ReadFile("../include/isobit.h")
	if err != nil {
		t.Fatal(err)
	}
	var declared, exported []string
	for _, m := range regexp.MustCompile(`(?m)^ISOBIT_API [^(]*?(isobit_\w+)\(`).FindAllSubmatch(header, -1) {
		declared = append(declared, string(m[1]))
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		// The version's own name is a symbol too, without a section; on arm64 sections are.
		if s.Section != elf.SHN_UNDEF && s.Section != elf.SHN_ABS && elf.ST_TYPE(s.Info) != elf.STT_SECTION {
			exported = append(exported, s.Name)
		}
	}
	slices.Sort(declared)
	slices.Sort(exported)
	if len(declared) < 12 || !slices.Equal(declared, exported) {
		t.Errorf("exported:\n%v\ndeclared in isobit.h:\n%v", exported, declared)
	}

	soname, _ := f.DynString(elf.DT_SONAME)
	if !slices.Equal(soname, []string{"libisobit.so.1"}) {
		t.Errorf("SONAME is %v", soname)
	}
	needed, _ := f.ImportedLibraries()
	for _, name := range needed {
		if !regexp.MustCompile(`^(libc|libpthread|libdl|libm|ld-linux.*)\.so\.\d+$`).MatchString(name) {
			t.Errorf("needs %s", name)
		}
	}
	flags, _ := f.DynValue(elf.DT_FLAGS)
	textrel, _ := f.DynValue(elf.DT_TEXTREL)
	if len(textrel) > 0 || len(flags) > 0 && elf.DynFlag(flags[0])&elf.DF_TEXTREL != 0 {
		t.Error("the library has text relocations")
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if v, _ := f.DynString(tag); len(v) > 0 {
			t.Errorf("%v is %v", tag, v)
		}
	}
}
