// Package tensor holds what every other package shares: element types, and a
// View of memory that somebody else owns. It computes nothing.
package tensor

import "fmt"

// DType is the storage type of a tensor's elements.
type DType uint8

// The element types. Names follow the width, as in DLPack; None is the zero
// value and stands for an absent tensor.
const (
	None DType = iota
	F32
	F64
	F16
	BF16
	S8
	U8
	I32
	I64
	Bool
	F8E4M3 // the variant without infinities: DLPack's and PyTorch's e4m3fn
	F8E5M2
	S4 // two codes to a byte, the lower half first
	U4
	S16
	U16
)

// Kind says how an element's bits are read. The values are DLPack's type codes.
type Kind uint8

// DLPack's type codes.
const (
	Int      Kind = 0
	Uint     Kind = 1
	Float    Kind = 2
	Bfloat   Kind = 4
	BoolKind Kind = 6
	E4M3fn   Kind = 10
	E5M2     Kind = 12
)

type dtypeInfo struct {
	name     string
	kind     Kind
	bits     uint8
	min, max int64 // the whole numbers that the type holds exactly; of an 8-bit float, all
}

// The one table of element types. Everything that depends on a type is either
// here or in a table of conversions beside its use (cpu/block.go).
var dtypes = [...]dtypeInfo{
	None: {name: "none"},
	F32:  {"f32", Float, 32, -1 << 24, 1 << 24},
	F64:  {"f64", Float, 64, -1 << 53, 1 << 53},
	F16:  {"f16", Float, 16, -1 << 11, 1 << 11},
	BF16: {"bf16", Bfloat, 16, -1 << 8, 1 << 8},
	S8:   {"s8", Int, 8, -1 << 7, 1<<7 - 1},
	U8:   {"u8", Uint, 8, 0, 1<<8 - 1},
	I32:  {"i32", Int, 32, -1 << 31, 1<<31 - 1},
	I64:  {"i64", Int, 64, -1 << 63, 1<<63 - 1},
	Bool: {"bool", BoolKind, 8, 0, 1},

	F8E4M3: {"f8e4m3", E4M3fn, 8, -448, 448},
	F8E5M2: {"f8e5m2", E5M2, 8, -57344, 57344},
	S4:     {"s4", Int, 4, -8, 7},
	U4:     {"u4", Uint, 4, 0, 15},
	S16:    {"s16", Int, 16, -1 << 15, 1<<15 - 1},
	U16:    {"u16", Uint, 16, 0, 1<<16 - 1},
}

// Count is one more than the largest DType: the length of a table by DType.
const Count = len(dtypes)

// String returns the type's name in a problem's text, such as "bf16".
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// info returns d's row of the table: that of None for a number that is no type's.
func (d DType) info() *dtypeInfo {
	if int(d) >= len(dtypes) {
		d = None
	}
	return &dtypes[d]
}

// Size returns the size of one element in bytes; for packed types the size of
// what two elements share.
func (d DType) Size() int64 { return int64(d.info().bits+7) / 8 }

// Packed reports whether two elements share a byte. A packed tensor is passed
// as bytes (u8): its last dimension, of D elements, has ceil(D / 2).
func (d DType) Packed() bool { return d.info().bits == 4 }

// IsFloat reports whether d is f32, f64, f16 or bf16.
func (d DType) IsFloat() bool { return d.info().kind == Float || d.info().kind == Bfloat }

// IsInt reports whether d is a signed or unsigned integer type.
func (d DType) IsInt() bool { i := d.info(); return i.bits > 0 && i.kind <= Uint }

// Compute returns the type that arithmetic on elements of type d is done in.
func (d DType) Compute() DType {
	if d == F64 {
		return F64
	}
	return F32
}

// WholeRange returns the bounds, inclusive, within which every whole number
// is an exact value of the type.
func (d DType) WholeRange() (lo, hi int64) { return d.info().min, d.info().max }

// MaxKind is the largest DLPack type code in use: the bound of a table by code.
const MaxKind = E5M2

// DLPack returns DLPack's type code and width in bits.
func (d DType) DLPack() (code, bits uint8) { return uint8(d.info().kind), d.info().bits }

// FromDLPack returns the type with DLPack's code and width, or None.
func FromDLPack(code, bits uint8) DType {
	for d := F32; int(d) < len(dtypes); d++ {
		if uint8(dtypes[d].kind) == code && dtypes[d].bits == bits {
			return d
		}
	}
	return None
}

// ParseDType returns the type with the given name, or None and false.
func ParseDType(name string) (DType, bool) {
	for d := F32; int(d) < len(dtypes); d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return None, false
}
