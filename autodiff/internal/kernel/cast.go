package kernel

import "github.com/isobit-ml/isobit/tensor"

// castOf names an assembly loop of casts (internal/gen/row_casts.go).
type castOf int

const (
	bf16ToF32 castOf = iota
	f16ToF32
	f64ToF32
	f32ToF64
	f32ToF16
	f32ToBF16
)

// FromBF16 widens.
func FromBF16(z []float32, x []tensor.BF16Bits) { cast(bf16ToF32, z, x, tensor.BF16Bits.Float32) }

// FromF16 widens.
func FromF16(z []float32, x []tensor.F16Bits) { cast(f16ToF32, z, x, tensor.F16Bits.Float32) }

// FromF64 rounds.
func FromF64(z []float32, x []float64) {
	cast(f64ToF32, z, x, func(v float64) float32 { return float32(v) })
}

// ToF64 widens.
func ToF64(z []float64, x []float32) {
	cast(f32ToF64, z, x, func(v float32) float64 { return float64(v) })
}

// ToF16 rounds.
func ToF16(z []tensor.F16Bits, x []float32) { cast(f32ToF16, z, x, tensor.ToF16) }

// ToBF16 rounds.
func ToBF16(z []tensor.BF16Bits, x []float32) { cast(f32ToBF16, z, x, tensor.ToBF16) }

// cast takes the cast of an element for those that assembly leaves.
func cast[X, Z any](of castOf, z []Z, x []X, one func(X) Z) {
	for i := fastCast(of, z, x); i < len(z); i++ {
		z[i] = one(x[i])
	}
}

// Convert casts as Go does.
func Convert[Z, X Number | uint8](z []Z, x []X) {
	for i, v := range x[:len(z)] {
		z[i] = Z(v)
	}
}
