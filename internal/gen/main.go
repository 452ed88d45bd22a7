// Command gen writes the assembly of package cpu: for each op its kernels on
// every instruction set, and the Go declarations that go with them; and that of
// autodiff's loops. A test compares the files with those on disk.
package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// root is the repository's, from here.
const root = "../.."

func main() {
	files, err := generate()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// copied are the files of which package cpu has a copy: what kernels and those who call them both name.
//
//go:embed grid_planes.go sum_modes.go
var copied embed.FS

// generate returns the text of each file, by its path from the root.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, o := range ops {
		text, err := o.assembly()
		if err != nil {
			return nil, err
		}
		files["cpu/z_"+o.fileName()+"_amd64.s"] = text
		if files["cpu/z_"+o.fileName()+"_amd64.go"], err = o.declarations(); err != nil {
			return nil, err
		}
	}
	for _, u := range append(units, support) {
		if err := u.write(files); err != nil {
			return nil, err
		}
	}
	var err error
	if files["cpu/z_call.go"], err = callFile(); err != nil {
		return nil, err
	}
	if files["cpu/z_tables_amd64.go"], err = tablesFile(); err != nil {
		return nil, err
	}
	if files["cpu/z_features_amd64.go"], err = featuresFile(); err != nil {
		return nil, err
	}
	if files["autodiff/internal/kernel/z_rows_amd64.go"], err = rowsFile(); err != nil {
		return nil, err
	}
	names, err := fs.Glob(copied, "*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := copied.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files["cpu/z_"+name] = []byte(header + strings.Replace(string(text), "package main", "package cpu", 1))
	}
	files["cpu/z_none.go"], err = noneFile()
	return files, err
}
