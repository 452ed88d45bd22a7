package cpu

import (
	"sync"

	"github.com/isobit-ml/isobit/tensor"
)

// matmulDotRows has the row for products of bf16, which takes pairs of them.
var matmulDotRows = []Row[MatmulRow]{{"avx512bf16", AVX512, func(t Types) (MatmulRow, bool) {
	if t.In[0] != tensor.BF16 || t.In[1] != tensor.BF16 || !hasDots() {
		return MatmulRow{}, false
	}
	return newKernelMatmul[float32](AVX512, &dotKernels, t), true
}}}

var dotKernels = matmulDots{
	newMatmulPanels(AVX512, dotSquare, matmulDotsAVX512, matmulHalfDotsAVX512),
	newMatmulTransposed[matmulTransposedDots](AVX512, dotSquare, matmulTransposedDotsAVX512, matmulTransposedWideDotsAVX512),
	swapPairsAVX512, transposePairsAVX512, pairRowsAVX512, pairColumnsAVX512,
}

var hasDots = sync.OnceValue(func() bool { return hasBF16() && dotKernels.dotsAreChains() })
