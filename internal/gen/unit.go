package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// unit is a file of kernels that are not elementwise: each function emits one.
type unit struct {
	file      string
	functions []func(c *build.Context)
}

// units lists them.
var units = []unit{
	{"quantized_linear", []func(c *build.Context){dotVNNI, dotAVX2}},
	{"embedding", []func(c *build.Context){embeddingSums}},
	{"grid", []func(c *build.Context){gridKernels}},
	{"packed", []func(c *build.Context){packed}},
	{"weight_only_linear", []func(c *build.Context){stripeProducts}},
}

// write adds the unit's assembly and declarations to files.
func (u unit) write(files map[string][]byte) error {
	c := build.NewContext()
	c.ConstraintExpr("amd64")
	for _, f := range u.functions {
		f(c)
	}
	file, err := c.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return fmt.Errorf("%s: %w", u.file, err)
	}
	config := printer.Config{Name: "internal/gen", Pkg: "cpu"}
	if files["z_"+u.file+"_amd64.s"], err = printer.NewGoAsm(config).Print(file); err != nil {
		return err
	}
	files["z_"+u.file+"_amd64.go"], err = printer.NewStubs(config).Print(file)
	return err
}
