package autodiff

import (
	"fmt"
	"math"
)

// What layers learn and remember, under PyTorch's names.

// Linear makes the weight [out, in] and the bias [out] of a fully connected
// layer, named name.weight and name.bias, uniform within 1/sqrt(in).
func (p *Params[B]) Linear(name string, in, out int) (weight, bias Float[B]) {
	return p.uniformLayer(name, in, out, out, in)
}

// Conv2d makes the weight [out, in, kernel, kernel] and the bias [out] of a
// convolution, uniform within 1/sqrt(in*kernel*kernel).
func (p *Params[B]) Conv2d(name string, in, out, kernel int) (weight, bias Float[B]) {
	return p.uniformLayer(name, in*kernel*kernel, out, out, in, kernel, kernel)
}

// ConvTranspose2d makes the weight [in, out, kernel, kernel] and the bias [out] of a transposed convolution,
// uniform within 1/sqrt(out*kernel*kernel), as PyTorch's are.
func (p *Params[B]) ConvTranspose2d(name string, in, out, kernel int) (weight, bias Float[B]) {
	return p.uniformLayer(name, out*kernel*kernel, out, in, out, kernel, kernel)
}

// Conv1d makes the weight [out, in, kernel] and the bias [out] of a convolution of sequences; see Conv2d.
func (p *Params[B]) Conv1d(name string, in, out, kernel int) (weight, bias Float[B]) {
	return p.uniformLayer(name, in*kernel, out, out, in, kernel)
}

// Conv3d makes the weight [out, in, kernel, kernel, kernel] and the bias [out] of a convolution of volumes; see Conv2d.
func (p *Params[B]) Conv3d(name string, in, out, kernel int) (weight, bias Float[B]) {
	return p.uniformLayer(name, in*kernel*kernel*kernel, out, out, in, kernel, kernel, kernel)
}

// ConvTranspose1d makes the weight [in, out, kernel] and the bias [out]; see ConvTranspose2d.
func (p *Params[B]) ConvTranspose1d(name string, in, out, kernel int) (weight, bias Float[B]) {
	return p.uniformLayer(name, out*kernel, out, in, out, kernel)
}

// ConvTranspose3d makes the weight [in, out, kernel, kernel, kernel] and the bias [out]; see ConvTranspose2d.
func (p *Params[B]) ConvTranspose3d(name string, in, out, kernel int) (weight, bias Float[B]) {
	return p.uniformLayer(name, out*kernel*kernel*kernel, out, in, out, kernel, kernel, kernel)
}

// uniformLayer makes a weight of this shape and the bias [out], uniform by the number of terms of an output.
func (p *Params[B]) uniformLayer(name string, terms, out int, shape ...int) (weight, bias Float[B]) {
	bound := boundOf(terms)
	return p.Uniform(name+".weight", bound, shape...), p.Uniform(name+".bias", bound, out)
}

// Embedding makes the weight [rows, d] of an Embedding or an EmbeddingBag, named name.weight, normally distributed around 0, with
// zeros in the row of the padding, if one is named.
func (p *Params[B]) Embedding(name string, rows, d int, padding ...int) Float[B] {
	return p.get(name+".weight", []int{rows, d}, isParameter, func(seed uint64) Float[B] {
		x := Normal(p.be, seed, 0, 1, rows, d)
		for _, row := range padding {
			x = x.SliceAssign(0, row, Zeros(p.be, 1, d))
		}
		return x
	})
}

// Norm makes the weight [n], of ones, and the bias [n], of zeros, of a normalisation.
func (p *Params[B]) Norm(name string, n int) (weight, bias Float[B]) {
	return p.Full(name+".weight", 1, n), p.Zeros(name+".bias", n)
}

// BatchNorm makes those of a batch normalisation of n channels, with the names that PyTorch has: name.weight
// and name.bias, as Norm does, and the buffers name.running_mean, of zeros, and name.running_var, of ones.
func (p *Params[B]) BatchNorm(name string, n int) BatchNorm[B] {
	weight, bias := p.Norm(name, n)
	return BatchNorm[B]{weight, bias, p.Buffer(name+".running_mean", 0, n), p.Buffer(name+".running_var", 1, n)}
}

// LSTM makes the parameters of a layer of an LSTM, uniform within 1/sqrt(hidden), with the names that PyTorch
// has: name.weight_ih_l0, name.weight_hh_l0, name.bias_ih_l0 and name.bias_hh_l0 where layer is 0.
func (p *Params[B]) LSTM(name string, layer, in, hidden int) Recurrent[B] {
	return p.recurrent(name, layer, in, hidden, 4)
}

// GRU makes the parameters of a layer of a GRU; see LSTM.
func (p *Params[B]) GRU(name string, layer, in, hidden int) Recurrent[B] {
	return p.recurrent(name, layer, in, hidden, 3)
}

func (p *Params[B]) recurrent(name string, layer, in, hidden, gates int) Recurrent[B] {
	make := func(of string, shape ...int) Float[B] {
		return p.Uniform(fmt.Sprintf("%s.%s_l%d", name, of, layer), boundOf(hidden), shape...)
	}
	rows := gates * hidden
	return Recurrent[B]{make("weight_ih", rows, in), make("weight_hh", rows, hidden), make("bias_ih", rows), make("bias_hh", rows)}
}

// Attention makes the parameters of a MultiheadAttention over d features, with the names that PyTorch has:
// name.in_proj_weight, uniform within sqrt(6/(d+3d)), name.out_proj.weight, within 1/sqrt(d), and biases of zeros.
func (p *Params[B]) Attention(name string, d int) Attention[B] {
	return Attention[B]{
		InWeight: p.Uniform(name+".in_proj_weight", math.Sqrt(6)*boundOf(4*d), 3*d, d), InBias: p.Zeros(name+".in_proj_bias", 3*d),
		OutWeight: p.Uniform(name+".out_proj.weight", boundOf(d), d, d), OutBias: p.Zeros(name+".out_proj.bias", d),
	}
}

// CrossAttention makes the parameters of a MultiheadCrossAttention whose queries have d features, and keys and values
// numbers of their own: as Attention does where all are d, else name.q_proj_weight, name.k_proj_weight and
// name.v_proj_weight, uniform within sqrt(6/(d+features)), and the biases and the result's as there.
func (p *Params[B]) CrossAttention(name string, d, keys, values int) Attention[B] {
	if keys == d && values == d {
		return p.Attention(name, d)
	}
	weight := func(of string, features int) Float[B] {
		return p.Uniform(name+of, math.Sqrt(6)*boundOf(d+features), d, features)
	}
	return Attention[B]{
		InWeight: weight(".q_proj_weight", d), KWeight: weight(".k_proj_weight", keys), VWeight: weight(".v_proj_weight", values),
		InBias:    p.Zeros(name+".in_proj_bias", 3*d),
		OutWeight: p.Uniform(name+".out_proj.weight", boundOf(d), d, d), OutBias: p.Zeros(name+".out_proj.bias", d),
	}
}

// boundOf returns the bound of a layer's parameters: 1, not an infinity, where nothing goes in.
func boundOf(in int) float64 { return 1 / math.Sqrt(float64(max(in, 1))) }
