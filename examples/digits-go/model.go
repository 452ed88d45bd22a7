package main

import (
	"fmt"

	"github.com/isobit-ml/isobit/autodiff"
	"github.com/isobit-ml/isobit/tensor"
)

const (
	features = 4 // per pixel
	inputs   = canvas * canvas * features
)

// layer is a quantized linear layer.
type layer[B autodiff.Backend] struct{ weight, bias autodiff.Float[B] }

// chain applies layers with relu between them.
func chain[B autodiff.Backend](x autodiff.Float[B], layers []layer[B]) autodiff.Float[B] {
	for i, l := range layers {
		if i > 0 {
			x = x.Relu()
		}
		x = x.QuantizedLinear(l.weight, l.bias)
	}
	return x
}

// digitNet is the network of examples/digits/model.py: a localisation network
// looks at the canvas and predicts the map that undoes the distortion.
type digitNet[B autodiff.Backend] struct {
	embedding        autodiff.Float[B]
	locate, classify []layer[B]
}

func newNet[B autodiff.Backend](p *autodiff.Params[B]) digitNet[B] {
	linear := func(name string, in, out int) layer[B] {
		w, b := p.Linear(name, in, out)
		return layer[B]{w, b}
	}
	be := p.Backend()
	// Features that begin near the intensity, and a map near the identity.
	table := autodiff.Normal(be, 17, 0, 0.1, levels, features)
	ramp := autodiff.Arange(be, 0, 1, levels).ToFloat().DivScalar(levels - 1).Unsqueeze(1)
	last := autodiff.Uniform(be, 18, -0.1, 0.1, 6, 32).DivScalar(5.6) // a tenth of 1/sqrt(32)
	return digitNet[B]{
		embedding: p.Add("embedding", table.SliceAssign(1, 0, ramp)),
		locate: []layer[B]{
			linear("locate.0", inputs, 64),
			linear("locate.1", 64, 32),
			{p.Add("locate.2.weight", last), p.Add("locate.2.bias", autodiff.Floats(be, []float32{1, 0, 0, 0, 1, 0}))},
		},
		classify: []layer[B]{linear("classify.0", inputs, 128), linear("classify.1", 128, 10)},
	}
}

// forward turns intensities [n, canvas, canvas] into logits [n, 10].
func (net *digitNet[B]) forward(intensities autodiff.Int[B]) autodiff.Float[B] {
	n := intensities.Shape()[0]
	features := net.embedding.Embedding(intensities)
	theta := chain(features.Flatten(1), net.locate).Reshape(n, 2, 3)
	image := features.Permute(0, 3, 1, 2)
	grid := theta.AffineGrid(false, image.Shape()...)
	return chain(image.GridSample(grid, autodiff.SampleMode{}).Flatten(1), net.classify)
}

// export returns the network as serving needs it, under the names of
// examples/digits/export.py: s8 codes and scales instead of weights.
func (net *digitNet[B]) export() (tensors []autodiff.NamedView, err error) {
	add := func(name string, x autodiff.Tensor[B]) {
		v, viewErr := x.View()
		if viewErr != nil && err == nil {
			err = viewErr
		}
		tensors = append(tensors, autodiff.NamedView{Name: name, View: v})
	}
	add("embedding", net.embedding.Tensor)
	parts := []struct {
		name   string
		layers []layer[B]
	}{{"locate", net.locate}, {"classify", net.classify}}
	for _, part := range parts {
		for i, l := range part.layers {
			name := fmt.Sprintf("%s.%d", part.name, i)
			q := l.weight.QuantizeDynamic(autodiff.PerToken(-127, 127))
			add(name+".weight_codes", q.Codes)
			add(name+".weight_scale", q.Scale.Tensor)
			add(name+".bias", l.bias.Tensor)
		}
	}
	return tensors, err
}

// heldOutFile is what the serving programs classify.
func heldOutFile(canvases []int32, labels []int64) []autodiff.NamedView {
	codes := make([]uint8, len(canvases))
	for i, v := range canvases {
		codes[i] = uint8(v)
	}
	n := int64(len(labels))
	return []autodiff.NamedView{
		{Name: "canvases", View: tensor.Of(codes, n, canvas, canvas)},
		{Name: "labels", View: tensor.Of(labels, n)},
	}
}
