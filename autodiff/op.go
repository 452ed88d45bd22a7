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
	OpProd     // Flag keeps the dimension
	OpProdGrad // (gradient, x); Flag as in Prod
	OpMax      // Flag; also the positions
	OpMin
	OpArgMax
	OpArgMin
	OpCumSum // Flag: from the end
	OpSort   // Flag: descending; also the positions
	// Over dimensions: Axes, nil for all; Flag keeps them.
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
	OpMatMul     // (a, b); TransA, TransB
	OpLinear     // (x, weight, bias?)
	OpConv2d     // (x, weight, bias?); Window
	OpConv2dDX   // (gradient, weight); Window; Shape is x's
	OpConv2dDW   // (gradient, x); Window; Shape is the weight's
	OpMaxPool2d  // Window; also the positions
	OpPoolTake   // (x, positions)
	OpPoolPut    // (gradient, positions); Shape
	OpAvgPool2d  // Window
	OpAvgPoolPut // (gradient); Window, Shape
	OpCrossEntropy
	// The plans of this project.
	OpEmbedding            // (weight, indices)
	OpEmbeddingBackward    // (gradient, indices); Shape is the weight's
	OpGridSample           // (x, grid); Mode, Padding; Flag aligns the corners
	OpGridSampleBackward   // (gradient, x, grid), to two gradients
	OpAffineGrid           // (theta); Shape is the image's; Flag
	OpAffineGridBackward   // (gradient); Flag
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

func (i Info) String() string {
	if i.DType == tensor.None {
		return "none"
	}
	return i.DType.String() + tensor.ShapeString(i.Shape)
}

// opDef is a row of the table of operations.
type opDef struct {
	name string
	// infer checks the inputs and gives the outputs. It writes attributes
	// that count from the end, or leave something to be computed, in full.
	infer func(at *Attr, in []Info) ([3]Info, error)
	// cheap operations are bound by memory: computing again costs about as
	// much as reading what was kept.
	cheap bool
	// plan operations run in package plans and take every float type
	// themselves; moves only move elements. Others compute 16-bit types in f32.
	plan, moves bool
	// inPlace operations change their first input, and have no outputs.
	inPlace bool
}

// String returns the operation's name.
func (o Op) String() string {
	if o >= opCount {
		return "unknown"
	}
	return ops[o].name
}

const (
	expensive = false
	cheap     = true
)

var ops = [opCount]opDef{
	OpAdd:          {name: "add", infer: arithmetic, cheap: cheap},
	OpSub:          {name: "sub", infer: arithmetic, cheap: cheap},
	OpMul:          {name: "mul", infer: arithmetic, cheap: cheap},
	OpDiv:          {name: "div", infer: arithmetic, cheap: cheap},
	OpMaximum:      {name: "maximum", infer: arithmetic, cheap: cheap},
	OpMinimum:      {name: "minimum", infer: arithmetic, cheap: cheap},
	OpPow:          {name: "pow", infer: floats(arithmetic), cheap: cheap},
	OpEqual:        {name: "equal", infer: comparison, cheap: cheap},
	OpNotEqual:     {name: "not_equal", infer: comparison, cheap: cheap},
	OpLess:         {name: "less", infer: comparison, cheap: cheap},
	OpLessEqual:    {name: "less_equal", infer: comparison, cheap: cheap},
	OpGreater:      {name: "greater", infer: comparison, cheap: cheap},
	OpGreaterEqual: {name: "greater_equal", infer: comparison, cheap: cheap},
	OpAnd:          {name: "and", infer: logic(2), cheap: cheap},
	OpOr:           {name: "or", infer: logic(2), cheap: cheap},
	OpXor:          {name: "xor", infer: logic(2), cheap: cheap},
	OpNot:          {name: "not", infer: logic(1), cheap: cheap},
	OpWhere:        {name: "where", infer: where, cheap: cheap, moves: true},

	OpNeg:         {name: "neg", infer: each, cheap: cheap},
	OpAbs:         {name: "abs", infer: floats(each), cheap: cheap},
	OpSign:        {name: "sign", infer: floats(each), cheap: cheap},
	OpExp:         {name: "exp", infer: floats(each), cheap: cheap},
	OpLog:         {name: "log", infer: floats(each), cheap: cheap},
	OpLog1p:       {name: "log1p", infer: floats(each), cheap: cheap},
	OpSqrt:        {name: "sqrt", infer: floats(each), cheap: cheap},
	OpTanh:        {name: "tanh", infer: floats(each), cheap: cheap},
	OpSigmoid:     {name: "sigmoid", infer: floats(each), cheap: cheap},
	OpRelu:        {name: "relu", infer: floats(each), cheap: cheap},
	OpErf:         {name: "erf", infer: floats(each), cheap: cheap},
	OpGelu:        {name: "gelu", infer: floats(each), cheap: cheap},
	OpFloor:       {name: "floor", infer: floats(each), cheap: cheap},
	OpCeil:        {name: "ceil", infer: floats(each), cheap: cheap},
	OpRound:       {name: "round", infer: floats(each), cheap: cheap},
	OpPowScalar:   {name: "pow_scalar", infer: floats(each), cheap: cheap},
	OpClamp:       {name: "clamp", infer: clamp, cheap: cheap},
	OpReluGrad:    {name: "relu_grad", infer: pair, cheap: cheap},
	OpTanhGrad:    {name: "tanh_grad", infer: pair, cheap: cheap},
	OpSigmoidGrad: {name: "sigmoid_grad", infer: pair, cheap: cheap},
	OpGeluGrad:    {name: "gelu_grad", infer: pair, cheap: cheap},
	OpClampGrad:   {name: "clamp_grad", infer: pair, cheap: cheap},

	OpSoftmax:        {name: "softmax", infer: floats(along(false)), cheap: cheap},
	OpLogSoftmax:     {name: "log_softmax", infer: floats(along(false)), cheap: cheap},
	OpSoftmaxGrad:    {name: "softmax_grad", infer: pairAlong, cheap: cheap},
	OpLogSoftmaxGrad: {name: "log_softmax_grad", infer: pairAlong, cheap: cheap},
	OpProd:           {name: "prod", infer: along(true)},
	OpProdGrad:       {name: "prod_grad", infer: prodGrad},
	OpMax:            {name: "max", infer: best(true, true)},
	OpMin:            {name: "min", infer: best(true, true)},
	OpArgMax:         {name: "argmax", infer: best(false, true)},
	OpArgMin:         {name: "argmin", infer: best(false, true)},
	OpCumSum:         {name: "cumsum", infer: along(false), cheap: expensive},
	OpSort:           {name: "sort", infer: best(true, false), cheap: expensive},
	OpSum:            {name: "sum", infer: reduce},
	OpMean:           {name: "mean", infer: floats(reduce)},

	OpReshape:     {name: "reshape", infer: reshape, cheap: cheap, moves: true},
	OpPermute:     {name: "permute", infer: permute, cheap: cheap, moves: true},
	OpExpand:      {name: "expand", infer: expand, cheap: cheap, moves: true},
	OpSlice:       {name: "slice", infer: slice, cheap: cheap, moves: true},
	OpSliceAssign: {name: "slice_assign", infer: sliceAssign, cheap: cheap, moves: true},
	OpCat:         {name: "cat", infer: cat, cheap: cheap, moves: true},
	OpGather:      {name: "gather", infer: gather, cheap: cheap, moves: true},
	OpScatterAdd:  {name: "scatter_add", infer: scatter, cheap: expensive},
	OpSelect:      {name: "select", infer: selectRows, cheap: cheap, moves: true},
	OpSelectAdd:   {name: "select_add", infer: selectAdd, cheap: expensive},
	OpCast:        {name: "cast", infer: cast, cheap: cheap, moves: true},

	OpFill:    {name: "fill", infer: create},
	OpArange:  {name: "arange", infer: create},
	OpUniform: {name: "uniform", infer: floats(create)},
	OpNormal:  {name: "normal", infer: floats(create)},

	OpMatMul:       {name: "matmul", infer: floats(matmul)},
	OpLinear:       {name: "linear", infer: floats(linear)},
	OpConv2d:       {name: "conv2d", infer: floats(conv2d)},
	OpConv2dDX:     {name: "conv2d_dx", infer: floats(toShape(2))},
	OpConv2dDW:     {name: "conv2d_dw", infer: floats(toShape(2))},
	OpMaxPool2d:    {name: "max_pool2d", infer: floats(pool2d(true))},
	OpPoolTake:     {name: "pool_take", infer: poolTake},
	OpPoolPut:      {name: "pool_put", infer: toShape(2)},
	OpAvgPool2d:    {name: "avg_pool2d", infer: floats(pool2d(false))},
	OpAvgPoolPut:   {name: "avg_pool_put", infer: floats(toShape(1))},
	OpCrossEntropy: {name: "cross_entropy", infer: crossEntropy},

	OpEmbedding:            {name: "embedding", infer: embedding, plan: true},
	OpEmbeddingBackward:    {name: "embedding_backward", infer: toShape(2), plan: true},
	OpGridSample:           {name: "grid_sample", infer: gridSample, plan: true},
	OpGridSampleBackward:   {name: "grid_sample_backward", infer: likeInputs(1, 2), plan: true},
	OpAffineGrid:           {name: "affine_grid", infer: affineGrid, plan: true},
	OpAffineGridBackward:   {name: "affine_grid_backward", infer: affineGridBackward, plan: true},
	OpQuantize:             {name: "quantize", infer: quantize, cheap: cheap, plan: true},
	OpQuantizeBackward:     {name: "quantize_backward", infer: likeInputs(1), cheap: cheap, plan: true},
	OpDequantize:           {name: "dequantize", infer: dequantize, cheap: cheap, plan: true},
	OpDequantizeBackward:   {name: "dequantize_backward", infer: likeInputs(0, 2, 3), plan: true},
	OpFakeQuantize:         {name: "fake_quantize", infer: likeInputs(0), cheap: cheap, plan: true},
	OpFakeQuantizeBackward: {name: "fake_quantize_backward", infer: likeInputs(1, 2, 3), plan: true},
	OpChooseQParams:        {name: "choose_qparams", infer: chooseQParams, plan: true},
	OpQuantizedLinear:      {name: "quantized_linear", infer: floats(linear), plan: true},

	OpAddInPlace:  {name: "add_", infer: update(2, 0), inPlace: true},
	OpCopyInPlace: {name: "copy_", infer: update(2, 0), inPlace: true},
	OpSGD:         {name: "sgd_", infer: update(3, 1), inPlace: true},
	OpAdam:        {name: "adam_", infer: update(4, 0), inPlace: true},
}
