package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The files in cpu are what the generator writes, and there are no others.
func TestFilesAreCurrent(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("cpu/%s is not what the generator writes; run ./build.sh gen (%v)", name, err)
		}
	}
	onDisk, err := filepath.Glob(filepath.Join(folder, "z_*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range onDisk {
		if _, ok := files[filepath.Base(path)]; !ok {
			t.Errorf("cpu/%s is not generated any more; remove it", filepath.Base(path))
		}
	}
}
