package cpu

import "github.com/isobit-ml/isobit/tensor"

// matmulRun multiplies so many rows of a with a panel of b: y has a row for each,
// whose chains begin with what is there if there are more, and end with bias if
// there is one.
type matmulRun func(a *byte, aRow, rows int, b *byte, bRow, columns, steps int, bias, y *byte, yRow, more int)

// matmulKernel is one, for so many columns of b.
type matmulKernel struct {
	columns int64
	run     matmulRun
}

// matmulPanels are the kernels of panels, of half a panel, or a part of it whose columns
// are a multiple of unit, and of wide ones, if there are any.
type matmulPanels struct {
	whole, half, wide matmulKernel
	wideRows          int64 // of Input that wide ones are for, two at a time
	unit              int64
}

func newMatmulPanels(needs ISA, lanes int64, whole, half matmulRun) matmulPanels {
	p := matmulPanels{whole: matmulKernel{2 * lanes, whole}, half: matmulKernel{lanes, half}, unit: lanes}
	if needs >= AVX512 {
		p.unit = 1 // there are masks
	}
	return p
}

// next returns the kernel for the next of the columns that are left, and so many rows.
func (p *matmulPanels) next(left, rows int64) *matmulKernel {
	switch {
	case left < p.whole.columns:
		return &p.half
	case rows <= p.wideRows && left >= p.wide.columns:
		return &p.wide
	}
	return &p.whole
}

// matmulType has the kernels for a type of b.
type matmulType struct {
	needs ISA
	other tensor.DType
	matmulPanels
	transposed matmulTransposed[matmulTransposedRun]
	transpose  transposeTile
}

// matmulFunctions are what is generated for a type of b.
type matmulFunctions struct {
	needs                      ISA
	other                      tensor.DType
	lanes                      int64
	whole, half, wide          matmulRun
	transposed, transposedWide matmulTransposedRun
	transpose                  transposeTile
}

var matmulTypes = newMatmulTypes()

func newMatmulTypes() (types []matmulType) {
	for _, f := range matmulKernels {
		panels := newMatmulPanels(f.needs, f.lanes, f.whole, f.half)
		panels.wide, panels.wideRows = matmulKernel{4 * f.lanes, f.wide}, 2
		if f.needs >= AVX512 {
			panels.wide.columns, panels.wideRows = 8*f.lanes, 6 // there are registers for them
		}
		t := matmulType{f.needs, f.other, panels, newMatmulTransposed(f.needs, f.lanes, f.transposed, f.transposedWide), f.transpose}
		switch {
		case f.other == tensor.BF16 && f.needs < AVX512: // chains of 16 bits take longer than memory
			t.transposed.farRows = t.transposed.wideRows
		case f.needs < AVX512: // two squares below each other are a line: Zen 3 takes 0.7 of the time that asking in advance does
			t.transposed.farRows = 2
		case f.other == tensor.F16:
			t.transposed.farRows = 1
		}
		types = append(types, t)
	}
	return types
}

func matmulTypeFor(isa ISA, other tensor.DType) *matmulType {
	for i := range matmulTypes {
		if t := &matmulTypes[i]; t.needs == isa && t.other == other {
			return t
		}
	}
	return nil
}
