package plans

// ops is the table of operations: what exists is what stands here.
var ops = makeOps()

func makeOps() (table []op) {
	for _, f := range []groupedOp{
		quantize, quantizeBackward, dequantize, dequantizeBackward,
		fakeQuantize, fakeQuantizeBackward, chooseQParams, dynamicQuantize,
	} {
		for _, g := range granularities {
			table = append(table, f.at(g))
		}
	}
	return append(table, embedding, embeddingBackward, embeddingRenorm,
		embeddingBag, embeddingBagBackward, embeddingBagWeights, weightOnlyEmbeddingBag,
		gridSample, gridSampleBackward, gridSampleDoubleBackward, affineGrid, affineGridBackward,
		quantizedLinear, quantizedLinearPerGroup, weightOnlyLinear, matmul)
}

// opByName returns the op with a name, or nil.
func opByName(name string) *op {
	for i := range ops {
		if ops[i].name == name {
			return &ops[i]
		}
	}
	return nil
}

// OpNames lists the ops.
func OpNames() (names []string) {
	for i := range ops {
		names = append(names, ops[i].name)
	}
	return names
}
