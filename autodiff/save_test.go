package autodiff

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// A file that was saved before is whole while another is written, and after an error.
func TestSaveReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "net.safetensors")
	one := []NamedView{{"a", tensor.Of([]float32{1, 2})}}
	two := []NamedView{{"a", tensor.Of([]float32{3, 4, 5})}}
	only := func(names ...string) {
		t.Helper()
		all, err := os.ReadDir(dir)
		require.NoError(t, err)
		var got []string
		for _, e := range all {
			got = append(got, e.Name())
		}
		require.Equal(t, names, got)
	}
	read := func(path string) []float32 {
		t.Helper()
		tensors, _, err := LoadSafetensors(path)
		require.NoError(t, err)
		return tensor.Slice[float32](tensors[0].View)
	}
	require.NoError(t, SaveSafetensors(path, one, nil))
	only("net.safetensors")

	// Whoever has the file open has the old one.
	if runtime.GOOS != "windows" {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, os.Chmod(path, 0o622)) // of which the usual umask takes
		require.NoError(t, SaveSafetensors(path, two, nil))
		old, _, err := ReadSafetensors(f)
		require.NoError(t, err)
		require.Equal(t, []float32{1, 2}, tensor.Slice[float32](old[0].View))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o622), info.Mode().Perm())
		require.NoError(t, SaveSafetensors(path, one, nil))

		link := filepath.Join(dir, "latest")
		require.NoError(t, os.Symlink("net.safetensors", link))
		require.NoError(t, SaveSafetensors(link, two, nil))
		require.Equal(t, []float32{3, 4, 5}, read(path))
		require.NoError(t, os.Remove(link))
	}
	if runtime.GOOS == "linux" { // a pipe of the test's own: a device that a mistake replaces is gone for all programs
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, SaveSafetensors(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), two, nil))
		require.NoError(t, w.Close())
		through, _, err := ReadSafetensors(r)
		require.NoError(t, err)
		require.Equal(t, []float32{3, 4, 5}, tensor.Slice[float32](through[0].View))
		require.NoError(t, r.Close())
	}
	require.NoError(t, SaveSafetensors(path, one, nil))

	// Errors leave it as it is, and nothing beside it.
	require.ErrorContains(t, SaveSafetensors(path, append(two, two[0]), nil), path)
	require.Equal(t, []float32{1, 2}, read(path))
	require.Error(t, SaveSafetensors(dir, one, nil))
	require.Error(t, SaveSafetensors(filepath.Join(dir, "missing", "a"), one, nil))
	only("net.safetensors")
	full := func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1000))
		require.NoError(t, err)
		return os.ErrClosed
	}
	require.ErrorIs(t, replaceFile(path, full), os.ErrClosed)
	require.Equal(t, []float32{1, 2}, read(path))
	only("net.safetensors")
}

// What is being saved is no more open to others than the file that it replaces.
func TestSaveKeepsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permissions are not Unix's there")
	}
	path := filepath.Join(t.TempDir(), "net.safetensors")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, replaceFile(path, func(w io.Writer) error {
		info, err := w.(*os.File).Stat()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		return nil
	}))
}

// A link whose file is not there yet, or not any more, stays a link.
func TestSaveThroughEmptyLink(t *testing.T) {
	dir := t.TempDir()
	link, target := filepath.Join(dir, "latest"), filepath.Join(dir, "epoch1")
	if err := os.Symlink("epoch1", link); err != nil {
		t.Skip("no links here: ", err)
	}
	require.NoError(t, SaveSafetensors(link, []NamedView{{"a", tensor.Of([]float32{1})}}, nil))
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "epoch1", to)
	require.FileExists(t, target)
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink("loop", loop))
	require.Error(t, SaveSafetensors(loop, nil, nil))
}

// An error names the path that was asked for, not the file beside it that is written first.
func TestSaveNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nowhere", "x.safetensors")
	err := SaveSafetensors(path, nil, nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Regexp(t, "^"+regexp.QuoteMeta(path)+": open: [^/\\\\]*$", err.Error())
}
