//go:build !amd64

package cpu

import "github.com/isobit-ml/isobit/tensor"

// rowSums are the generated sums of rows: none here.
var rowSums []rowSum

var wideners map[tensor.DType]func(to *float32, from *byte, n int)

var copyRows []Row[RowCopy]

func bagMaxBackwardRow(ISA, Types) (none func(*EmbeddingSums), ok bool) { return none, false }
