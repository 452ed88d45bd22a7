package autodiff

import (
	"math"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// ScaledDotProductAttention is softmax(q times transposed k / sqrt(d)) times v, for queries q [..., l, d],
// keys k [..., s, d] and values v [..., s, e], whose dimensions before these broadcast. A query looks at the
// keys where the mask [l, s], or what broadcasts to [..., l, s], holds, if it is present; see CausalMask.
// One that looks at none gets NaN.
func (q Float[B]) ScaledDotProductAttention(k, v Float[B], mask Bool[B]) Float[B] {
	for _, p := range []struct {
		name string
		Float[B]
	}{{"q", q}, {"k", k}, {"v", v}} {
		switch {
		case p.Err() != nil:
			return p.Float
		case p.Rank() < 2:
			return Float[B]{failed(q.be, "scaled_dot_product_attention: %s is %v; want [..., l, d], k [..., s, d] and v [..., s, e]", p.name, p.Float)}
		}
	}
	if q.extent(-1) != k.extent(-1) || k.extent(-2) != v.extent(-2) {
		return Float[B]{failed(q.be, "scaled_dot_product_attention: q is %v, k %v and v %v; want [..., l, d], [..., s, d] and [..., s, e]", q, k, v)}
	}
	var made temporaries[B]
	defer made.release()
	scores := made.add(made.add(q.DivScalar(math.Sqrt(float64(max(q.extent(-1), 1))))).matmul(k, asIs, transposed))
	if mask.Present() {
		if to, err := broadcast(infoOf(scores.v).Shape, infoOf(mask.v).Shape); scores.Err() == nil && mask.Err() == nil && (err != nil || !slices.Equal(to, infoOf(scores.v).Shape)) {
			return Float[B]{failed(q.be, "scaled_dot_product_attention: the mask is %v; want what broadcasts to %s, [..., l, s]", mask, tensor.ShapeText(infoOf(scores.v).Shape))}
		}
		hidden := mask.Not()
		defer hidden.Release()
		scores = made.add(scores.MaskFill(hidden, math.Inf(-1)))
	}
	return made.add(scores.Softmax(-1)).MatMul(v)
}

// CausalMask holds at [i, j] where j is not after i: a query looks at no later key.
func CausalMask[B Backend](be B, n int) Bool[B] {
	key := Arange(be, 0, 1, n)
	defer key.Release()
	query := key.Unsqueeze(1)
	defer query.Release()
	later := key.Greater(query)
	defer later.Release()
	return later.Not()
}

// Attention holds the parameters of a MultiheadAttention over features of extent d: three matrices below
// each other, for queries, keys and values, [3d, d], and that of the result [d, d], with their biases,
// which may be absent.
type Attention[B Backend] struct{ InWeight, InBias, OutWeight, OutBias Float[B] }

// MultiheadAttention lets every position of x [..., l, d] look at all of them, or where the mask holds, in
// as many heads as d is cut into.
func (x Float[B]) MultiheadAttention(heads int, p Attention[B], mask Bool[B]) Float[B] {
	if x.Err() != nil {
		return x
	}
	if x.Rank() < 2 || heads < 1 || x.extent(-1)%heads != 0 {
		return Float[B]{failed(x.be, "multihead_attention: x is %v in %d heads; want [..., l, d], with a d that is a multiple of the heads", x, heads)}
	}
	shape, d := x.Shape(), x.extent(-1)
	for _, w := range []struct {
		name string
		Float[B]
		rows int
	}{{"InWeight", p.InWeight, 3 * d}, {"OutWeight", p.OutWeight, d}} {
		if w.Err() == nil && !slices.Equal(w.Shape(), []int{w.rows, d}) {
			return Float[B]{failed(x.be, "multihead_attention: %s is %v; want shape [%d, %d], to go with x of %v", w.name, w.Float, w.rows, d, x)}
		}
	}
	var made temporaries[B]
	defer made.release()
	keep, before := made.add, shape[:len(shape)-1]
	parts := keep(keep(x.Linear(p.InWeight, p.InBias)).Reshape(slices.Concat(before, []int{3, heads, d / heads})...))
	part := func(i int) Float[B] {
		return keep(keep(keep(parts.Slice(-3, i, i+1)).Squeeze(-3)).Transpose(-3, -2))
	}
	y := keep(part(0).ScaledDotProductAttention(part(1), part(2), mask))
	return keep(keep(y.Transpose(-3, -2)).Reshape(shape...)).Linear(p.OutWeight, p.OutBias)
}
