//go:build cgo && cuda && linux

package cuda

import (
	"reflect"
	"testing"

	"gorgonia.org/cu"
)

// TestHandlesAreOneWord holds what driver_cuda.go converts: cu wraps the
// driver's handles in structs of one pointer.
func TestHandlesAreOneWord(t *testing.T) {
	for _, v := range []any{cu.Function{}, cu.Stream{}} {
		if s := reflect.TypeOf(v); s.Kind() != reflect.Struct || s.NumField() != 1 || s.Field(0).Type.Kind() != reflect.Pointer || s.Size() != 8 {
			t.Errorf("%s is not a struct of one pointer", s)
		}
	}
}

// TestArgumentsFit holds the largest struct of arguments against maxArgWords.
func TestArgumentsFit(t *testing.T) {
	for _, v := range []any{
		mapArgs{}, packedArgs{}, quantSumArgs{}, embeddingArgs{}, renormArgs{}, embeddingBackwardArgs{}, gridSampleArgs{},
		gridGradientArgs{}, inputGradientArgs{}, affineArgs{}, linearArgs{}, weightArgs{}, sortArgs{}, runArgs{}, fillArgs{},
		bagsArgs{}, bagArgs{}, codeBagArgs{}, bagWeightsArgs{}, bagBackwardArgs{}, bagRowsArgs{}, rowsArgs{}, countArgs{}, tileArgs{},
		gridDoubleArgs{}, inputDoubleArgs{}, matmulArgs{},
	} {
		if s := reflect.TypeOf(v); s.Size()%8 != 0 || s.Size()/8 > maxArgWords {
			t.Errorf("%s has %d bytes; want whole words, at most %d", s, s.Size(), maxArgWords)
		}
	}
}
