package tests

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

const module = "github.com/isobit-ml/isobit"

// walk calls f with the path, from the root, of every file that is not hidden
// or built.
func walk(t *testing.T, f func(path string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skip := p != "." && strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"build", "dist", "out", "lib", "node_modules", "testdata"}, d.Name())
		switch {
		case d.IsDir() && skip:
			return fs.SkipDir
		case !d.IsDir():
			f(p)
		}
		return nil
	})
	require.NoError(t, err)
}

func readRoot(t *testing.T, p string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(p)))
	require.NoError(t, err)
	return string(data)
}

// importTable reads DESIGN.md's table of folders: what each may import. A
// folder that may import anything has nil.
func importTable(t *testing.T) map[string][]string {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)/` \\| .* \\| (.*?) ?\\|$")
	table := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(readRoot(t, "DESIGN.md"), -1) {
		switch m[2] {
		case "", "anything":
			table[m[1]] = nil
		case "nothing of ours":
			table[m[1]] = []string{}
		default:
			table[m[1]] = strings.Split(m[2], ", ")
		}
	}
	require.Greater(t, len(table), 8, "DESIGN.md has its table of folders")
	return table
}

// folderOf returns the longest folder of the table that a path lies in.
func folderOf(table map[string][]string, p string) (folder string) {
	for f := range table {
		if (p == f || strings.HasPrefix(p, f+"/")) && len(f) > len(folder) {
			folder = f
		}
	}
	return folder
}

// imports calls f with every import of every Go file.
func imports(t *testing.T, f func(file, name string)) {
	t.Helper()
	walk(t, func(p string) {
		if !strings.HasSuffix(p, ".go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), "", readRoot(t, p), parser.ImportsOnly)
		require.NoError(t, err, p)
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			f(p, name)
		}
	})
}

// Packages import what DESIGN.md's table says, and cgo is where it says.
func TestImports(t *testing.T) {
	table := importTable(t)
	seen := map[string]bool{}
	imports(t, func(file, name string) {
		folder := folderOf(table, file)
		require.NotEmpty(t, folder, "%s is in no folder of DESIGN.md's table", file)
		seen[folder] = true
		if name == "C" {
			require.Contains(t, []string{"capi", "cuda"}, folder, "%s uses cgo", file)
		}
		ours, isOurs := strings.CutPrefix(name, module+"/")
		if !isOurs || table[folder] == nil || strings.HasSuffix(file, "_test.go") {
			return
		}
		if from := folderOf(table, ours); from != folder {
			require.Contains(t, table[folder], from, "%s imports %s", file, ours)
		}
	})
	for _, folder := range []string{"tensor", "cpu", "plans", "capi"} {
		require.True(t, seen[folder], folder)
	}
}

// What is for tests only is imported by tests only.
func TestShippedPackagesImportNoTestHelpers(t *testing.T) {
	imports(t, func(file, name string) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/testcase/") {
			return
		}
		forTests := name == "testing" || strings.Contains(name, "/testify/") || strings.HasSuffix(name, "/internal/testcase")
		require.False(t, forTests, "%s imports %s", file, name)
	})
}

// pages describe a folder each.
var pages = []string{"cpu/README.md", "cuda/README.md", "autodiff/README.md", "internal/gen/README.md", "bench/README.md"}

// Files that the page of a folder names without a path lie below that folder.
func TestPagesNameFilesOfTheirFolder(t *testing.T) {
	below := map[string]bool{}
	walk(t, func(p string) {
		for folder := path.Dir(p); folder != "."; folder = path.Dir(folder) {
			below[folder+" "+path.Base(p)] = true
		}
	})
	name := regexp.MustCompile("`(\\w+\\.(?:go|cuh?|py|sh|c|h|zip|sum))`")
	for _, page := range pages {
		for _, m := range name.FindAllStringSubmatch(readRoot(t, page), -1) {
			require.True(t, below[path.Dir(page)+" "+m[1]], "%s names %s, which is not below its folder", page, m[1])
		}
	}
}

// Paths that the documents name exist; so do names of packages, such as
// plans.Parse.
func TestDocumentsNameWhatExists(t *testing.T) {
	table := importTable(t)
	inFolder := regexp.MustCompile(`(?:^|[\s(` + "`" + `])([\w.-]+(?:/[\w.*-]+)*/[\w.*-]*[\w*]?)`)
	goName := regexp.MustCompile("`(tensor|cpu|plans|autodiff)\\.([A-Z]\\w*)")
	for _, doc := range append([]string{"README.md", "DESIGN.md", "NUMERICS.md", "CHANGELOG.md"}, pages...) {
		text := readRoot(t, doc)
		for _, m := range inFolder.FindAllStringSubmatch(text, -1) {
			name := strings.TrimSuffix(m[1], ".")
			if first, _, _ := strings.Cut(name, "/"); folderOf(table, first) == "" && first != "internal" {
				continue // prose such as "and/or"
			}
			found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(path.Clean(name))))
			require.NoError(t, err)
			require.NotEmpty(t, found, "%s names %s, which does not exist", doc, name)
		}
		for _, m := range goName.FindAllStringSubmatch(text, -1) {
			require.True(t, declares(t, m[1], m[2]), "%s names %s.%s, which does not exist", doc, m[1], m[2])
		}
	}
}

// declares reports whether a package has a top-level name.
func declares(t *testing.T, folder, name string) bool {
	files, err := filepath.Glob("../" + folder + "/*.go")
	require.NoError(t, err)
	top := regexp.MustCompile(`(?m)^(func|type|var|const) ` + name + `\b|^\t` + name + `( |,|$)`)
	return slices.ContainsFunc(files, func(f string) bool {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		return top.Match(data)
	})
}

// The header lists the element types that there are, codes that are packed apart.
func TestHeaderListsTheTypes(t *testing.T) {
	spaces := regexp.MustCompile(`[\s*]+`)
	m := regexp.MustCompile(`dtype has lanes 1: (.*?)\. Codes of 4 bits \((.*?)\)`).FindStringSubmatch(spaces.ReplaceAllString(readRoot(t, "include/isobit.h"), " "))
	require.NotNil(t, m)
	listed := func(list string) []string {
		return regexp.MustCompile(`, | or `).Split(regexp.MustCompile(` \(.*?\)`).ReplaceAllString(list, ""), -1)
	}
	var whole, packed []string
	for d := tensor.F32; int(d) < tensor.Count; d++ {
		if d.Packed() {
			packed = append(packed, d.String())
		} else if d != tensor.Bool { // which no op takes
			whole = append(whole, d.String())
		}
	}
	require.ElementsMatch(t, whole, listed(m[1]))
	require.ElementsMatch(t, packed, listed(m[2]))
}

// Files written by hand stay short enough to read at a sitting; each header is
// one file for programs to copy.
func TestFilesAreShort(t *testing.T) {
	const most = 330
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	walk(t, func(p string) {
		if strings.Contains(p, "include/") || strings.HasPrefix(path.Base(p), "test_") || !slices.Contains([]string{".go", ".s", ".c", ".h", ".py", ".cu", ".cuh"}, path.Ext(p)) || strings.HasSuffix(p, "_test.go") {
			return
		}
		text := []byte(readRoot(t, p))
		if lines := bytes.Count(text, []byte("\n")); lines > most && !generated.Match(text) {
			t.Errorf("%s has %d lines; want at most %d", p, lines, most)
		}
	})
}

// No file is what a compiler made by mistake: everyone who clones gets it.
func TestFilesAreSmall(t *testing.T) {
	const most = 10 << 20
	walk(t, func(p string) {
		info, err := os.Stat(filepath.Join("..", filepath.FromSlash(p)))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(most), p)
	})
}
