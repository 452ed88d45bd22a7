package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
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
