package autodiff

import (
	"cmp"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// Attention holds the parameters of a MultiheadAttention over features of extent d: three matrices below
// each other, for queries, keys and values, [3d, d], and that of the result [d, d], with their biases [3d] and [d],
// which may be absent. Where keys and values have other features than queries, KWeight [d, features of keys] and
// VWeight [d, features of values] are theirs, and InWeight [d, d] is that of the queries alone.
type Attention[B Backend] struct{ InWeight, InBias, OutWeight, OutBias, KWeight, VWeight Float[B] }

// MultiheadAttention lets every position of x [..., l, d] look at all of them, or where the mask holds, in
// as many heads as d is cut into. The mask broadcasts to [..., heads, l, l].
func (x Float[B]) MultiheadAttention(heads int, p Attention[B], mask Bool[B], options ...AttentionOption) Float[B] {
	if err := x.checkHeads("multihead_attention", heads); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if p.KWeight.Present() || p.VWeight.Present() {
		return x.MultiheadCrossAttention(x, x, heads, p, mask, options...)
	}
	shape, d := x.Shape(), x.extent(-1)
	if err := cmp.Or(x.checkWeight("multihead_attention", "InWeight", p.InWeight, 3*d, d), x.checkWeight("multihead_attention", "OutWeight", p.OutWeight, d, d)); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	var made temporaries[B]
	defer made.release()
	keep, before := made.add, shape[:len(shape)-1]
	parts := keep(keep(x.Linear(p.InWeight, p.InBias)).Reshape(slices.Concat(before, []int{3, heads, d / heads})...))
	part := func(i int) Float[B] {
		return keep(keep(keep(parts.Slice(-3, i, i+1)).Squeeze(-3)).Transpose(-3, -2))
	}
	y := keep(part(0).ScaledDotProductAttention(part(1), part(2), mask, options...))
	return keep(keep(y.Transpose(-3, -2)).Reshape(shape...)).Linear(p.OutWeight, p.OutBias)
}

// MultiheadCrossAttention lets every position of x [..., l, d] look at the keys k [..., s, features] of another
// sequence and take of its values v [..., s, features], as a decoder does with what an encoder made; see
// MultiheadAttention. The mask broadcasts to [..., heads, l, s].
func (x Float[B]) MultiheadCrossAttention(k, v Float[B], heads int, p Attention[B], mask Bool[B], options ...AttentionOption) Float[B] {
	const name = "multihead_cross_attention"
	if err := cmp.Or(x.checkHeads(name, heads), k.Err(), v.Err()); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if k.Rank() < 2 || v.Rank() < 2 || k.extent(-2) != v.extent(-2) {
		return Float[B]{failed(x.be, "%s: k is %v and v %v; want [..., s, features] both", name, k, v)}
	}
	d, packed := x.extent(-1), !p.KWeight.Present() && !p.VWeight.Present()
	rows := d
	if packed {
		rows = 3 * d
	}
	err := cmp.Or(x.checkWeight(name, "InWeight", p.InWeight, rows, d), x.checkWeight(name, "OutWeight", p.OutWeight, d, d))
	switch {
	case err != nil:
	case packed && (k.extent(-1) != d || v.extent(-1) != d):
		err = failed(x.be, "%s: k is %v and v %v; want features of extent %d, as x of %v has, without KWeight and VWeight", name, k, v, d, x).err
	case !packed:
		err = cmp.Or(x.checkWeight(name, "KWeight", p.KWeight, d, k.extent(-1)), x.checkWeight(name, "VWeight", p.VWeight, d, v.extent(-1)))
	}
	if p.InBias.Err() == nil && !slices.Equal(p.InBias.Shape(), []int{3 * d}) {
		err = cmp.Or(err, failed(x.be, "%s: InBias is %v; want shape [%d]", name, p.InBias, 3*d).err)
	}
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	weights := [3]Float[B]{p.InWeight, p.KWeight, p.VWeight}
	var in [3]Float[B]
	for i, t := range [3]Float[B]{x, k, v} {
		w, b := weights[i], p.InBias
		if packed {
			w = keep(p.InWeight.Slice(0, i*d, (i+1)*d))
		}
		if b.Present() {
			b = keep(b.Slice(0, i*d, (i+1)*d))
		}
		shape := t.Shape()
		split := keep(keep(t.Linear(w, b)).Reshape(slices.Concat(shape[:len(shape)-1], []int{heads, d / heads})...))
		in[i] = keep(split.Transpose(-3, -2))
	}
	y := keep(keep(in[0].ScaledDotProductAttention(in[1], in[2], mask, options...)).Transpose(-3, -2))
	shape := y.Shape()
	if y.Err() != nil {
		return y
	}
	return keep(y.Reshape(append(shape[:len(shape)-2], d)...)).Linear(p.OutWeight, p.OutBias)
}

func (x Float[B]) checkHeads(name string, heads int) error {
	if x.Err() != nil {
		return x.Err()
	}
	if x.Rank() < 2 || heads < 1 || x.extent(-1)%heads != 0 {
		return failed(x.be, "%s: x is %v in %d heads; want [..., l, d], with a d that is a multiple of the heads", name, x, heads).err
	}
	return nil
}

// checkWeight checks the shape of a matrix. Whoever uses one that is absent says so.
func (x Float[B]) checkWeight(name, of string, w Float[B], rows, columns int) error {
	if want := []int{rows, columns}; w.Err() == nil && !slices.Equal(w.Shape(), want) {
		return failed(x.be, "%s: %s is %v; want shape %s, to go with x of %v", name, of, w, tensor.ShapeText(wide(want)), x).err
	}
	return nil
}
