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

// matmulPanels are the kernels of panels, and of half a panel, or a part of it
// whose columns are a multiple of unit.
type matmulPanels struct {
	whole, half matmulKernel
	unit        int64
}

func newMatmulPanels(needs ISA, lanes int64, whole, half matmulRun) matmulPanels {
	p := matmulPanels{matmulKernel{2 * lanes, whole}, matmulKernel{lanes, half}, lanes}
	if needs >= AVX512 {
		p.unit = 1 // there are masks
	}
	return p
}

// next returns the kernel for the next of the columns that are left.
func (p *matmulPanels) next(left int64) *matmulKernel {
	if left < p.whole.columns {
		return &p.half
	}
	return &p.whole
}

// matmulType has the kernels for a type of b.
type matmulType struct {
	needs ISA
	other tensor.DType
	matmulPanels
	turned matmulTurned[matmulTurnedRun]
	turn   turnTile
}

func newMatmulType(needs ISA, other tensor.DType, lanes int64, whole, half matmulRun, turned, turnedWide matmulTurnedRun, turn turnTile) matmulType {
	return matmulType{
		needs, other, newMatmulPanels(needs, lanes, whole, half),
		newMatmulTurned(needs, lanes, turned, turnedWide), turn,
	}
}

func matmulTypeFor(isa ISA, other tensor.DType) *matmulType {
	for i := range matmulTypes {
		if t := &matmulTypes[i]; t.needs == isa && t.other == other {
			return t
		}
	}
	return nil
}
