package autodiff

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// SaveSafetensors writes a file, whole or not at all: a file of that name is there, as it
// was, until the new one takes its place.
func SaveSafetensors(path string, tensors []NamedView, metadata map[string]string) error {
	err := replaceFile(path, func(w io.Writer) error { return WriteSafetensors(w, tensors, metadata) })
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// replaceFile writes a file beside the one of a path, with its permissions, and renames
// it. What is no plain file, such as a pipe, is written to.
func replaceFile(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = target
	}
	old, err := os.Stat(path)
	exists := err == nil
	if exists && !old.Mode().IsRegular() {
		return writeTo(path, os.O_WRONLY, write)
	}
	part := filepath.Join(filepath.Dir(path), fmt.Sprintf(".saving-%x", rand.Uint64()))
	err = writeTo(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, write)
	if err == nil && exists {
		err = os.Chmod(part, old.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
	}
	return err
}

// writeTo writes to a file; a new one is on the disk afterwards.
func writeTo(path string, flag int, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil && flag&os.O_CREATE != 0 {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
