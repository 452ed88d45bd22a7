package autodiff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// SaveSafetensors writes a file, whole or not at all: a file of that name is there, as it
// was, until the new one takes its place.
func SaveSafetensors(path string, tensors []NamedView, metadata map[string]string) error {
	err := replaceFile(path, func(w io.Writer) error { return WriteSafetensors(w, tensors, metadata) })
	var at *fs.PathError
	if errors.As(err, &at) { // the file beside it is nobody else's business
		err = fmt.Errorf("%s: %w", at.Op, at.Err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// replaceFile writes a file beside the one of a path, with its permissions, and renames
// it. A link stays one, and what is no plain file, such as a pipe, is written to.
func replaceFile(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if target, err := os.Readlink(path); err == nil { // to a file that there is not yet
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			return replaceFile(target, write)
		}
	}
	exists, perm := err == nil, fs.FileMode(0o644)
	switch {
	case !exists && !errors.Is(err, fs.ErrNotExist):
		return err
	case exists && !old.Mode().IsRegular():
		return writeTo(path, os.O_WRONLY, 0, write)
	case exists:
		perm = old.Mode().Perm() // from the first byte on
	}
	part := filepath.Join(filepath.Dir(path), fmt.Sprintf(".saving-%x", rand.Uint64()))
	err = writeTo(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm, write)
	if err == nil && exists {
		err = os.Chmod(part, perm) // also what the umask takes
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
func writeTo(path string, flag int, perm fs.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, flag, perm)
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
