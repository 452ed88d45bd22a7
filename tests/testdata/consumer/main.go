// Consumer is a program in a module of its own that runs one problem on
// tensors given as text, and prints the SHA-256 of the first output's bytes.
//
//	consumer PROBLEM [TENSOR | none]...     a TENSOR is TYPE:EXTENT,EXTENT:HEX
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

func main() {
	problem, err := plans.Parse(os.Args[1])
	check(err)
	plan, err := plans.Select(0, problem, plans.Preference{})
	check(err)
	var args []tensor.View
	for _, text := range os.Args[2:] {
		args = append(args, read(text))
	}
	inputs := len(args)
	for _, a := range plans.Describe(plan).Args[inputs:] {
		dtype, _ := tensor.ParseDType(a.DType)
		args = append(args, tensor.New(dtype, a.Shape...))
	}
	check(plan.Run(0, make([]byte, plan.WorkspaceSize()), args))
	fmt.Printf("%x\n", sha256.Sum256(tensor.LittleEndian(args[inputs])))
}

func read(text string) tensor.View {
	if text == "none" {
		return tensor.View{}
	}
	parts := strings.Split(text, ":")
	dtype, _ := tensor.ParseDType(parts[0])
	shape := []int64{}
	for _, s := range strings.FieldsFunc(parts[1], func(r rune) bool { return r == ',' }) {
		n, err := strconv.ParseInt(s, 10, 64)
		check(err)
		shape = append(shape, n)
	}
	data, err := hex.DecodeString(parts[2])
	check(err)
	v := tensor.New(dtype, shape...)
	tensor.SetLittleEndian(v, data)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
