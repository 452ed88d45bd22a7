package autodiff

import (
	"fmt"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// cpuKernels says how the CPU runs each operation. Inputs are checked and
// outputs allocated, by opDef.infer.
var cpuKernels = [opCount]func(k *call) error{
	OpAdd:     arith(kernel.Add[float32](), kernel.Add[float64](), kernel.Add[int32](), kernel.Add[int64]()),
	OpSub:     arith(kernel.Sub[float32](), kernel.Sub[float64](), kernel.Sub[int32](), kernel.Sub[int64]()),
	OpMul:     arith(kernel.Mul[float32](), kernel.Mul[float64](), kernel.Mul[int32](), kernel.Mul[int64]()),
	OpDiv:     divide,
	OpMaximum: arith(kernel.Maximum[float32](), kernel.Maximum[float64](), kernel.Maximum[int32](), kernel.Maximum[int64]()),
	OpMinimum: arith(kernel.Minimum[float32](), kernel.Minimum[float64](), kernel.Minimum[int32](), kernel.Minimum[int64]()),
	OpPow:     arith(kernel.Power[float32](), kernel.Power[float64](), kernel.Binary[int32, int32]{}, kernel.Binary[int64, int64]{}),

	OpEqual:        arith(kernel.Equal[float32](), kernel.Equal[float64](), kernel.Equal[int32](), kernel.Equal[int64]()),
	OpNotEqual:     arith(kernel.NotEqual[float32](), kernel.NotEqual[float64](), kernel.NotEqual[int32](), kernel.NotEqual[int64]()),
	OpLess:         arith(kernel.Less[float32](), kernel.Less[float64](), kernel.Less[int32](), kernel.Less[int64]()),
	OpLessEqual:    arith(kernel.LessEqual[float32](), kernel.LessEqual[float64](), kernel.LessEqual[int32](), kernel.LessEqual[int64]()),
	OpGreater:      arith(kernel.Greater[float32](), kernel.Greater[float64](), kernel.Greater[int32](), kernel.Greater[int64]()),
	OpGreaterEqual: arith(kernel.GreaterEqual[float32](), kernel.GreaterEqual[float64](), kernel.GreaterEqual[int32](), kernel.GreaterEqual[int64]()),
	OpAnd:          binaryLoop(kernel.And()),
	OpOr:           binaryLoop(kernel.Or()),
	OpXor:          binaryLoop(kernel.Xor()),
	OpNot:          not,
	OpWhere:        bySize(whereOf[uint8], whereOf[uint16], whereOf[uint32], whereOf[uint64], 1),

	OpNeg:         byNumber(rows1(1, kernel.Neg[float32]), rows1(1, kernel.Neg[float64]), rows1(1, kernel.Neg[int32]), rows1(1, kernel.Neg[int64])),
	OpAbs:         byFloat(rows1(1, kernel.Abs[float32]), rows1(1, kernel.Abs[float64])),
	OpSign:        byFloat(rows1(1, kernel.Sign[float32]), rows1(1, kernel.Sign[float64])),
	OpExp:         byFloat(rows1(8, kernel.Exp[float32]), rows1(8, kernel.Exp[float64])),
	OpLog:         byFloat(rows1(8, kernel.Log[float32]), rows1(8, kernel.Log[float64])),
	OpLog1p:       byFloat(rows1(8, kernel.Log1p[float32]), rows1(8, kernel.Log1p[float64])),
	OpSqrt:        byFloat(rows1(4, kernel.Sqrt[float32]), rows1(4, kernel.Sqrt[float64])),
	OpSin:         byFloat(rows1(8, kernel.Sin[float32]), rows1(8, kernel.Sin[float64])),
	OpCos:         byFloat(rows1(8, kernel.Cos[float32]), rows1(8, kernel.Cos[float64])),
	OpTanh:        byFloat(rows1(8, kernel.Tanh[float32]), rows1(8, kernel.Tanh[float64])),
	OpSigmoid:     byFloat(rows1(8, kernel.Sigmoid[float32]), rows1(8, kernel.Sigmoid[float64])),
	OpRelu:        byFloat(rows1(1, kernel.Relu[float32]), rows1(1, kernel.Relu[float64])),
	OpErf:         byFloat(rows1(8, kernel.Erf[float32]), rows1(8, kernel.Erf[float64])),
	OpGelu:        byFloat(rows1(8, kernel.Gelu[float32]), rows1(8, kernel.Gelu[float64])),
	OpSoftplus:    byFloat(rows1(16, kernel.Softplus[float32]), rows1(16, kernel.Softplus[float64])),
	OpFloor:       byFloat(rows1(1, kernel.Floor[float32]), rows1(1, kernel.Floor[float64])),
	OpCeil:        byFloat(rows1(1, kernel.Ceil[float32]), rows1(1, kernel.Ceil[float64])),
	OpRound:       byFloat(rows1(1, kernel.Round[float32]), rows1(1, kernel.Round[float64])),
	OpPowScalar:   byFloat(powScalar[float32], powScalar[float64]),
	OpClamp:       byFloat(clampOf[float32], clampOf[float64]),
	OpReluGrad:    byFloat(rows2(1, kernel.ReluGrad[float32]), rows2(1, kernel.ReluGrad[float64])),
	OpTanhGrad:    byFloat(rows2(1, kernel.TanhGrad[float32]), rows2(1, kernel.TanhGrad[float64])),
	OpSigmoidGrad: byFloat(rows2(1, kernel.SigmoidGrad[float32]), rows2(1, kernel.SigmoidGrad[float64])),
	OpGeluGrad:    byFloat(rows2(8, kernel.GeluGrad[float32]), rows2(8, kernel.GeluGrad[float64])),
	OpClampGrad:   byFloat(clampGrad[float32], clampGrad[float64]),

	OpSoftmax:        byFloat(along1(kernel.Softmax[float32]), along1(kernel.Softmax[float64])),
	OpLogSoftmax:     byFloat(along1(kernel.LogSoftmax[float32]), along1(kernel.LogSoftmax[float64])),
	OpSoftmaxGrad:    byFloat(along2(kernel.SoftmaxGrad[float32]), along2(kernel.SoftmaxGrad[float64])),
	OpLogSoftmaxGrad: byFloat(along2(kernel.LogSoftmaxGrad[float32]), along2(kernel.LogSoftmaxGrad[float64])),
	OpNormalize:      byFloat(normalizeOf[float32], normalizeOf[float64]),
	OpNormalizeGrad:  byFloat(normalizeGradOf[float32], normalizeGradOf[float64]),
	OpProd:           byNumber(along1(kernel.Prod[float32]), along1(kernel.Prod[float64]), along1(kernel.Prod[int32]), along1(kernel.Prod[int64])),
	OpProdGrad:       byFloat(along2(kernel.ProdGrad[float32]), along2(kernel.ProdGrad[float64])),
	OpMax:            byNumber(bestOf[float32](kernel.Largest), bestOf[float64](kernel.Largest), bestOf[int32](kernel.Largest), bestOf[int64](kernel.Largest)),
	OpMin:            byNumber(bestOf[float32](kernel.Smallest), bestOf[float64](kernel.Smallest), bestOf[int32](kernel.Smallest), bestOf[int64](kernel.Smallest)),
	OpArgMax:         byNumber(bestAt[float32](kernel.Largest), bestAt[float64](kernel.Largest), bestAt[int32](kernel.Largest), bestAt[int64](kernel.Largest)),
	OpArgMin:         byNumber(bestAt[float32](kernel.Smallest), bestAt[float64](kernel.Smallest), bestAt[int32](kernel.Smallest), bestAt[int64](kernel.Smallest)),
	OpCumSum:         byNumber(cumSum[float32], cumSum[float64], cumSum[int32], cumSum[int64]),
	OpSort:           byNumber(sortOf[float32], sortOf[float64], sortOf[int32], sortOf[int64]),
	OpSum:            byNumber(sumOf[float32], sumOf[float64], sumInts[int32], sumInts[int64]),
	OpMean:           byFloat(meanOf[float32], meanOf[float64]),

	OpReshape:     nil, // an alias: see Run
	OpPermute:     bySize(permuteOf[uint8], permuteOf[uint16], permuteOf[uint32], permuteOf[uint64], 0),
	OpExpand:      bySize(expandOf[uint8], expandOf[uint16], expandOf[uint32], expandOf[uint64], 0),
	OpSlice:       bySize(sliceOf[uint8], sliceOf[uint16], sliceOf[uint32], sliceOf[uint64], 0),
	OpSliceAssign: bySize(sliceInto[uint8], sliceInto[uint16], sliceInto[uint32], sliceInto[uint64], 0),
	OpCat:         bySize(catOf[uint8], catOf[uint16], catOf[uint32], catOf[uint64], 0),
	OpGather:      bySize(gatherOf[uint8], gatherOf[uint16], gatherOf[uint32], gatherOf[uint64], 0),
	OpScatterAdd:  byFloat(scatterAdd[float32], scatterAdd[float64]),
	OpSelect:      bySize(selectOf[uint8], selectOf[uint16], selectOf[uint32], selectOf[uint64], 0),
	OpSelectAdd:   byFloat(selectAddOf[float32], selectAddOf[float64]),
	OpCast:        func(k *call) error { convert(k.t, k.out[0], k.in[0]); return nil },

	OpFill:    fillOf,
	OpArange:  arange,
	OpUniform: random(kernel.Uniform[float32], kernel.Uniform[float64]),
	OpNormal:  random(kernel.Normal[float32], kernel.Normal[float64]),

	OpMatMul:           byFloat(matmulOf[float32], matmulOf[float64]),
	OpLinear:           byFloat(linearOf[float32], linearOf[float64]),
	OpConv2d:           byFloat(convOf[float32], convOf[float64]),
	OpConv2dDX:         byFloat(convDX[float32], convDX[float64]),
	OpConv2dDW:         byFloat(convDW[float32], convDW[float64]),
	OpMaxPool2d:        byFloat(maxPool[float32], maxPool[float64]),
	OpPoolTake:         byFloat(poolTakeOf[float32], poolTakeOf[float64]),
	OpPoolPut:          byFloat(poolPut[float32], poolPut[float64]),
	OpAvgPool2d:        byFloat(avgPool[float32], avgPool[float64]),
	OpAvgPoolPut:       byFloat(avgPoolPut[float32], avgPoolPut[float64]),
	OpCrossEntropy:     byFloat(crossEntropyOf[float32], crossEntropyOf[float64]),
	OpCrossEntropyGrad: byFloat(crossEntropyGradOf[float32], crossEntropyGradOf[float64]),
	OpBCEWithLogits:    byFloat(rows2(16, kernel.BCEWithLogits[float32]), rows2(16, kernel.BCEWithLogits[float64])),
	OpBCE:              byFloat(rows2(16, kernel.BCE[float32]), rows2(16, kernel.BCE[float64])),
	OpLSTMGates:        byFloat(lstmGatesOf[float32], lstmGatesOf[float64]),
	OpLSTMGatesGrad:    byFloat(lstmGatesGradOf[float32], lstmGatesGradOf[float64]),
	OpLSTMCell:         byFloat(lstmStateOf(kernel.LSTMCell[float32]), lstmStateOf(kernel.LSTMCell[float64])),
	OpLSTMCellGrad:     byFloat(lstmStateGradOf(kernel.LSTMCellGrad[float32]), lstmStateGradOf(kernel.LSTMCellGrad[float64])),
	OpLSTMHidden:       byFloat(lstmStateOf(kernel.LSTMHidden[float32]), lstmStateOf(kernel.LSTMHidden[float64])),
	OpLSTMHiddenGrad:   byFloat(lstmStateGradOf(kernel.LSTMHiddenGrad[float32]), lstmStateGradOf(kernel.LSTMHiddenGrad[float64])),

	OpEmbedding:            planEmbedding,
	OpEmbeddingBackward:    planEmbeddingBackward,
	OpEmbeddingBag:         planEmbeddingBag,
	OpEmbeddingBagBackward: planEmbeddingBagBackward,
	OpEmbeddingBagDFactors: planEmbeddingBagDFactors,
	OpGridSample:           planGridSample,
	OpGridSampleBackward:   planGridSampleBackward,
	OpGridSampleDX:         planGridSampleDX,
	OpGridSampleDGrid:      planGridSampleDGrid,
	OpGridSampleTwice:      planGridSampleTwice,
	OpAffineGrid:           planAffineGrid,
	OpAffineGridBackward:   planAffineGridBackward,
	OpQuantize:             planQuantize,
	OpQuantizeBackward:     planQuantizeBackward,
	OpDequantize:           planDequantize,
	OpDequantizeBackward:   planDequantizeBackward,
	OpFakeQuantize:         planFakeQuantize,
	OpFakeQuantizeBackward: planFakeQuantizeBackward,
	OpChooseQParams:        planChooseQParams,
	OpQuantizedLinear:      planQuantizedLinear,

	OpEmbeddingRenorm: planEmbeddingRenorm,

	OpCopyInPlace:     func(k *call) error { copy(k.in[0].buf.mem, k.in[1].buf.mem); return nil },
	OpAddInPlace:      byFloat(addInPlace[float32], addInPlace[float64]),
	OpSliceAddInPlace: byFloat(sliceAddInPlace[float32], sliceAddInPlace[float64]),
	OpSGD:             byFloat(sgd[float32], sgd[float64]),
	OpAdam:            byFloat(adam[float32], adam[float64]),
	OpStep:            byFloat(stepBy(kernel.Steps[float32]()), stepBy(kernel.Steps[float64]())),
}

func unsupported(k *call) error {
	return fmt.Errorf("has no loop for %v", infoOf(k.first()))
}

// first is the tensor whose type chooses the loop: the first input, or what
// an operation without inputs makes.
func (k *call) first() *cpuTensor {
	if len(k.in) > 0 {
		return k.in[0]
	}
	return k.out[0]
}

type loop = func(k *call) error

func byFloat(f32, f64 loop) loop {
	return byNumber(f32, f64, unsupported, unsupported)
}

func byNumber(f32, f64, i32, i64 loop) loop {
	loops := [tensor.Count]loop{tensor.F32: f32, tensor.F64: f64, tensor.I32: i32, tensor.I64: i64}
	return func(k *call) error {
		if run := loops[k.first().dtype]; run != nil {
			return run(k)
		}
		return unsupported(k)
	}
}

// bySize chooses a loop that only moves elements by the size of an input's.
func bySize(u8, u16, u32, u64 loop, input int) loop {
	return func(k *call) error {
		switch k.in[input].dtype.Size() {
		case 1:
			return u8(k)
		case 2:
			return u16(k)
		case 4:
			return u32(k)
		}
		return u64(k)
	}
}

func arith[A, B, C, D any](f32 kernel.Binary[float32, A], f64 kernel.Binary[float64, B], i32 kernel.Binary[int32, C], i64 kernel.Binary[int64, D]) loop {
	return byNumber(binaryLoop(f32), binaryLoop(f64), binaryLoop(i32), binaryLoop(i64))
}

func binaryLoop[T, R any](b kernel.Binary[T, R]) loop {
	if b.VV == nil {
		return unsupported
	}
	return func(k *call) error {
		b.Run(k.t, arrayOf[R](k.out[0]), arrayOf[T](k.in[0]), arrayOf[T](k.in[1]))
		return nil
	}
}

func not(k *call) error {
	xor := kernel.Xor()
	xor.Run(k.t, arrayOf[uint8](k.out[0]), arrayOf[uint8](k.in[0]), kernel.Array[uint8]{Data: []uint8{1}})
	return nil
}

var divideLoops = arith(kernel.Div[float32](), kernel.Div[float64](), kernel.Div[int32](), kernel.Div[int64]())

func divide(k *call) error {
	y := k.in[1]
	zero := -1
	switch y.dtype {
	case tensor.I32:
		zero = position(elements[int32](y), 0)
	case tensor.I64:
		zero = position(elements[int64](y), 0)
	}
	if zero >= 0 {
		return fmt.Errorf("the divisor %v is 0 at position %d", infoOf(y), zero)
	}
	return divideLoops(k)
}

func position[T comparable](x []T, v T) int {
	for i, w := range x {
		if w == v {
			return i
		}
	}
	return -1
}

func whereOf[T kernel.Bits](k *call) error {
	kernel.Where(k.t, arrayOf[T](k.out[0]), arrayOf[uint8](k.in[0]), arrayOf[T](k.in[1]), arrayOf[T](k.in[2]))
	return nil
}
