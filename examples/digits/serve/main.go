// Serve classifies the held-out digits with the exported model, through
// isobit's plans and without cgo.
//
//	serve model.safetensors held_out.safetensors
package main

import (
	"fmt"
	"log"

	"github.com/isobit-ml/isobit/examples/serving"
	"github.com/isobit-ml/isobit/tensor"
)

// linear is a quantized linear layer.
type linear struct{ weight, scale, bias tensor.View }

// apply quantizes the rows of x and multiplies them with the layer's codes.
func (l linear) apply(x tensor.View) tensor.View {
	n, out := x.Shape[0], l.weight.Shape[0]
	codes, scale, y := tensor.New(tensor.S8, x.Shape...), tensor.New(tensor.F32, n), tensor.New(tensor.F32, n, out)
	serving.Run(fmt.Sprintf("dynamic_quantize_per_token x=%v q=s8 qmin=-127 qmax=127", &x), x, codes, scale, tensor.View{})
	serving.Run(fmt.Sprintf("quantized_linear x=%v weight=%v", &codes, &l.weight), codes, scale, l.weight, l.scale, l.bias, y)
	return y
}

// chain applies layers with relu between them.
func chain(x tensor.View, layers []linear) tensor.View {
	for i, l := range layers {
		if i > 0 {
			serving.Relu(x)
		}
		x = l.apply(x)
	}
	return x
}

// digitNet is the network of model.py.
type digitNet struct {
	embedding        tensor.View
	locate, classify []linear
}

func load(f serving.File) digitNet {
	layer := func(name string) linear {
		return linear{
			f.Get(name+".weight_codes", tensor.S8, 2),
			f.Get(name+".weight_scale", tensor.F32, 1),
			f.Get(name+".bias", tensor.F32, 1),
		}
	}
	return digitNet{
		f.Get("embedding", tensor.F32, 2),
		[]linear{layer("locate.0"), layer("locate.1"), layer("locate.2")},
		[]linear{layer("classify.0"), layer("classify.1")},
	}
}

// logits classifies square canvases of intensities, all in one batch.
func (net *digitNet) logits(canvases tensor.View) tensor.View {
	n, size, c := canvases.Shape[0], canvases.Shape[1], net.embedding.Shape[1]
	features := tensor.New(tensor.F32, n, size, size, c)
	serving.Run(fmt.Sprintf("embedding weight=%v indices=%v", &net.embedding, &canvases), net.embedding, canvases, features)

	theta := chain(reshape(features, n, size*size*c), net.locate)
	theta = reshape(theta, n, 2, 3)
	grid := tensor.New(tensor.F32, n, size, size, 2)
	serving.Run(fmt.Sprintf("affine_grid theta=%v grid=%v", &theta, &grid), theta, grid)

	// Channels come last in memory; strides show them to grid_sample as it wants them.
	input, image := features, tensor.New(tensor.F32, n, c, size, size)
	input.Shape, input.Strides = image.Shape, []int64{size * size * c, 1, size * c, c}
	serving.Run(fmt.Sprintf("grid_sample input=%v grid=%v", &input, &grid), input, grid, image)

	return chain(reshape(image, n, c*size*size), net.classify)
}

// reshape shows a compact tensor with another shape.
func reshape(v tensor.View, shape ...int64) tensor.View {
	v.Shape = shape
	return v
}

// accuracy is the part of the rows whose largest logit is the label's.
func accuracy(logits, labels tensor.View) float64 {
	values, classes, right := tensor.Slice[float32](logits), int(logits.Shape[1]), 0
	for i, label := range tensor.Slice[int64](labels) {
		best := 0
		for j, v := range values[i*classes : (i+1)*classes] {
			if v > values[i*classes+best] {
				best = j
			}
		}
		if int64(best) == label {
			right++
		}
	}
	return float64(right) / float64(labels.Shape[0])
}

func main() {
	model, heldOut := serving.Files()
	net := load(model)
	canvases, labels := heldOut.Get("canvases", tensor.U8, 3), heldOut.Get("labels", tensor.I64, 1)
	if labels.Shape[0] == 0 || labels.Shape[0] != canvases.Shape[0] || canvases.Shape[1] != canvases.Shape[2] {
		log.Fatal("want a square canvas for each label")
	}
	indices := tensor.New(tensor.I32, canvases.Shape...) // an embedding takes i32 or i64
	for i, v := range tensor.Slice[uint8](canvases) {
		tensor.Slice[int32](indices)[i] = int32(v)
	}
	logits := net.logits(indices)
	serving.Report(accuracy(logits, labels), logits)
}
