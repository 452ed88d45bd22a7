// Package serving is what the examples' servers in Go share: reading
// safetensors files, running problems, and the report. An error ends the program.
package serving

import (
	"crypto/sha256"
	"fmt"
	"log"
	"os"

	"github.com/isobit-ml/isobit/autodiff"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Must returns v, or ends the program with the error.
func Must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// Run selects the plan for a problem and runs it on tensors.
func Run(problem string, args ...tensor.View) {
	plan := Must(plans.Select(0, Must(plans.Parse(problem)), plans.Preference{}))
	if err := plan.Run(0, make([]byte, plan.WorkspaceSize()), args); err != nil {
		log.Fatal(err)
	}
}

// Relu sets the negative elements of x to 0.
func Relu(x tensor.View) {
	values := tensor.Slice[float32](x)
	for i, v := range values {
		values[i] = max(v, 0)
	}
}

// Report prints what a server is asked for: which part of the answers is right, and the digest of the logits.
func Report(accuracy float64, logits tensor.View) {
	fmt.Printf("accuracy %.4f\n", accuracy)
	fmt.Printf("sha256 %x\n", sha256.Sum256(tensor.LittleEndian(logits)))
}

// Files opens the two files that the command line names.
func Files() (model, heldOut File) {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: serve model.safetensors held_out.safetensors")
	}
	return Open(os.Args[1]), Open(os.Args[2])
}

// File has the tensors of a safetensors file by name.
type File map[string]tensor.View

// Open reads a file.
func Open(path string) File {
	tensors, _, err := autodiff.LoadSafetensors(path)
	f := File{}
	for _, t := range Must(tensors, err) {
		f[t.Name] = t.View
	}
	return f
}

// Get returns a tensor that has this type and number of dimensions.
func (f File) Get(name string, dtype tensor.DType, dims int) tensor.View {
	v, ok := f[name]
	if !ok || v.DType != dtype || len(v.Shape) != dims {
		log.Fatalf("want a tensor %s of %v with %d dimensions", name, dtype, dims)
	}
	return v
}
