package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// prefix installs the library, with a program to build beside it.
func prefix(t *testing.T) (root, version string) {
	t.Helper()
	root = t.TempDir()
	run(t, nil, "sh", "../capi/install.sh", root, filepath.Join(library(t), "libisobit.so.1"))
	for from, to := range map[string]string{"cpp/testing.hpp": "testing.hpp", "cpp/wrapper.cpp": "main.cpp", "cpp/CMakeLists.txt": "CMakeLists.txt"} {
		run(t, nil, "cp", from, filepath.Join(root, to))
	}
	header, err := os.ReadFile(filepath.Join(root, "include/isobit.h"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(regexp.MustCompile(`#define ISOBIT_VERSION "(.*)"`).FindSubmatch(header)[1])
}

func TestCMake(t *testing.T) {
	if _, err := exec.LookPath("cmake"); err != nil {
		t.Skip("cmake is missing")
	}
	root, version := prefix(t)
	build := filepath.Join(root, "build")
	run(t, nil, "cmake", "-S", root, "-B", build, "-DCMAKE_PREFIX_PATH="+root, "-DWANT="+version)
	run(t, nil, "cmake", "--build", build)
	run(t, nil, filepath.Join(build, "consumer"))
	serves := func(want string, served bool) {
		out, err := exec.Command("cmake", "-S", root, "-B", build, "-DCMAKE_PREFIX_PATH="+root, "-DWANT="+want).CombinedOutput()
		if (err == nil) != served {
			t.Errorf("find_package(isobit %s): %v; want it served: %v\n%s", want, err, served, out)
		}
	}
	for want, served := range map[string]bool{
		"0.999": false, "999.0": false,
		version + ";COMPONENTS;core": false, version + ";OPTIONAL_COMPONENTS;core": true,
		"0.0.1..." + version: true, "0.0.1...<" + version: false, "0.0.1...0.0.2": false, version + "...<0.999": true,
	} {
		serves(want, served)
	}
	// Nor does it serve 32 bits; before a project says which there are, it serves all.
	for bytes, unsuitable := range map[string]string{"4": "TRUE", "8": "", "": ""} {
		script := filepath.Join(root, "bits.cmake")
		text := "set(CMAKE_SIZEOF_VOID_P \"" + bytes + "\")\ninclude(${CMAKE_CURRENT_LIST_DIR}/lib/cmake/isobit/isobitConfigVersion.cmake)\n" +
			"if(NOT \"${PACKAGE_VERSION_UNSUITABLE}\" STREQUAL \"" + unsuitable + "\")\n  message(FATAL_ERROR \"${PACKAGE_VERSION_UNSUITABLE}\")\nendif()\n"
		if err := os.WriteFile(script, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		run(t, nil, "cmake", "-P", script)
	}
	// A later major version serves none of the programs written for 0.
	header := filepath.Join(root, "include/isobit.h")
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `ISOBIT_VERSION "`+version, `ISOBIT_VERSION "1.0.0`, 1))
	if err := os.WriteFile(header, text, 0o666); err != nil {
		t.Fatal(err)
	}
	for want, served := range map[string]bool{"0.1": false, "1.0": true, "1.1": false} {
		serves(want, served)
	}
}

func TestPkgConfig(t *testing.T) {
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("pkg-config is missing")
	}
	root, version := prefix(t)
	env := []string{"PKG_CONFIG_PATH=" + filepath.Join(root, "lib/pkgconfig")}
	if got := strings.TrimSpace(run(t, env, "pkg-config", "--modversion", "isobit")); got != version {
		t.Errorf("version %s, want %s", got, version)
	}
	flags := strings.Fields(run(t, env, "pkg-config", "--cflags", "--libs", "isobit"))
	program := filepath.Join(root, "program")
	args := append([]string{"-std=c++17", filepath.Join(root, "main.cpp"), "-o", program, "-pthread"}, flags...)
	run(t, nil, compiler("CXX", "c++"), args...)
	run(t, nil, program)
}
