package cuda

import (
	"fmt"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// ops is the table of ops that have CUDA kernels.
var ops = []op{
	{"quantize", func() []string {
		return append(forTypes("quantize", floats, anyCodes), forTypes("quantize_packed", floats)...)
	}, buildQuantize},
	{"quantize_backward", func() []string { return forTypes("quantize_backward", floats, floats) }, buildQuantizeBackward},
	{"dequantize", func() []string {
		return append(forTypes("dequantize", anyCodes, floats), forTypes("dequantize_packed", floats)...)
	}, buildDequantize},
	{"dequantize_backward", func() []string {
		return append(forTypes("dequantize_backward", floats), sumNames(forTypes("dequantize_sums", floats))...)
	}, buildDequantizeBackward},
	{"fake_quantize", func() []string { return forTypes("fake_quantize", floats) }, buildFakeQuantize},
	{"fake_quantize_backward", func() []string {
		return append(forTypes("fake_quantize_backward", floats), sumNames(forTypes("fake_quantize_sums", floats))...)
	}, buildFakeQuantizeBackward},
	{"choose_qparams", choosing, buildChooseQParams},
	{"dynamic_quantize", func() []string {
		names := append(forTypes("quantize", floats, codes), forTypes("quantize_packed", floats)...)
		return slices.Concat(names, choosing(), dynamicKernels())
	}, buildDynamicQuantize},
	{"embedding", func() []string { return append(forTypes("embedding", floats), "embedding_check") }, buildEmbedding},
	{"embedding_renorm", func() []string {
		names := append(rowNames(forTypes("embedding_renorm", floats)), forTypes("embedding_renorm_scale", floats)...)
		return append(names, "embedding_check", "embedding_renorm_own", "fill")
	}, buildRenorm},
	{"embedding_backward", func() []string {
		return append(rowsKernels(forTypes("embedding_backward", floats)), "embedding_keys")
	}, buildEmbeddingBackward},
	{"embedding_bag", func() []string {
		names := append(forTypes("embedding_bag", floats), forTypes("embedding_bag_max", floats)...)
		return append(names, "bags_check", "embedding_check")
	}, buildEmbeddingBag},
	{"weight_only_embedding_bag", func() []string {
		names := append(forTypes("code_bag", floats), forTypes("code_bag_max", floats)...)
		return append(names, "bags_check", "embedding_check")
	}, buildCodeBags},
	{"embedding_bag_backward", func() []string {
		names := append(rowsKernels(forTypes("embedding_bag_backward", floats)), forTypes("embedding_bag_max_backward", floats)...)
		return append(names, "bags_check", "bag_keys")
	}, buildEmbeddingBagBackward},
	{"embedding_bag_per_sample_weights_backward", func() []string {
		return append(rowNames(forTypes("embedding_bag_weights", floats)), "bags_check")
	}, buildEmbeddingBagWeights},
	{"grid_sample", func() []string {
		return append(forSamplers("grid_sample", floats), forTypes("grid_sample_nearest", floats)...)
	}, buildGridSample},
	{"grid_sample_backward", func() []string {
		return append(append(inputKernels("gradient"), forSamplers("grid_gradient", floats)...), forTypes("grid_gradient_few", floats)...)
	}, buildGridSampleBackward},
	{"grid_sample_double_backward", func() []string {
		names := append(inputKernels("double"), forSamplers("grid_double_output", floats)...)
		return append(append(names, forSamplers("grid_double", floats)...), forTypes("grid_double_few", floats)...)
	}, buildGridSampleDoubleBackward},
	{"affine_grid", func() []string { return forDims("affine_grid", floats) }, buildAffineGrid},
	{"affine_grid_backward", func() []string { return laneNames(forDims("affine_grid_backward", floats)) }, buildAffineGridBackward},
	{"weight_only_linear", func() []string {
		names := withFold(forTypes("weight_only_linear", floats))
		return append(names, forShapes("weight_%s", weightShapes)...)
	}, buildWeightOnlyLinear},
	{"quantized_linear", func() []string {
		return append(forTypes("quantized_linear", floats), forShapes("quantized_linear_%s_sm80", linearShapes)...)
	}, buildQuantizedLinear},
	{"quantized_linear_per_group", func() []string {
		names := forTypes("quantized_linear_per_group", []tensor.DType{tensor.F32, tensor.F64})
		for _, s := range groupShapes {
			names = append(names, "group_linear_"+s.name)
		}
		return names
	}, buildQuantizedLinearPerGroup},
	{"matmul", func() []string {
		names := append(forTypes("matmul", floats), forTypes("matmul_wide", floats)...)
		return append(names, forShapes("matmul_%s_sm80", matmulShapes)...)
	}, buildMatmul},
}

// forDims is forTypes for images and for volumes.
func forDims(name string, types []tensor.DType) []string {
	return append(forTypes(name+"_2d", types), forTypes(name+"_3d", types)...)
}

// forShapes is forTypes for kernels of several shapes of tiles.
func forShapes(format string, shapes []tileShape) (names []string) {
	for _, s := range shapes {
		names = append(names, forTypes(fmt.Sprintf(format, s.name), s.types)...)
	}
	return names
}

// forSamplers is forDims for bilinear, which nearest may share, and for bicubic,
// with a kernel for flat images.
func forSamplers(name string, types []tensor.DType) []string {
	return append(append(forDims(name, types), forDims(name+"_bicubic", types)...), forTypes(name+"_flat", types)...)
}

// KernelNames lists every kernel once, sorted.
func KernelNames() (names []string) {
	for _, o := range ops {
		names = append(names, o.kernels()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
