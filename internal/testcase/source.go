// Package testcase draws problems with their tensors, lays the tensors out in
// memory, runs them and compares the results. Table has one entry per op, and
// every mode of testing ranges over it: a new op stands there, and is tested
// in every mode.
package testcase

import (
	"math"
	"math/rand/v2"

	"github.com/isobit-ml/isobit/tensor"
)

// Size is how large drawn tensors are.
type Size int

// The sizes.
const (
	Small Size = iota // up to some thousand elements, widths around those of vectors
	Edge              // extents of 0, 1 and 2
	Wide              // many groups of many elements, side by side or one after the other
	Large             // enough for several jobs and for several blocks of a sum
)

// LargeElements is about how many elements a Large tensor has.
const LargeElements = 140_000

// Source is what a case's choices come from.
type Source struct {
	*rand.Rand
	Size Size
	// Finite leaves out infinities, NaN and what makes them: one of them decides
	// a sum alone, whatever becomes of the rest.
	Finite bool
}

// NewSource returns the source of a seed, every other one finite.
func NewSource(seed uint64, size Size) *Source {
	r := rand.New(rand.NewPCG(seed, 0))
	return &Source{r, size, r.IntN(2) == 0}
}

// oneOf draws an element of a list.
func oneOf[T any](s *Source, list ...T) T { return list[s.IntN(len(list))] }

// widths are extents around the widths of vectors and blocks.
var widths = []int64{7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 257, 300}

func (s *Source) extent() int64 {
	if s.Size == Edge {
		return oneOf[int64](s, 0, 1, 1, 2)
	}
	return 1 + s.Int64N(4)
}

// width draws the extent of a dimension that kernels run along.
func (s *Source) width() int64 {
	if s.Size == Edge {
		return s.extent()
	}
	return oneOf(s, widths...)
}

// shape draws a shape of a rank. A Large one has most of its elements along
// one dimension, which may be any, or along two.
func (s *Source) shape(rank int) []int64 {
	shape := make([]int64, rank)
	for i := range shape {
		if shape[i] = s.extent(); rank > 4 {
			shape[i] = min(shape[i], 2)
		}
	}
	switch {
	case rank == 0:
	case s.Size == Wide:
		shape[rank-1], shape[max(0, rank-2)] = s.width(), oneOf[int64](s, 16, 17, 40, 70)
	case s.Size == Large:
		i := s.IntN(rank)
		if j := s.IntN(rank); j != i && s.IntN(2) == 0 {
			shape[j] = s.width()
		}
		shape[i] = LargeElements*shape[i]/tensor.NumElements(shape) + s.Int64N(7)
	case s.IntN(2) == 0:
		shape[oneOf(s, rank-1, s.IntN(rank))] = s.width()
	}
	return shape
}

// rank draws a number of dimensions from low on; now and then the largest.
func (s *Source) rank(low int) int {
	switch s.Size {
	case Wide:
		return 2 + s.IntN(2)
	case Large:
		return 1 + s.IntN(4)
	}
	if s.IntN(8) == 0 {
		return tensor.MaxRank
	}
	return low + s.IntN(5-low)
}

var floatTypes = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}

func (s *Source) float() tensor.DType { return oneOf(s, floatTypes...) }

// specials are where rounding, classes and conversions turn.
var specials = []float64{
	0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
	math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat32, -1e-40, 6e-8,
	65504, 65520, math.MaxFloat32, -math.MaxFloat64, 1 << 23, 1<<23 + 0.5, -1 << 31,
}

// number draws a value: now and then a special one, often a half or a whole
// number, so that ties and exact results occur.
func (s *Source) number() float64 {
	switch special := s.IntN(16); {
	case special == 0 && s.Finite:
		return oneOf(s, 0, math.Copysign(0, -1), math.SmallestNonzeroFloat32, -1e-40, 6e-8)
	case special == 0:
		return oneOf(s, specials...)
	case special < 5:
		return float64(s.IntN(41)-20) / 2
	}
	return s.NormFloat64() * math.Ldexp(1, s.IntN(9)-4)
}
