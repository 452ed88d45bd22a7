package main

import (
	"bytes"
	"os"
	"path/filepath"
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
