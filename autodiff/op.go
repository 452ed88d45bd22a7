package autodiff

import "github.com/isobit-ml/isobit/tensor"

// Op names an operation of a Backend. The table below says what each takes.
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
	OpTanh
	OpSigmoid
	OpRelu
	OpErf
	OpGelu
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
	OpProd     // KeepDim
	OpProdGrad // (gradient, x); KeepDim as in Prod
	OpMax      // KeepDim; also the positions
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
	OpMatMul           // (a, b); TransA, TransB
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
	// The plans of this project.
	OpEmbedding            // (weight, indices)
	OpEmbeddingBackward    // (gradient, indices); Shape is the weight's
	OpGridSample           // (x, grid); Mode, Padding, AlignCorners
	OpGridSampleBackward   // (gradient, x, grid), to two gradients
	OpGridSampleDX         // (gradient, x, grid), to the first of them
	OpGridSampleDGrid      // (gradient, x, grid), to the second
	OpGridSampleTwice      // (gradient, x, grid, gradient of DGrid), to three gradients
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
	OpAddInPlace  // (x, y)
	OpCopyInPlace // (x, y)
	OpSGD         // (parameter, gradient, momentum?)
	OpAdam        // (parameter, gradient, first moment, second moment)
	opCount
)

// Info is the type and shape of a tensor.
type Info struct {
	DType tensor.DType
	Shape []int64
}

// String returns the type and shape, such as "f32[8,64]".
func (i Info) String() string {
	if i.DType == tensor.None {
		return "none"
	}
	return i.DType.String() + tensor.ShapeString(i.Shape)
}

// opDef is a row of the table of operations.
type opDef struct {
	name string
	// inputs is how many there are, of which the last optional may be absent.
	inputs, optional int
	// infer checks the inputs and gives the outputs. It writes attributes
	// that count from the end, or leave something to be computed, in full.
	infer func(at *Attr, in []Info) ([3]Info, error)
	// cheap operations are bound by memory: computing again costs about as
	// much as reading what was kept.
	cheap bool
	// plan operations run in package plans and take every float type
	// themselves; moves only move elements. Others compute 16-bit types in f32.
	plan, moves bool
	// scheme operations read Attr.Scheme.
	scheme bool
	// inPlace operations change their first input, and have no outputs.
	inPlace bool
}

// carries reports whether a result of a type can carry a gradient: floats do,
// and codes by the straight-through estimate.
func (d *opDef) carries(t tensor.DType) bool { return t.IsFloat() || d.scheme }

// String returns the operation's name.
func (o Op) String() string {
	if o >= opCount {
		return "unknown"
	}
	return ops[o].name
}

const anyNumber = -1 // of inputs, at least one

var ops = [opCount]opDef{
	OpAdd:          {name: "add", inputs: 2, infer: arithmetic, cheap: true},
	OpSub:          {name: "sub", inputs: 2, infer: arithmetic, cheap: true},
	OpMul:          {name: "mul", inputs: 2, infer: arithmetic, cheap: true},
	OpDiv:          {name: "div", inputs: 2, infer: arithmetic, cheap: true},
	OpMaximum:      {name: "maximum", inputs: 2, infer: arithmetic, cheap: true},
	OpMinimum:      {name: "minimum", inputs: 2, infer: arithmetic, cheap: true},
	OpPow:          {name: "pow", inputs: 2, infer: floats(arithmetic), cheap: true},
	OpEqual:        {name: "equal", inputs: 2, infer: comparison, cheap: true},
	OpNotEqual:     {name: "not_equal", inputs: 2, infer: comparison, cheap: true},
	OpLess:         {name: "less", inputs: 2, infer: comparison, cheap: true},
	OpLessEqual:    {name: "less_equal", inputs: 2, infer: comparison, cheap: true},
	OpGreater:      {name: "greater", inputs: 2, infer: comparison, cheap: true},
	OpGreaterEqual: {name: "greater_equal", inputs: 2, infer: comparison, cheap: true},
	OpAnd:          {name: "and", inputs: 2, infer: logic, cheap: true},
	OpOr:           {name: "or", inputs: 2, infer: logic, cheap: true},
	OpXor:          {name: "xor", inputs: 2, infer: logic, cheap: true},
	OpNot:          {name: "not", inputs: 1, infer: logic, cheap: true},
	OpWhere:        {name: "where", inputs: 3, infer: where, cheap: true, moves: true},

	OpNeg:         {name: "neg", inputs: 1, infer: each, cheap: true},
	OpAbs:         {name: "abs", inputs: 1, infer: floats(each), cheap: true},
	OpSign:        {name: "sign", inputs: 1, infer: floats(each), cheap: true},
	OpExp:         {name: "exp", inputs: 1, infer: floats(each), cheap: true},
	OpLog:         {name: "log", inputs: 1, infer: floats(each), cheap: true},
	OpLog1p:       {name: "log1p", inputs: 1, infer: floats(each), cheap: true},
	OpSqrt:        {name: "sqrt", inputs: 1, infer: floats(each), cheap: true},
	OpTanh:        {name: "tanh", inputs: 1, infer: floats(each), cheap: true},
	OpSigmoid:     {name: "sigmoid", inputs: 1, infer: floats(each), cheap: true},
	OpRelu:        {name: "relu", inputs: 1, infer: floats(each), cheap: true},
	OpErf:         {name: "erf", inputs: 1, infer: floats(each), cheap: true},
	OpGelu:        {name: "gelu", inputs: 1, infer: floats(each), cheap: true},
	OpFloor:       {name: "floor", inputs: 1, infer: floats(each), cheap: true},
	OpCeil:        {name: "ceil", inputs: 1, infer: floats(each), cheap: true},
	OpRound:       {name: "round", inputs: 1, infer: floats(each), cheap: true},
	OpPowScalar:   {name: "pow_scalar", inputs: 1, infer: floats(each), cheap: true},
	OpClamp:       {name: "clamp", inputs: 1, infer: clamp, cheap: true},
	OpReluGrad:    {name: "relu_grad", inputs: 2, infer: pair, cheap: true},
	OpTanhGrad:    {name: "tanh_grad", inputs: 2, infer: pair, cheap: true},
	OpSigmoidGrad: {name: "sigmoid_grad", inputs: 2, infer: pair, cheap: true},
	OpGeluGrad:    {name: "gelu_grad", inputs: 2, infer: pair, cheap: true},
	OpClampGrad:   {name: "clamp_grad", inputs: 2, infer: pair, cheap: true},

	OpSoftmax:        {name: "softmax", inputs: 1, infer: floats(along(false)), cheap: true},
	OpLogSoftmax:     {name: "log_softmax", inputs: 1, infer: floats(along(false)), cheap: true},
	OpSoftmaxGrad:    {name: "softmax_grad", inputs: 2, infer: pairAlong, cheap: true},
	OpLogSoftmaxGrad: {name: "log_softmax_grad", inputs: 2, infer: pairAlong, cheap: true},
	OpProd:           {name: "prod", inputs: 1, infer: along(true)},
	OpProdGrad:       {name: "prod_grad", inputs: 2, infer: prodGrad},
	OpMax:            {name: "max", inputs: 1, infer: best(true, true)},
	OpMin:            {name: "min", inputs: 1, infer: best(true, true)},
	OpArgMax:         {name: "argmax", inputs: 1, infer: best(false, true)},
	OpArgMin:         {name: "argmin", inputs: 1, infer: best(false, true)},
	OpCumSum:         {name: "cumsum", inputs: 1, infer: along(false)},
	OpSort:           {name: "sort", inputs: 1, infer: best(true, false)},
	OpSum:            {name: "sum", inputs: 1, infer: reduce},
	OpMean:           {name: "mean", inputs: 1, infer: floats(reduce)},

	OpReshape:     {name: "reshape", inputs: 1, infer: reshape, cheap: true, moves: true},
	OpPermute:     {name: "permute", inputs: 1, infer: permute, cheap: true, moves: true},
	OpExpand:      {name: "expand", inputs: 1, infer: expand, cheap: true, moves: true},
	OpSlice:       {name: "slice", inputs: 1, infer: slice, cheap: true, moves: true},
	OpSliceAssign: {name: "slice_assign", inputs: 2, infer: sliceAssign, cheap: true, moves: true},
	OpCat:         {name: "cat", inputs: anyNumber, infer: cat, cheap: true, moves: true},
	OpGather:      {name: "gather", inputs: 2, infer: gather, cheap: true, moves: true},
	OpScatterAdd:  {name: "scatter_add", inputs: 3, infer: scatter},
	OpSelect:      {name: "select", inputs: 2, infer: selectRows, cheap: true, moves: true},
	OpSelectAdd:   {name: "select_add", inputs: 3, infer: selectAdd},
	OpCast:        {name: "cast", inputs: 1, infer: cast, cheap: true, moves: true},

	OpFill:    {name: "fill", infer: create},
	OpArange:  {name: "arange", infer: create},
	OpUniform: {name: "uniform", infer: uniform},
	OpNormal:  {name: "normal", infer: normal},

	OpMatMul:           {name: "matmul", inputs: 2, infer: floats(matmul)},
	OpLinear:           {name: "linear", inputs: 3, optional: 1, infer: floats(linear)},
	OpConv2d:           {name: "conv2d", inputs: 3, optional: 1, infer: floats(conv2d)},
	OpConv2dDX:         {name: "conv2d_dx", inputs: 2, infer: floats(convGrad(true))},
	OpConv2dDW:         {name: "conv2d_dw", inputs: 2, infer: floats(convGrad(false))},
	OpMaxPool2d:        {name: "max_pool2d", inputs: 1, infer: floats(pool2d(true))},
	OpPoolTake:         {name: "pool_take", inputs: 2, infer: poolTake},
	OpPoolPut:          {name: "pool_put", inputs: 2, infer: poolPutShape},
	OpAvgPool2d:        {name: "avg_pool2d", inputs: 1, infer: floats(pool2d(false))},
	OpAvgPoolPut:       {name: "avg_pool_put", inputs: 1, infer: floats(avgPoolPutShape)},
	OpCrossEntropy:     {name: "cross_entropy", inputs: 2, infer: crossEntropy},
	OpCrossEntropyGrad: {name: "cross_entropy_grad", inputs: 3, infer: crossEntropyGrad},

	OpEmbedding:            {name: "embedding", inputs: 2, infer: embedding, plan: true},
	OpEmbeddingBackward:    {name: "embedding_backward", inputs: 2, infer: toShape, plan: true},
	OpGridSample:           {name: "grid_sample", inputs: 2, infer: gridSample, plan: true},
	OpGridSampleBackward:   {name: "grid_sample_backward", inputs: 3, infer: likeInputs(1, 2), plan: true},
	OpGridSampleDX:         {name: "grid_sample_dx", inputs: 3, infer: likeInputs(1), plan: true},
	OpGridSampleDGrid:      {name: "grid_sample_dgrid", inputs: 3, infer: likeInputs(2), plan: true},
	OpGridSampleTwice:      {name: "grid_sample_double_backward", inputs: 4, infer: likeInputs(0, 1, 2), plan: true},
	OpAffineGrid:           {name: "affine_grid", inputs: 1, infer: affineGrid, plan: true},
	OpAffineGridBackward:   {name: "affine_grid_backward", inputs: 1, infer: affineGridBackward, plan: true},
	OpQuantize:             {name: "quantize", inputs: 3, optional: 1, infer: quantize, cheap: true, plan: true, scheme: true},
	OpQuantizeBackward:     {name: "quantize_backward", inputs: 4, optional: 1, infer: likeInputs(1), cheap: true, plan: true, scheme: true},
	OpDequantize:           {name: "dequantize", inputs: 3, optional: 1, infer: dequantize, cheap: true, plan: true, scheme: true},
	OpDequantizeBackward:   {name: "dequantize_backward", inputs: 4, optional: 1, infer: likeInputs(0, 2, 3), plan: true, scheme: true},
	OpFakeQuantize:         {name: "fake_quantize", inputs: 3, optional: 1, infer: likeInputs(0), cheap: true, plan: true, scheme: true},
	OpFakeQuantizeBackward: {name: "fake_quantize_backward", inputs: 4, optional: 1, infer: likeInputs(1, 2, 3), plan: true, scheme: true},
	OpChooseQParams:        {name: "choose_qparams", inputs: 1, infer: chooseQParams, plan: true, scheme: true},
	OpQuantizedLinear:      {name: "quantized_linear", inputs: 3, optional: 1, infer: floats(linear), plan: true},

	OpAddInPlace:  {name: "add_", inputs: 2, infer: update, inPlace: true},
	OpCopyInPlace: {name: "copy_", inputs: 2, infer: alike, inPlace: true, moves: true},
	OpSGD:         {name: "sgd_", inputs: 3, optional: 1, infer: update, inPlace: true},
	OpAdam:        {name: "adam_", inputs: 4, infer: update, inPlace: true},
}
