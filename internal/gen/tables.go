package main

import (
	"fmt"
	"go/format"
	"strings"
)

// kernelTable is a list in cpu of units' kernels, an entry for each instruction set and
// type. What stands in entries for what differs is said at replacer.
type kernelTable struct {
	name, of string
	types    []string
	entry    string
	also     map[string]string // further fields, by type
}

var (
	floatTypes = []string{"F32", "F64", "BF16", "F16"}
	elementOf  = map[string]struct {
		bits, computed int
		read           string
	}{"F32": {32, 4, "F32"}, "F64": {64, 8, "F64"}, "BF16": {16, 4, "H16"}, "F16": {16, 4, "H16"}}
)

// fields gives some types the same fields.
func fields(text string, types ...string) map[string]string {
	all := map[string]string{}
	for _, t := range types {
		all[t] = text
	}
	return all
}

var kernelTables = []kernelTable{
	{"affineKernels", "affineKernel", floatTypes, `needs: {I}, dtype: tensor.{T},
		grid: [2]affineGridKernel{affineGrid2{K}, affineGrid3{K}},
		sums: [2]affineSumsKernel{affineSums2{K}, affineSums3{K}},`,
		fields("spread: [2]affineSpreadKernel{affineSpread2{K}, affineSpread3{K}},", "F32", "F64")},
	// Images of f64 have gathers alone.
	{"gridKernels", "gridKernel", floatTypes, `needs: {I}, dtype: tensor.{T},`, fields(`lanes: {L},
		locate: gridLocate{I}, sample: gridSample{H}, terms: gridTerms{H}, combine: gridCombine{I},
		double: gridDouble{H}, bend: gridBend{I}, transpose: transposeTile{K}, transpose32: transposeTile{I}F32,
		slopes: [2]rowTermsKernel{rowTerms2{K}, rowTerms3{K}},`, "F32", "BF16", "F16")},
	{"gatherTypes", "gatherType", floatTypes, `needs: {I}, dtype: tensor.{T},
		sample: gatherSample{H}, copy: gatherCopy{B}{I},
		terms: [2]gridTerms{gatherTerms2{H}, gatherTerms3{H}},
		bends: [2]gridTerms{gatherBends2{H}, gatherBends3{H}},
		shift: [2]tangentKernel{gatherShift2{H}, gatherShift3{H}},
		near: gatherShiftNearest{H},
		cubic: [2]cubicType{{gridCubicSample2{H}, gridCubicTerms2{H}}, {gridCubicSample3{H}, gridCubicTerms3{H}}},`,
		fields("widen: widenRow{K}, narrow: narrowRow{K},", "BF16", "F16")},
	{"gatherCells", "gatherCell", floatTypes[:2], `needs: {I}, compute: tensor.{T}, lanes: {L},
		split: [2]gridSplit{gatherSplit2{K}, gatherSplit3{K}},
		join: gatherJoin{K},
		locate: [2]cellKernel{gatherLocate2{K}, gatherLocate3{K}},
		nearest: [2]cellKernel{gatherNearest2{K}, gatherNearest3{K}},
		combine: [2]cellKernel{gatherCombine2{K}, gatherCombine3{K}},
		bend: [2]cellKernel{gatherBend2{K}, gatherBend3{K}},
		weights: [2]cellKernel{gatherWeights2{K}, gatherWeights3{K}},
		cubic: [2]cubicCell{
			{gridCubicLocate2{K}, gridCubicCombine2{K}, gridCubicPixels2{K}},
			{gridCubicLocate3{K}, gridCubicCombine3{K}, gridCubicPixels3{K}},
		},
		band: gatherBand{I},
		add: [5]tapAdd{gridTapAdd1{T}, gridTapAdd4{T}, gridTapAdd8{T}, gridTapAdd12{T}, gridTapAdd16{K}},
		addFew: [3]fewAdd{gridFewAdd1{T}, gridFewAdd4{T}, gridFewAdd8{T}},
		few: [maxQuad]nearestAdd{gridNearestAdd1{T}, gridNearestAdd2{T}, gridNearestAdd3{T}, gridNearestAdd4{T}},`, nil},
	{"framedKernels", "framedKernel", floatTypes[:1], `needs: {I},
		locate: gridFramedLocate{I}, sample: gridFramedSample{I}, slope: gridFramedSlope{I},`, nil},
	{"rowSums", "rowSum", floatTypes, `needs: {I}, in: tensor.{T}, out: tensor.{T}, least: {1}, run: sumRows{K}, chosen: sumChosen{K},`, nil},
	{"bagMaxima", "bagMax", floatTypes, `needs: {I}, dtype: tensor.{T}, run: bagMax{K},`, nil},
	{"pairKernels", "pairKernel", []string{"F32", "BF16", "F16"}, `needs: {I}, dtype: tensor.{T}, run: pairProducts{K},`, nil},
	{"rowDivisions", "rowDivision", floatTypes, `needs: {I}, dtype: tensor.{T}, run: divideRow{K},`, nil},
	{"normKernels", "normKernel", floatTypes, `needs: {I}, dtype: tensor.{T},
		abs: rowAbs{K}, square: rowSquare{K}, largest: rowLargest{K}, scale: rowScale{K},`,
		fields("cube: rowCube{K},", "F32", "BF16", "F16")},
	{"matmulKernels", "matmulFunctions", floatTypes, `needs: {I}, other: tensor.{T}, lanes: {L},
		whole: matmul{K}, half: matmulHalf{K}, wide: matmulWide{K},
		transposed: matmulTransposed{K}, transposedWide: matmulTransposedWide{K}, transpose: transposeTile{K},`, nil},
	{"groupExtremeKernels", "groupExtremeKernel", floatTypes, `needs: {I}, dtype: tensor.{T}, least: {1}, run: groupExtremes{K},`, nil},
	{"matmulBatches", "matmulBatchKernel", floatTypes[:2], `needs: {I}, compute: tensor.{T}, lanes: {L}, run: matmulBatch{K},`, nil},
}

// replacer fills in an entry: {I} is the instruction set, {T} the type and {K} both; {H} is {K} where types of 16
// bits have kernels in common; {B} are the bits of {T}, {L} how many elements of its compute type a register
// holds; {1} is how many elements a kernel takes at least, where there are no masks.
func replacer(isa *isa, name string) *strings.Replacer {
	e := elementOf[name]
	lanes := isa.bytes / e.computed
	return strings.NewReplacer("{I}", isa.name, "{T}", name, "{K}", isa.name+name, "{H}", isa.name+e.read,
		"{B}", fmt.Sprint(e.bits), "{L}", fmt.Sprint(lanes), "{1}", fmt.Sprint(either(isa.masks, 1, lanes)))
}

// tablesFile returns the file of all tables.
func tablesFile() ([]byte, error) {
	var b strings.Builder
	b.WriteString(header + "package cpu\n\nimport \"github.com/isobit-ml/isobit/tensor\"\n")
	for _, t := range kernelTables {
		fmt.Fprintf(&b, "\nvar %s = []%s{\n", t.name, t.of)
		for _, isa := range isas {
			for _, name := range t.types {
				fmt.Fprintf(&b, "{\n%s\n},\n", replacer(isa, name).Replace(t.entry+"\n"+t.also[name]))
			}
		}
		b.WriteString("}\n")
	}
	return format.Source([]byte(b.String()))
}
