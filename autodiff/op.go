package autodiff

import (
	"fmt"
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

// Op names an operation of a Backend.
type Op uint8

// The operations. Inputs and attributes stand behind the names; a trailing
// question mark is an input that may be absent.
const (
	// Arithmetic, with broadcasting: (x, y).
	OpAdd Op = iota
	OpSub
	OpMul
	OpDiv
	OpMaximum
	OpMinimum
	OpPow
	// Comparisons: (x, y), to bool.
	OpEqual
	OpNotEqual
	OpLess
	OpLessEqual
	OpGreater
	OpGreaterEqual
	// Logic of bools.
	OpAnd
	OpOr
	OpXor
	OpNot
	OpWhere // (condition, x, y)
	// Functions of each element: (x).
	OpNeg
	OpAbs
	OpSign
	OpExp
	OpLog
	OpLog1p
	OpSqrt
	OpSin
	OpCos
	OpTanh
	OpSigmoid
	OpRelu
	OpErf
	OpGelu
	OpSoftplus
	OpFloor
	OpCeil
	OpRound
	OpPowScalar // Floats[0] is the exponent
	OpClamp     // Floats[0], Floats[1]
	OpReluGrad  // (gradient, relu(x)), and so on
	OpTanhGrad
	OpSigmoidGrad
	OpGeluGrad  // (gradient, x)
	OpClampGrad // (gradient, x); Floats
	// Along a dimension: Axis.
	OpSoftmax
	OpLogSoftmax
	OpSoftmaxGrad // (gradient, softmax(x))
	OpLogSoftmaxGrad
	OpNormalize     // along the last dimension; Floats[0] is eps; AroundZero
	OpNormalizeGrad // (gradient, x); likewise
	OpProd          // KeepDim
	OpProdGrad      // (gradient, x); KeepDim as in Prod
	OpMax           // KeepDim; also the positions
	OpMin
	OpArgMax
	OpArgMin
	OpCumSum // FromEnd
	OpSort   // Descending; also the positions
	// Over dimensions: Axes, nil for all; KeepDim.
	OpSum
	OpMean
	// Shapes.
	OpReshape     // Shape, with one -1 for the rest
	OpPermute     // Axes
	OpExpand      // Shape
	OpSlice       // Starts, Steps, Shape
	OpSliceAssign // (x, part); Starts, Steps
	OpCat         // (x, y, ...); Axis
	OpGather      // (x, indices); Axis
	OpScatterAdd  // (x, indices, y); Axis
	OpSelect      // (x, indices); Axis
	OpSelectAdd   // (x, indices, y); Axis
	OpCast        // DType
	// Making tensors: Shape, DType.
	OpFill    // Floats[0]
	OpArange  // Floats: start, step
	OpUniform // Floats: lo, hi; Seed
	OpNormal  // Floats: mean, standard deviation; Seed
	// Networks.
	OpMatMul           // (x, y); TransA, TransB
	OpLinear           // (x, weight, bias?)
	OpConv2d           // (x, weight, bias?); Window
	OpConv2dDX         // (gradient, weight); Window; Shape is x's
	OpConv2dDW         // (gradient, x); Window; Shape is the weight's
	OpMaxPool2d        // Window; also the positions
	OpPoolTake         // (x, positions)
	OpPoolPut          // (gradient, positions); Shape
	OpAvgPool2d        // Window
	OpAvgPoolPut       // (gradient); Window, Shape
	OpCrossEntropy     // (logits, labels); Floats[0] is the smoothing
	OpCrossEntropyGrad // (logits, labels, gradient)
	OpBCEWithLogits    // (logits, target), of each element
	OpBCE              // (probabilities, target), of each element
	OpLSTMGates        // (gates): the sigmoids and the tanh
	OpLSTMGatesGrad    // (gradient, what they are)
	OpLSTMCell         // (gates, c), to the next c
	OpLSTMCellGrad     // (gradient, gates, c), to two gradients
	OpLSTMHidden       // (gates, c), to h
	OpLSTMHiddenGrad   // (gradient, gates, c), to two gradients
	// The plans of this project.
	OpEmbedding            // (weight, indices); PaddingIdx
	OpEmbeddingBackward    // (gradient, indices); Shape is the weight's; PaddingIdx
	OpEmbeddingBag         // (weight, indices, offsets?, per sample weights?); Mode, PaddingIdx, LastOffset; of max also the positions
	OpEmbeddingBagBackward // (gradient, indices, offsets?, per sample weights?, positions?); Shape is the weight's; likewise
	OpEmbeddingBagDFactors // (gradient, weight, indices, offsets?): the gradient of per sample weights; likewise
	OpGridSample           // (image, grid); Mode, Padding, AlignCorners
	OpGridSampleBackward   // (gradient, image, grid), to two gradients
	OpGridSampleDX         // (gradient, image, grid), to the first of them
	OpGridSampleDGrid      // (gradient, image, grid), to the second
	OpGridSampleTwice      // (gradient, image, grid, gradient of DGrid), to three gradients
	OpAffineGrid           // (theta); Shape is the image's; AlignCorners
	OpAffineGridBackward   // (gradient); AlignCorners
	OpQuantize             // (x, scale, zero point?); Scheme
	OpQuantizeBackward     // (gradient, x, scale, zero point?)
	OpDequantize           // (codes, scale, zero point?); Scheme, DType
	OpDequantizeBackward   // (gradient, codes, scale, zero point?), to three gradients
	OpFakeQuantize         // (x, scale, zero point?); Scheme
	OpFakeQuantizeBackward // (gradient, x, scale, zero point?), to three gradients
	OpChooseQParams        // (x), to a scale and, if Asymmetric, a zero point
	OpQuantizedLinear      // (x, weight, bias?): quantizes both, per row
	// In place: the first input changes.
	OpEmbeddingRenorm // (weight, indices); Floats are the largest norm and its order
	OpAddInPlace      // (x, y)
	OpSliceAddInPlace // (x, part): adds to what Slice would take; Starts, Steps
	OpCopyInPlace     // (x, y)
	OpSGD             // (parameter, gradient, momentum?)
	OpAdam            // (parameter, gradient, first moment, second moment, the largest of the latter?)
	OpStep            // (parameter, gradient, memories): Mode is one of other optimizers, whose numbers are Floats
	opCount
)

// Info is the type and shape of a tensor.
type Info struct {
	DType tensor.DType
	Shape []int64
}

// String returns the type and shape, such as "f32[8, 64]".
func (i Info) String() string {
	if i.DType == tensor.None {
		return "none"
	}
	return i.DType.String() + tensor.ShapeText(i.Shape)
}

// String returns the operation's name.
func (o Op) String() string {
	if o >= opCount {
		return "unknown"
	}
	return ops[o].name
}

// input names an input in an error.
func (o Op) input(i int) string {
	if o >= opCount || i >= len(ops[o].in) || ops[o].in[i] == "..." {
		return fmt.Sprintf("input %d", i)
	}
	name := strings.ReplaceAll(strings.TrimSuffix(ops[o].in[i], "?"), "_", " ")
	if len(name) > 1 {
		return "the " + name
	}
	return name
}
