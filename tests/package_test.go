package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// prefix lays the library, headers and package files out as a wheel does.
func prefix(t *testing.T) (root, version string) {
	t.Helper()
	dir := library(t)
	header, err := os.ReadFile("../include/isobit.h")
	if err != nil {
		t.Fatal(err)
	}
	version = string(regexp.MustCompile(`#define ISOBIT_VERSION "(.*)"`).FindSubmatch(header)[1])
	root = t.TempDir()
	for from, to := range map[string]string{
		filepath.Join(dir, "libisobit.so.1"):        "lib/libisobit.so.1",
		"../include/isobit.h":                       "include/isobit.h",
		"../include/isobit.hpp":                     "include/isobit.hpp",
		"../capi/package/isobitConfig.cmake":        "lib/cmake/isobit/isobitConfig.cmake",
		"../capi/package/isobitConfigVersion.cmake": "lib/cmake/isobit/isobitConfigVersion.cmake",
		"../capi/package/isobit.pc.in":              "lib/pkgconfig/isobit.pc",
		"cpp/testing.hpp":                           "testing.hpp",
		"cpp/wrapper.cpp":                           "main.cpp",
		"cpp/CMakeLists.txt":                        "CMakeLists.txt",
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(from, ".in") {
			data = []byte(strings.ReplaceAll(string(data), "@VERSION@", version))
		}
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root, version
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
