// Serve classifies held-out users' candidates with the exported recommender,
// through isobit's plans and without cgo.
//
//	serve model.safetensors held_out.safetensors
package main

import (
	"fmt"
	"log"

	"github.com/isobit-ml/isobit/examples/serving"
	"github.com/isobit-ml/isobit/tensor"
)

// linear is the linear layer of this name.
func linear(f serving.File, name string, x tensor.View) tensor.View {
	weight, bias := f.Get(name+".weight", tensor.F32, 2), f.Get(name+".bias", tensor.F32, 1)
	n, out, in := x.Shape[0], weight.Shape[0], weight.Shape[1]
	y, transposed := tensor.New(tensor.F32, n, out), weight
	transposed.Shape, transposed.Strides = []int64{in, out}, []int64{1, in}
	serving.Run(fmt.Sprintf("matmul input=%v other=%v bias=f32", &x, &transposed), x, transposed, bias, y)
	return y
}

// logits are those of the candidates, [n, 1].
func logits(model, users serving.File) tensor.View {
	seen, offsets, candidate := users.Get("seen", tensor.I64, 1), users.Get("offsets", tensor.I64, 1), users.Get("candidate", tensor.I64, 1)
	bags, items := model.Get("seen.weight", tensor.F32, 2), model.Get("candidate.weight", tensor.F32, 2)
	x, item := tensor.New(tensor.F32, candidate.Shape[0], bags.Shape[1]), tensor.New(tensor.F32, candidate.Shape[0], items.Shape[1])
	serving.Run(fmt.Sprintf("embedding_bag weight=%v indices=%v offsets=%v mode=mean", &bags, &seen, &offsets), bags, seen, offsets, tensor.View{}, x, tensor.View{})
	serving.Run(fmt.Sprintf("embedding weight=%v indices=%v", &items, &candidate), items, candidate, item)
	values := tensor.Slice[float32](x)
	for i, v := range tensor.Slice[float32](item) {
		values[i] *= v
	}
	hidden := linear(model, "hidden", x)
	serving.Relu(hidden)
	return linear(model, "last", hidden)
}

func main() {
	model, users := serving.Files()
	result, labels, right := logits(model, users), users.Get("labels", tensor.I64, 1), 0
	if labels.Shape[0] == 0 || labels.Shape[0] != result.Shape[0] {
		log.Fatal("want a label for each candidate")
	}
	for i, label := range tensor.Slice[int64](labels) {
		if (tensor.Slice[float32](result)[i] > 0) == (label == 1) {
			right++
		}
	}
	serving.Report(float64(right)/float64(labels.Shape[0]), result)
}
