package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
)

// structType is a struct of package cpu that kernels read.
type structType struct {
	declaration string
	offsets     map[string]int
}

type field struct{ name, goType, doc string }

// structConstants are what the lengths of fields are made of.
var structConstants = fmt.Sprintf(`// maxRuns is how many runs a kernel handles in one call at most.
const maxRuns = %d

// quickColumns is how many elements columnParams are of.
const quickColumns = %d

`, maxRuns, quickColumns)

// newStruct declares a struct, and has Go's compiler's rules say where its fields are.
func newStruct(name, doc string, fields []field) structType {
	var b strings.Builder
	fmt.Fprintf(&b, "// %s %s\ntype %[1]s struct {\n", name, doc)
	for _, f := range fields {
		fmt.Fprintf(&b, "%s %s", f.name, f.goType)
		if f.doc != "" {
			fmt.Fprintf(&b, " // %s", f.doc)
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n\n")
	s := structType{b.String(), map[string]int{}}

	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, "package cpu\nimport \"unsafe\"\nvar _ unsafe.Pointer\n"+structConstants+s.declaration, 0)
	if err != nil {
		panic(err)
	}
	pkg, err := (&types.Config{Importer: importer.Default()}).Check("cpu", files, []*ast.File{file}, nil)
	if err != nil {
		panic(err)
	}
	made := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
	var vars []*types.Var
	for v := range made.Fields() {
		vars = append(vars, v)
	}
	for i, offset := range types.SizesFor("gc", "amd64").Offsetsof(vars) {
		s.offsets[vars[i].Name()] = int(offset)
	}
	return s
}

// offset is how many bytes a field is from where the struct begins.
func (s structType) offset(field string) int {
	offset, ok := s.offsets[field]
	if !ok {
		panic("no field " + field)
	}
	return offset
}
