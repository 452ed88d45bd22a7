package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"
)

// featureSet is what some kernels may be made of beyond amd64 itself: package cpu asks
// the processor for it by a function made of the same list.
type featureSet struct {
	name     string   // the function is has and this
	part     string   // of the kernels' names
	features []string // as avo names them
}

var (
	amd64Features  = []string{"CMOV", "CPUID", "MMX+", "SSE", "SSE2"}
	avx2Features   = []string{"AVX", "AVX2", "BMI2", "F16C", "FMA3"}
	avx512Features = append(slices.Clip(avx2Features), "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL")

	// A kernel has the first set whose part is in its name.
	featureSets = []featureSet{
		{"VNNI", "VNNI", append(slices.Clip(avx512Features), "AVX512VNNI")},
		{"BF16", "Dots", append(slices.Clip(avx512Features), "AVX512BF16")},
		{"AVX512", "AVX512", avx512Features},
		{"AVX2", "", avx2Features},
	}
)

// checkFeatures makes sure that a kernel uses instructions and registers of its set only.
func checkFeatures(f *ir.Function) error {
	at := slices.IndexFunc(featureSets, func(s featureSet) bool { return strings.Contains(f.Name, s.part) })
	set := featureSets[at]
	has := append(slices.Clip(set.features), amd64Features...)
	wide := slices.Contains(has, "AVX512VL")
	for _, i := range f.Instructions() {
		for _, needed := range i.ISA {
			if !slices.Contains(has, needed) {
				return fmt.Errorf("%s: %s takes %s, which kernels of %s may not", f.Name, i.Opcode, needed, set.name)
			}
		}
		for _, r := range i.Registers() {
			if p, ok := r.(reg.Physical); ok && !wide && r.Kind() == reg.KindVector && p.PhysicalIndex() >= 16 {
				return fmt.Errorf("%s: %s takes AVX-512, which kernels of %s may not", f.Name, p.Asm(), set.name)
			}
		}
	}
	return nil
}

// featuresFile has the functions that ask for the sets.
func featuresFile() ([]byte, error) {
	var b strings.Builder
	b.WriteString(header + "package cpu\n\nimport \"golang.org/x/sys/cpu\"\n")
	for _, s := range featureSets {
		var asked []string
		for _, name := range s.features {
			asked = append(asked, "x.Has"+strings.TrimSuffix(name, "3")) // of FMA3
		}
		fmt.Fprintf(&b, "\n// has%s reports whether the processor has what kernels of %[1]s are made of.\nfunc has%[1]s() bool {\nx := &cpu.X86\nreturn %s\n}\n",
			s.name, strings.Join(asked, " &&\n"))
	}
	return format.Source([]byte(b.String()))
}
