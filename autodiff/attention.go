package autodiff

import (
	"fmt"
	"math"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// AttentionOption changes what an attention does.
type AttentionOption func(*attentionOptions)

type attentionOptions struct {
	scale   *float64
	p       float64
	seed    uint64
	bias    Value
	biasErr error
	weights func(be Backend, of Value, err error) // where what queries take of keys goes
	heads   bool                                  // as its mean over the heads
}

// WithScale multiplies scores by a number in place of 1/sqrt(d).
func WithScale(scale float64) AttentionOption {
	return func(o *attentionOptions) { o.scale = &scale }
}

// WithDropout drops what queries take of each key with probability p; see Dropout.
func WithDropout(p float64, seed uint64) AttentionOption {
	return func(o *attentionOptions) { o.p, o.seed = p, seed }
}

// WithBias adds [..., l, s], or what broadcasts to it, to the scores before their softmax, such as what
// relative positions come to: PyTorch's attn_mask of floats. A query does not look at a key with -Inf.
func WithBias[B Backend](bias Float[B]) AttentionOption {
	return func(o *attentionOptions) { o.bias, o.biasErr = bias.v, bias.Err() }
}

// WithWeights sets into to what each query takes of each key, [..., l, s], of MultiheadAttention [..., heads, l, s]: after
// WithDropout, and zeros of a query that looks at no key. Gradients pass through it. It is for the caller to release.
func WithWeights[B Backend](into *Float[B]) AttentionOption {
	return func(o *attentionOptions) {
		o.heads, o.weights = false, func(be Backend, of Value, err error) {
			same, ok := be.(B)
			if !ok && err == nil {
				err = fmt.Errorf("autodiff: attention: WithWeights is of another backend than %s", be.Name())
			}
			*into = Float[B]{Tensor[B]{be: same, v: of, err: err}}
		}
	}
}

// WithMeanWeights is WithWeights with the mean over the heads, which are the third dimension from the last: PyTorch's need_weights.
func WithMeanWeights[B Backend](into *Float[B]) AttentionOption {
	set := WithWeights(into)
	return func(o *attentionOptions) {
		set(o)
		o.heads = true
	}
}

// ScaledDotProductAttention is softmax(q times transposed k / sqrt(d)) times v, for queries q [..., l, d],
// keys k [..., s, d] and values v [..., s, e], whose dimensions before these broadcast. A query looks at the
// keys where the mask [l, s], or what broadcasts to [..., l, s], holds, if it is present; see CausalMask. A mask of the
// keys that are no padding is [n, 1, s], with heads [n, 1, 1, s].
// One that looks at none gets zeros, as in PyTorch.
func (q Float[B]) ScaledDotProductAttention(k, v Float[B], mask Bool[B], options ...AttentionOption) Float[B] {
	var o attentionOptions
	for i, option := range options {
		if option == nil {
			return Float[B]{failed(q.be, "scaled_dot_product_attention: option %d is nil; want WithScale, WithDropout or WithBias", i)}
		}
		option(&o)
	}
	y := q.attend(k, v, mask, &o)
	if o.weights != nil && y.Err() != nil {
		o.weights(q.be, nil, y.Err())
	}
	return y
}

func (q Float[B]) attend(k, v Float[B], mask Bool[B], o *attentionOptions) Float[B] {
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
	if o.heads && max(q.Rank(), k.Rank(), v.Rank()) < 3 {
		return Float[B]{failed(q.be, "scaled_dot_product_attention: q is %v, k %v and v %v; want heads, [..., heads, l, d], for WithMeanWeights", q, k, v)}
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	var scaled Float[B]
	if o.scale != nil {
		scaled = keep(q.MulScalar(*o.scale))
	} else {
		scaled = keep(q.DivScalar(math.Sqrt(float64(max(q.extent(-1), 1)))))
	}
	scores := keep(scaled.matmul(k, asIs, transposed))
	var seen Bool[B] // the keys that queries look at; absent: all
	if o.bias != nil || o.biasErr != nil {
		bias := Float[B]{Tensor[B]{be: q.be, v: o.bias, err: o.biasErr}}
		if err := scores.covers("bias", bias.Tensor); err != nil {
			return Float[B]{Tensor[B]{be: q.be, err: err}}
		}
		scores = keep(scores.Add(bias))
		seen = bias.NotEqualScalar(math.Inf(-1))
		defer seen.Release()
	}
	if mask.Present() {
		if err := scores.covers("mask", mask.Tensor); err != nil {
			return Float[B]{Tensor[B]{be: q.be, err: err}}
		}
		hidden := mask.Not()
		defer hidden.Release()
		scores = keep(scores.MaskFill(hidden, math.Inf(-1)))
		if !seen.Present() {
			seen = mask
		} else {
			seen = seen.And(mask)
			defer seen.Release()
		}
	}
	blind, err := seen.blind()
	if err != nil {
		return Float[B]{Tensor[B]{be: q.be, err: err}}
	}
	if blind.Present() {
		defer blind.Release()
		scores = keep(scores.MaskFill(blind, 0)) // so that neither what is thrown away nor its gradient is NaN
	}
	weights := keep(scores.Softmax(-1))
	if o.p != 0 {
		weights = keep(weights.Dropout(o.p, o.seed))
	}
	if o.weights != nil {
		if blind.Present() {
			weights = keep(weights.MaskFill(blind, 0))
		}
		taken := weights.Reshape(weights.Shape()...)
		if o.heads {
			taken = keep(taken).Mean(-3)
		}
		o.weights(q.be, taken.v, taken.Err())
	}
	y := weights.MatMul(v)
	if blind.Present() {
		return keep(y).MaskFill(blind, 0)
	}
	return y
}

// blind tells, as [..., l, 1], which rows of a mask [..., l, s] hold nowhere; nothing where there is no such row, no mask, or no
// key, whose results are zeros anyway.
func (x Bool[B]) blind() (none Bool[B], err error) {
	if !x.Present() {
		return none, nil
	}
	view, err := x.View()
	if err != nil || x.Len() == 0 {
		return none, err
	}
	shape := append(x.Shape(), 1)
	last := max(x.Rank()-1, 0)
	s := shape[last]
	shape = append(shape[:last], 1)
	rows, found := make([]bool, 0, x.Len()/s), false
	for row := range slices.Chunk(tensor.Slice[bool](view), s) {
		hidden := !slices.Contains(row, true)
		rows, found = append(rows, hidden), found || hidden
	}
	if !found {
		return none, nil
	}
	return Bools(x.be, rows, shape...), nil
}

// covers checks that t broadcasts to the scores of an attention.
func (x Float[B]) covers(name string, t Tensor[B]) error {
	if x.Err() != nil || t.Err() != nil {
		return nil // whoever uses them has the error
	}
	shape := infoOf(x.v).Shape
	if to, err := broadcast(shape, infoOf(t.v).Shape); err != nil || !slices.Equal(to, shape) {
		return fmt.Errorf("autodiff: scaled_dot_product_attention: the %s is %v; want what broadcasts to %s, [..., l, s]", name, t, tensor.ShapeText(shape))
	}
	return nil
}

// CausalMask holds at [i, j] where j is not after i: a query looks at no later key. There are n queries and as many keys,
// or another number of those; the first query is beside the first key, as with PyTorch's is_causal.
func CausalMask[B Backend](be B, n int, keys ...int) Bool[B] {
	s := n
	switch len(keys) {
	case 0:
	case 1:
		s = keys[0]
	default:
		return Bool[B]{failed(be, "causal_mask: %d numbers of keys; want one, or none for as many as queries", len(keys))}
	}
	key := Arange(be, 0, 1, s)
	defer key.Release()
	all := key
	if s != n {
		all = Arange(be, 0, 1, n)
		defer all.Release()
	}
	query := all.Unsqueeze(1)
	defer query.Release()
	later := key.Greater(query)
	defer later.Release()
	return later.Not()
}
