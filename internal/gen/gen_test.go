package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// The files on disk are what the generator writes, and there are no others.
func TestFilesAreCurrent(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes; run ./build.sh gen (%v)", name, err)
		}
	}
	for _, folder := range []string{"cpu", "autodiff/internal/kernel"} {
		onDisk, err := filepath.Glob(filepath.Join(root, folder, "z_*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range onDisk {
			if name := folder + "/" + filepath.Base(path); files[name] == nil {
				t.Errorf("%s is not generated any more; remove it", name)
			}
		}
	}
}

var (
	wideRead = regexp.MustCompile(`(?m)^\t(\S+) .*\bZ\d.*$`)
	spread   = regexp.MustCompile(`BCST|BROADCAST|^VPMOVZXB`)
)

// No instruction reads 64 bytes of a constant: Go's linker aligns them to 32, so that
// bicubic samples took 1.1 times as long where it had put them across two cache lines.
func TestConstantsLieInOneCacheLine(t *testing.T) {
	for _, folder := range []string{"cpu", "autodiff/internal/kernel"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "z_*.s"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range wideRead.FindAllSubmatch(text, -1) {
				if bytes.Contains(m[0], []byte("<>")) && !spread.Match(m[1]) {
					t.Errorf("%s:%s", file, m[0])
				}
			}
		}
	}
}

// A kernel uses nothing that package cpu does not ask the processor for: kernels of
// AVX2 took BZHI, which is BMI2's, of processors that had AVX2, F16C and FMA.
func TestFeaturesAreAskedFor(t *testing.T) {
	vector := func(c *build.Context) { c.VPADDD(reg.Y16, reg.Y1, reg.Y1) }
	for _, kernel := range []struct {
		name string
		emit func(c *build.Context)
		want string
	}{
		{"runAVX2", func(c *build.Context) { c.VPADDD(reg.Y0, reg.Y1, reg.Y1) }, ""},
		{"runAVX2", func(c *build.Context) { c.BZHIQ(reg.RAX, reg.RAX, reg.RAX) }, ""},
		{"runAVX2", func(c *build.Context) { c.ANDNQ(reg.RAX, reg.RAX, reg.RAX) }, "BMI"},
		{"runAVX2", func(c *build.Context) { c.PSHUFB(reg.X0, reg.X0) }, "SSSE3"},
		{"runAVX2", vector, "AVX-512"},
		{"run", vector, "AVX-512"},
		{"runAVX512", vector, ""},
		{"runAVX512", func(c *build.Context) { c.VPERMB(reg.Z0, reg.Z1, reg.Z1) }, "AVX512VBMI"},
		{"runAVX512", func(c *build.Context) { vpdpbusd(c, c.ZMM(), c.ZMM(), c.ZMM()) }, "AVX512VNNI"},
		{"runVNNI", func(c *build.Context) { vpdpbusd(c, c.ZMM(), c.ZMM(), c.ZMM()) }, ""},
		{"runDotsAVX512", func(c *build.Context) { vdpbf16ps(c, c.ZMM(), c.ZMM(), c.ZMM()) }, ""},
		{"runAVX512", func(c *build.Context) { vdpbf16ps(c, c.ZMM(), c.ZMM(), c.ZMM()) }, "AVX512BF16"},
	} {
		c := build.NewContext()
		c.Function(kernel.name)
		kernel.emit(c)
		file, err := c.Result()
		if err != nil {
			t.Fatal(err)
		}
		switch err := checkFeatures(file.Functions()[0]); {
		case err == nil && kernel.want != "", err != nil && (kernel.want == "" || !strings.Contains(err.Error(), " "+kernel.want+",")):
			t.Errorf("%s: %v, want %q", kernel.name, err, kernel.want)
		}
	}
}
