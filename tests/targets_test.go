package tests

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed is what the go command says of a package, or of its variant for tests.
type listed struct {
	ImportPath, Dir, ForTest string
	GoFiles, SFiles          []string
	ImportMap                map[string]string
	Module                   *struct{ Main bool }
}

// listFor lists packages for a target without cgo, such as windows/386.
func listFor(t *testing.T, target string, args ...string) (all []listed) {
	system, arch, _ := strings.Cut(target, "/")
	args = append(append([]string{"list", "-json=ImportPath,Dir,ForTest,GoFiles,SFiles,ImportMap,Module"}, args...), "./...")
	for list := json.NewDecoder(strings.NewReader(goTool(t, "..", []string{"GOOS=" + system, "GOARCH=" + arch}, args...))); list.More(); {
		var p listed
		require.NoError(t, list.Decode(&p))
		if !strings.HasSuffix(p.ImportPath, ".test") { // the program that runs tests
			all = append(all, p)
		}
	}
	return all
}

// checkedTarget has 32 bits and neither cgo nor assembly.
const checkedTarget = "windows/386"

// Packages and their tests have no errors of types on another target. To compile
// them there would take the standard library with them, whose bodies nobody needs.
func TestTypesElsewhere(t *testing.T) {
	_, arch, _ := strings.Cut(checkedTarget, "/")
	packages := map[string]*types.Package{"unsafe": types.Unsafe}
	ours := 0
	for _, p := range listFor(t, checkedTarget, "-deps", "-test") { // what is imported comes first
		if p.ImportPath == "unsafe" {
			continue
		}
		own := p.Module != nil && p.Module.Main
		set, files := token.NewFileSet(), []*ast.File(nil)
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil && own && p.SFiles == nil {
					t.Errorf("%s: %s has no body", set.Position(f.Pos()), f.Name)
				}
			}
			files = append(files, file)
		}
		config := types.Config{
			Sizes:            types.SizesFor("gc", arch),
			IgnoreFuncBodies: !own,
			Importer: importer(func(path string) (*types.Package, error) {
				if actual, found := p.ImportMap[path]; found {
					path = actual
				}
				return packages[path], nil
			}),
			Error: func(err error) { t.Error(err) },
		}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		packages[p.ImportPath], _ = config.Check(path, set, files, nil)
		if own {
			ours++
		}
	}
	require.Greater(t, ours, 30)
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }

// Every file that other targets have, with assembly or without, this machine or
// the checked target has.
func TestCheckedFiles(t *testing.T) {
	files := func(target string) (all []string) {
		for _, p := range listFor(t, target, "-test") {
			for _, name := range p.GoFiles {
				all = append(all, filepath.Join(p.Dir, name))
			}
		}
		return all
	}
	checked := slices.Concat(files("linux/amd64"), files(checkedTarget))
	require.Greater(t, len(checked), 600)
	for _, target := range []string{"linux/arm64", "darwin/arm64", "windows/amd64", "windows/arm64", "freebsd/riscv64", "js/wasm"} {
		require.Subset(t, checked, files(target), target)
	}
}
