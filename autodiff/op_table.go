package autodiff

import (
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

// opDef is a row of the table of operations.
type opDef struct {
	name string
	// in names the inputs; what ends in ? may be absent, ... are any number, at least one.
	in []string
	// floats operations take inputs of one float type.
	floats bool
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
	// inPlace operations change their first input, and have no outputs. The others are like it, or, of part, as infer says.
	inPlace, part bool
}

// carries reports whether a result of a type can carry a gradient: floats do,
// and codes by the straight-through estimate.
func (d *opDef) carries(t tensor.DType) bool { return t.IsFloat() || d.scheme }

func inputs(names string) []string { return strings.Fields(names) }

var ops = [opCount]opDef{
	OpAdd:          {name: "add", in: inputs("x y"), infer: arithmetic, cheap: true},
	OpSub:          {name: "sub", in: inputs("x y"), infer: arithmetic, cheap: true},
	OpMul:          {name: "mul", in: inputs("x y"), infer: arithmetic, cheap: true},
	OpDiv:          {name: "div", in: inputs("x y"), infer: arithmetic, cheap: true},
	OpMaximum:      {name: "maximum", in: inputs("x y"), infer: arithmetic, cheap: true},
	OpMinimum:      {name: "minimum", in: inputs("x y"), infer: arithmetic, cheap: true},
	OpPow:          {name: "pow", in: inputs("x y"), infer: arithmetic, floats: true, cheap: true},
	OpEqual:        {name: "equal", in: inputs("x y"), infer: comparison, cheap: true},
	OpNotEqual:     {name: "not_equal", in: inputs("x y"), infer: comparison, cheap: true},
	OpLess:         {name: "less", in: inputs("x y"), infer: comparison, cheap: true},
	OpLessEqual:    {name: "less_equal", in: inputs("x y"), infer: comparison, cheap: true},
	OpGreater:      {name: "greater", in: inputs("x y"), infer: comparison, cheap: true},
	OpGreaterEqual: {name: "greater_equal", in: inputs("x y"), infer: comparison, cheap: true},
	OpAnd:          {name: "and", in: inputs("x y"), infer: logic, cheap: true},
	OpOr:           {name: "or", in: inputs("x y"), infer: logic, cheap: true},
	OpXor:          {name: "xor", in: inputs("x y"), infer: logic, cheap: true},
	OpNot:          {name: "not", in: inputs("x"), infer: logic, cheap: true},
	OpWhere:        {name: "where", in: inputs("condition x y"), infer: where, cheap: true, moves: true},

	OpNeg:         {name: "neg", in: inputs("x"), infer: each, cheap: true},
	OpAbs:         {name: "abs", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpSign:        {name: "sign", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpExp:         {name: "exp", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpLog:         {name: "log", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpLog1p:       {name: "log1p", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpSqrt:        {name: "sqrt", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpSin:         {name: "sin", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpCos:         {name: "cos", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpTanh:        {name: "tanh", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpSigmoid:     {name: "sigmoid", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpRelu:        {name: "relu", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpErf:         {name: "erf", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpGelu:        {name: "gelu", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpSoftplus:    {name: "softplus", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpFloor:       {name: "floor", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpCeil:        {name: "ceil", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpRound:       {name: "round", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpPowScalar:   {name: "pow_scalar", in: inputs("x"), infer: each, floats: true, cheap: true},
	OpClamp:       {name: "clamp", in: inputs("x"), infer: clamp, floats: true, cheap: true},
	OpReluGrad:    {name: "relu_grad", in: inputs("gradient y"), infer: pair, floats: true, cheap: true},
	OpTanhGrad:    {name: "tanh_grad", in: inputs("gradient y"), infer: pair, floats: true, cheap: true},
	OpSigmoidGrad: {name: "sigmoid_grad", in: inputs("gradient y"), infer: pair, floats: true, cheap: true},
	OpGeluGrad:    {name: "gelu_grad", in: inputs("gradient x"), infer: pair, floats: true, cheap: true},
	OpClampGrad:   {name: "clamp_grad", in: inputs("gradient x"), infer: pair, floats: true, cheap: true},

	OpSoftmax:        {name: "softmax", in: inputs("x"), infer: along(keepsAxis), floats: true, cheap: true},
	OpLogSoftmax:     {name: "log_softmax", in: inputs("x"), infer: along(keepsAxis), floats: true, cheap: true},
	OpSoftmaxGrad:    {name: "softmax_grad", in: inputs("gradient y"), infer: pairAlong, floats: true, cheap: true},
	OpLogSoftmaxGrad: {name: "log_softmax_grad", in: inputs("gradient y"), infer: pairAlong, floats: true, cheap: true},
	OpNormalize:      {name: "normalize", in: inputs("x"), infer: normalize, floats: true, cheap: true},
	OpNormalizeGrad:  {name: "normalize_grad", in: inputs("gradient x"), infer: normalizeGrad, floats: true, cheap: true},
	OpProd:           {name: "prod", in: inputs("x"), infer: along(reducesAxis)},
	OpProdGrad:       {name: "prod_grad", in: inputs("gradient x"), infer: prodGrad},
	OpMax:            {name: "max", in: inputs("x"), infer: best(picks{values: true, reduces: true})},
	OpMin:            {name: "min", in: inputs("x"), infer: best(picks{values: true, reduces: true})},
	OpArgMax:         {name: "argmax", in: inputs("x"), infer: best(picks{reduces: true})},
	OpArgMin:         {name: "argmin", in: inputs("x"), infer: best(picks{reduces: true})},
	OpCumSum:         {name: "cumsum", in: inputs("x"), infer: along(keepsAxis)},
	OpSort:           {name: "sort", in: inputs("x"), infer: best(picks{values: true})},
	OpSum:            {name: "sum", in: inputs("x"), infer: reduce},
	OpMean:           {name: "mean", in: inputs("x"), infer: reduce, floats: true},

	OpReshape:     {name: "reshape", in: inputs("x"), infer: reshape, cheap: true, moves: true},
	OpPermute:     {name: "permute", in: inputs("x"), infer: permute, cheap: true, moves: true},
	OpExpand:      {name: "expand", in: inputs("x"), infer: expand, cheap: true, moves: true},
	OpSlice:       {name: "slice", in: inputs("x"), infer: slice, cheap: true, moves: true},
	OpSliceAssign: {name: "slice_assign", in: inputs("x part"), infer: sliceAssign, cheap: true, moves: true},
	OpCat:         {name: "cat", in: inputs("..."), infer: cat, cheap: true, moves: true},
	OpGather:      {name: "gather", in: inputs("x indices"), infer: gather, cheap: true, moves: true},
	OpScatterAdd:  {name: "scatter_add", in: inputs("x indices y"), infer: scatter},
	OpSelect:      {name: "select", in: inputs("x indices"), infer: selectRows, cheap: true, moves: true},
	OpSelectAdd:   {name: "select_add", in: inputs("x indices y"), infer: selectAdd},
	OpCast:        {name: "cast", in: inputs("x"), infer: cast, cheap: true, moves: true},

	OpFill:    {name: "fill", infer: create},
	OpArange:  {name: "arange", infer: create},
	OpUniform: {name: "uniform", infer: uniform},
	OpNormal:  {name: "normal", infer: normal},

	OpMatMul:           {name: "matmul", in: inputs("x y"), infer: matmul, floats: true},
	OpLinear:           {name: "linear", in: inputs("x weight bias?"), infer: linear, floats: true},
	OpConv2d:           {name: "conv2d", in: inputs("x weight bias?"), infer: conv2d, floats: true},
	OpConv2dDX:         {name: "conv2d_dx", in: inputs("gradient weight"), infer: convGrad(ofConvInput), floats: true},
	OpConv2dDW:         {name: "conv2d_dw", in: inputs("gradient x"), infer: convGrad(ofConvWeight), floats: true},
	OpMaxPool2d:        {name: "max_pool2d", in: inputs("x"), infer: pool2d(withPositions), floats: true},
	OpPoolTake:         {name: "pool_take", in: inputs("x positions"), infer: poolTake},
	OpPoolPut:          {name: "pool_put", in: inputs("gradient positions"), infer: poolPutShape},
	OpAvgPool2d:        {name: "avg_pool2d", in: inputs("x"), infer: pool2d(valuesAlone), floats: true},
	OpAvgPoolPut:       {name: "avg_pool_put", in: inputs("gradient"), infer: avgPoolPutShape, floats: true},
	OpCrossEntropy:     {name: "cross_entropy", in: inputs("logits labels"), infer: crossEntropy},
	OpCrossEntropyGrad: {name: "cross_entropy_grad", in: inputs("logits labels gradient"), infer: crossEntropyGrad},
	OpBCEWithLogits:    {name: "bce_with_logits", in: inputs("logits target"), infer: pair, floats: true, cheap: true},
	OpBCE:              {name: "bce", in: inputs("probabilities target"), infer: pair, floats: true, cheap: true},
	OpLSTMGates:        {name: "lstm_gates", in: inputs("gates"), infer: lstmGates, floats: true, cheap: true},
	OpLSTMGatesGrad:    {name: "lstm_gates_grad", in: inputs("gradient gates"), infer: lstmGates, floats: true, cheap: true},
	OpLSTMCell:         {name: "lstm_cell", in: inputs("gates c"), infer: lstmState, floats: true, cheap: true},
	OpLSTMCellGrad:     {name: "lstm_cell_grad", in: inputs("gradient gates c"), infer: lstmState, floats: true, cheap: true},
	OpLSTMHidden:       {name: "lstm_hidden", in: inputs("gates c"), infer: lstmState, floats: true, cheap: true},
	OpLSTMHiddenGrad:   {name: "lstm_hidden_grad", in: inputs("gradient gates c"), infer: lstmState, floats: true, cheap: true},

	OpEmbedding:            {name: "embedding", in: inputs("weight indices"), infer: embedding, plan: true},
	OpEmbeddingBackward:    {name: "embedding_backward", in: inputs("gradient indices"), infer: toShape, plan: true},
	OpEmbeddingBag:         {name: "embedding_bag", in: inputs("weight indices offsets? per_sample_weights?"), infer: embeddingBag, plan: true},
	OpEmbeddingBagBackward: {name: "embedding_bag_backward", in: inputs("gradient indices offsets? per_sample_weights? positions?"), infer: toShape, plan: true},
	OpEmbeddingBagDFactors: {name: "embedding_bag_per_sample_weights_backward", in: inputs("gradient weight indices offsets?"), infer: bagFactors, plan: true},
	OpGridSample:           {name: "grid_sample", in: inputs("image grid"), infer: gridSample, plan: true},
	OpGridSampleBackward:   {name: "grid_sample_backward", in: inputs("gradient image grid"), infer: likeInputs(1, 2), plan: true},
	OpGridSampleDX:         {name: "grid_sample_dx", in: inputs("gradient image grid"), infer: likeInputs(1), plan: true},
	OpGridSampleDGrid:      {name: "grid_sample_dgrid", in: inputs("gradient image grid"), infer: likeInputs(2), plan: true},
	OpGridSampleTwice:      {name: "grid_sample_double_backward", in: inputs("gradient image grid grid_gradient"), infer: likeInputs(0, 1, 2), plan: true},
	OpAffineGrid:           {name: "affine_grid", in: inputs("theta"), infer: affineGrid, plan: true},
	OpAffineGridBackward:   {name: "affine_grid_backward", in: inputs("gradient"), infer: affineGridBackward, plan: true},
	OpQuantize:             {name: "quantize", in: inputs("x scale zero_point?"), infer: quantize, cheap: true, plan: true, scheme: true},
	OpQuantizeBackward:     {name: "quantize_backward", in: inputs("gradient x scale zero_point?"), infer: likeInputs(1), cheap: true, plan: true, scheme: true},
	OpDequantize:           {name: "dequantize", in: inputs("codes scale zero_point?"), infer: dequantize, cheap: true, plan: true, scheme: true},
	OpDequantizeBackward:   {name: "dequantize_backward", in: inputs("gradient codes scale zero_point?"), infer: likeInputs(0, 2, 3), plan: true, scheme: true},
	OpFakeQuantize:         {name: "fake_quantize", in: inputs("x scale zero_point?"), infer: likeInputs(0), cheap: true, plan: true, scheme: true},
	OpFakeQuantizeBackward: {name: "fake_quantize_backward", in: inputs("gradient x scale zero_point?"), infer: likeInputs(1, 2, 3), plan: true, scheme: true},
	OpChooseQParams:        {name: "choose_qparams", in: inputs("x"), infer: chooseQParams, plan: true, scheme: true},
	OpQuantizedLinear:      {name: "quantized_linear", in: inputs("x weight bias?"), infer: linear, floats: true, plan: true},

	OpEmbeddingRenorm: {name: "embedding_renorm_", in: inputs("weight indices"), infer: renormed, inPlace: true, part: true, plan: true},
	OpAddInPlace:      {name: "add_", in: inputs("x y"), infer: update, inPlace: true},
	OpSliceAddInPlace: {name: "slice_add_", in: inputs("x part"), infer: sliceAdd, inPlace: true, part: true},
	OpCopyInPlace:     {name: "copy_", in: inputs("x y"), infer: inPlace, inPlace: true, moves: true},
	OpSGD:             {name: "sgd_", in: inputs("parameter gradient momentum?"), infer: update, inPlace: true},
	OpAdam:            {name: "adam_", in: inputs("parameter gradient first_moment second_moment largest?"), infer: update, inPlace: true},
	OpStep:            {name: "step_", in: inputs("parameter gradient first_memory second_memory? third_memory?"), infer: stepOf, inPlace: true},
}
