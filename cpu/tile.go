package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

const (
	// TileSize is how many elements' parameters a Scratch holds, one for each.
	// They stay in the first level of caches beside the elements.
	TileSize = 2048
	// TileRun is the most elements in a row that share a parameter.
	TileRun = 1024
	// tileSlack is how far an expansion may write too much, before and after.
	tileSlack = TileRun + 16
)

// ParamTile has scales and zero points for consecutive elements, one for each,
// as loadParams makes them. A parameter of several elements is loaded once and
// repeated. So one call of a kernel takes many short groups.
type ParamTile struct {
	memory [2][tileSlack + TileSize + tileSlack + streamAlignment/8]float64
	loaded [TileSize]float64
}

// ParamKernels fill tiles.
type ParamKernels struct {
	// load is loadParams of n parameters.
	load func(v unsafe.Pointer, n int, s Span, zeroPoints bool, lo, hi float64)
	// expand fills dst with each of count elements of src, run times. It may
	// write tileSlack elements more.
	expand func(dst, src unsafe.Pointer, count, run int)
}

// ParamRows are the ways to fill them.
var ParamRows = withDefinition(paramRows, byCompute(
	ParamKernels{loadGo[float32], expandGo[float32]}, ParamKernels{loadGo[float64], expandGo[float64]},
))

func loadGo[C Compute](v unsafe.Pointer, n int, s Span, zeroPoints bool, lo, hi float64) {
	loadParams(unsafe.Slice((*C)(v), n), s, zeroPoints, lo, hi)
}

func expandGo[C Compute](dst, src unsafe.Pointer, count, run int) {
	to := unsafe.Slice((*C)(dst), count*run)
	for i, v := range unsafe.Slice((*C)(src), count) {
		part := to[i*run:][:run]
		for j := range part {
			part[j] = v
		}
	}
}

// at returns where the parameters of an element lie, those of the first at a multiple of
// a register; parameter is 0 for scales, 1 for zero points.
func (t *ParamTile) at(parameter, element int, compute tensor.DType) unsafe.Pointer {
	p := unsafe.Pointer(&t.memory[parameter])
	return unsafe.Add(p, int(-uintptr(p)%streamAlignment)+(tileSlack+element)*int(compute.Size()))
}

// ParamRuns are Count parameters, each for a run of elements, of which the first run begins
// with element At: it may begin before a tile, and the last one end after it.
type ParamRuns struct {
	Of             Span
	At, Count, Run int
}

// Add fills in some elements' parameters, as the call with the given arguments takes them.
func (t *ParamTile) Add(a *Args, parameter int, p ParamRuns, compute tensor.DType, by *ParamKernels) {
	to := t.at(parameter, p.At, compute)
	from := unsafe.Pointer(&t.loaded)
	if p.Run == 1 {
		from = to
	}
	by.load(from, p.Count, p.Of, parameter == 1, a.Lo, a.Hi)
	if p.Run > 1 {
		by.expand(to, from, p.Count, p.Run)
	}
}

// Repeat copies the parameters of the first n elements behind them, so that
// there are copies of them in all.
func (t *ParamTile) Repeat(parameter, n, copies int, compute tensor.DType) {
	size := int(compute.Size())
	RepeatFirst(unsafe.Slice((*byte)(t.at(parameter, 0, compute)), n*copies*size), n*size)
}

// Span returns the parameters: one for each element, or the first for all.
func (t *ParamTile) Span(parameter int, each bool, compute tensor.DType) Span {
	s := Span{P: t.at(parameter, 0, compute), DType: compute}
	if each {
		s.Stride = compute.Size()
	}
	return s
}
