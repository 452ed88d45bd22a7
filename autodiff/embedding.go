package autodiff

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/isobit-ml/isobit/tensor"
)

// EmbeddingOption changes what an Embedding or an EmbeddingBag does.
type EmbeddingOption func(*Attr)

// WithPaddingIdx names the row of indices that do not count: they give its row no gradient, and a bag leaves them out. A negative
// number counts from the last row.
func WithPaddingIdx(row int) EmbeddingOption {
	at := int64(row)
	return func(a *Attr) { a.PaddingIdx = &at }
}

// WithScaleGradByFreq divides the gradient of each row by how often it was looked up. Bags of the mode "max" have none such.
func WithScaleGradByFreq() EmbeddingOption { return func(a *Attr) { a.ByFrequency = true } }

// WithMaxNorm scales the rows that are looked up down to a norm of most, before they are: the weight changes in place, as by an
// Optimizer, and no gradient tells of it. The norm is the p-th root of the sum of |x|^p.
func WithMaxNorm(most, p float64) EmbeddingOption {
	return func(a *Attr) { a.Renorm, a.Floats[0], a.Floats[1] = true, most, p }
}

// WithIncludeLastOffset says that a bag's offsets have one more number, where the last bag ends.
func WithIncludeLastOffset() EmbeddingOption { return func(a *Attr) { a.LastOffset = true } }

// Embedding looks up rows of the weight x [v, d]: for indices of any shape the
// result has one dimension more. An index out of range is an error.
func (x Float[B]) Embedding(indices Int[B], options ...EmbeddingOption) Float[B] {
	var at Attr
	if err := at.embeddingOptions("embedding", options); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if at.LastOffset {
		return Float[B]{failed(x.be, "embedding: WithIncludeLastOffset; want it with EmbeddingBag, which has offsets")}
	}
	if err := x.renorm(&at, indices); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	return Float[B]{x.run(OpEmbedding, &at, indices.Tensor)}
}

// EmbeddingBag looks up rows of the weight x [v, d] and returns for each bag of indices their sum, their mean or, column by
// column, the largest: mode is "sum", "mean" or "max". Each row of indices [b, l] is a bag, or, of indices [n], what follows each
// of the offsets [b], of which the first is 0 and none less than the one before. The result is [b, d], of a bag without indices
// zeros. Factors, PyTorch's per_sample_weights of the indices' shape, multiply the row of each index; they may be absent, and are
// for the mode "sum".
func (x Float[B]) EmbeddingBag(indices, offsets Int[B], factors Float[B], mode string, options ...EmbeddingOption) Float[B] {
	at := Attr{Mode: mode}
	if err := at.embeddingOptions("embedding_bag", options); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if at.ByFrequency && mode == "max" {
		return Float[B]{failed(x.be, "embedding_bag: WithScaleGradByFreq with the mode %q; want sum or mean", mode)}
	}
	if err := x.renorm(&at, indices); err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	out := x.runAll(OpEmbeddingBag, &at, indices.Tensor, offsets.Tensor, factors.Tensor)
	out[1].Release() // the graph holds the positions, if it needs them
	return Float[B]{out[0]}
}

// renorm scales rows of the weight in place, if at says so. Whoever looks them up has the errors of tensors.
func (x Float[B]) renorm(at *Attr, indices Int[B]) error {
	if !at.Renorm || x.Err() != nil || indices.Err() != nil {
		return nil
	}
	_, err := x.be.Run(OpEmbeddingRenorm, at, x.v, indices.v)
	return err
}

func renormed(_ *Attr, in []Info) ([3]Info, error) {
	if len(in[0].Shape) != 2 || !in[0].DType.IsFloat() {
		return fail("the weight is %v; want floats [v, d]", in[0])
	}
	return [3]Info{}, isIndex(in[1])
}

func (a *Attr) embeddingOptions(name string, options []EmbeddingOption) error {
	for i, option := range options {
		if option == nil {
			return fmt.Errorf("autodiff: %s: option %d is nil; want WithPaddingIdx or its like", name, i)
		}
		option(a)
	}
	return nil
}

// paddingOf checks the row that does not count, and counts it from the first one.
func paddingOf(at *Attr, weight Info) error {
	if at.PaddingIdx == nil {
		return nil
	}
	rows, row := weight.Shape[0], *at.PaddingIdx
	if row < -rows || row >= rows {
		return fmt.Errorf("the padding is row %d of the weight %v; want %d to %d", row, weight, -rows, rows-1)
	}
	if row < 0 {
		row += rows
		at.PaddingIdx = &row
	}
	return nil
}

func embedding(at *Attr, in []Info) ([3]Info, error) {
	if len(in[0].Shape) != 2 {
		return fail("the weight is %v; want [v, d]", in[0])
	}
	if err := paddingOf(at, in[0]); err != nil {
		return fail("%w", err)
	}
	return one(in[0].DType, append(slices.Clip(in[1].Shape), in[0].Shape[1]))
}

var bagModes = []string{"sum", "mean", "max"}

func embeddingBag(at *Attr, in []Info) ([3]Info, error) {
	weight, indices, offsets, factors := in[0], in[1], in[2], in[3]
	if len(weight.Shape) != 2 || !weight.DType.IsFloat() {
		return fail("the weight is %v; want floats [v, d]", weight)
	}
	if err := isIndex(indices); err != nil {
		return fail("%w", err)
	}
	if !slices.Contains(bagModes, at.Mode) {
		return fail("the mode is %q; want one of %v", at.Mode, bagModes)
	}
	if err := paddingOf(at, weight); err != nil {
		return fail("%w", err)
	}
	rank, form := 2, "[b, l], or [n] and offsets [b]"
	if offsets.DType != tensor.None {
		rank, form = 1, "[n], beside offsets [b]"
		if err := isIndex(offsets); err != nil || len(offsets.Shape) != 1 {
			return fail("the offsets are %v; want i32 or i64 [b]", offsets)
		}
	} else if at.LastOffset {
		return fail("there are no offsets to include a last one")
	}
	if len(indices.Shape) != rank {
		return fail("indices are %v; want %s", indices, form)
	}
	if factors.DType != tensor.None {
		if at.Mode != "sum" {
			return fail("there are per_sample_weights with the mode %q; want \"sum\"", at.Mode)
		}
		if factors.DType != weight.DType || !slices.Equal(factors.Shape, indices.Shape) {
			return fail("the per_sample_weights are %v; want %v, a number for each index", factors, Info{weight.DType, indices.Shape})
		}
	}
	bags := indices.Shape[0]
	if rank == 1 {
		bags = offsets.Shape[0]
		if at.LastOffset {
			if bags--; bags < 0 {
				return fail("the offsets are %v; want the last one at least", offsets)
			}
		}
	}
	shape := []int64{bags, weight.Shape[1]}
	if at.Mode == "max" {
		return [3]Info{{weight.DType, shape}, {tensor.I64, shape}}, nil
	}
	return one(weight.DType, shape)
}

// bagFactors is the rule of the gradient of per_sample_weights.
func bagFactors(_ *Attr, in []Info) ([3]Info, error) { return one(in[1].DType, in[2].Shape) }

func (j *job) padding() *job {
	if row := j.k.at.PaddingIdx; row != nil {
		j.number("padding_idx", *row)
	}
	return j
}

// frequency adds that gradients are divided by how many terms they have.
func (j *job) frequency() *job {
	if j.k.at.ByFrequency {
		j.truth("scale_grad_by_freq", true)
	}
	return j
}

// optional is shaped, of an argument that may be absent.
func (j *job) optional(name string, t *cpuTensor) *job {
	if t == nil {
		return j.typed(name, nil)
	}
	return j.shaped(name, t)
}

func planEmbedding(k *call) error {
	return k.plan("embedding").shaped("weight", k.in[0]).shaped("indices", k.in[1]).hidden(k.out[0]).run()
}

func planEmbeddingBackward(k *call) error {
	return k.plan("embedding_backward").shaped("grad_output", k.in[0]).shaped("indices", k.in[1]).shaped("grad_weight", k.out[0]).padding().frequency().run()
}

func planEmbeddingRenorm(k *call) error {
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return k.plan("embedding_renorm").shaped("weight", k.in[0]).shaped("indices", k.in[1]).word("max_norm", float(k.at.Floats[0])).word("norm_type", float(k.at.Floats[1])).run()
}

func planEmbeddingBag(k *call) error {
	return k.plan("embedding_bag").shaped("weight", k.in[0]).shaped("indices", k.in[1]).optional("offsets", k.in[2]).typed("per_sample_weights", k.in[3]).
		hidden(k.out[0]).typed("chosen", k.out[1]).bags().word("mode", k.at.Mode).run()
}

func planEmbeddingBagBackward(k *call) error {
	return k.plan("embedding_bag_backward").shaped("grad_output", k.in[0]).shaped("indices", k.in[1]).optional("offsets", k.in[2]).typed("per_sample_weights", k.in[3]).
		typed("chosen", k.in[4]).shaped("grad_weight", k.out[0]).bags().frequency().word("mode", k.at.Mode).run()
}

func planEmbeddingBagDFactors(k *call) error {
	return k.plan("embedding_bag_per_sample_weights_backward").shaped("grad_output", k.in[0]).shaped("weight", k.in[1]).shaped("indices", k.in[2]).
		optional("offsets", k.in[3]).hidden(k.out[0]).bags().run()
}

// bags adds what says which indices are of which bag.
func (j *job) bags() *job { return j.padding().truth("include_last_offset", j.k.at.LastOffset) }

// embeddingAgain differentiates the gradient of an Embedding: where it took nothing, it gives 0.
func embeddingAgain(c *ctx) dyn {
	g := c.with(OpEmbedding, byFrequency(c), dyn{c.tensor(1)})
	if c.at.PaddingIdx == nil {
		return g
	}
	return g.MaskFill(c.index(1).EqualScalar(*c.at.PaddingIdx).Unsqueeze(-1), 0)
}

// byFrequency is what the gradient of the weight gets, divided by the number of terms of each row where those were.
func byFrequency(c *ctx) dyn {
	if !c.at.ByFrequency {
		return c.g
	}
	flat := c.index(1).Reshape(-1)
	one := fill[Backend](c.sc, c.g.DType(), 1, []int64{int64(flat.Len()), 1})
	none := dyn{fill[Backend](c.sc, c.g.DType(), 0, []int64{int64(c.g.extent(0)), 1})}
	return c.g.Div(none.SelectAdd(0, flat, dyn{one}).Clamp(1, math.Inf(1)))
}

func bagRows(c *ctx) dyn {
	return c.shaped(OpEmbeddingBagBackward, 0, c.g, c.tensor(1), c.tensor(2), c.tensor(3), c.positions().Tensor)
}

func bagFactorsOf(c *ctx) dyn {
	return c.with(OpEmbeddingBagDFactors, c.g, c.in(0), dyn{c.tensor(1)}, dyn{c.tensor(2)})
}

// bagAgain is the bags of what the gradient of the weight gets. Maxima are taken from where they were.
func bagAgain(c *ctx) dyn {
	if c.at.Mode != "max" {
		return c.with(OpEmbeddingBag, byFrequency(c), dyn{c.tensor(1)}, dyn{c.tensor(2)}, dyn{c.tensor(3)})
	}
	at := c.index(4)
	if c.index(1).Len() == 0 {
		return c.zeros(0)
	}
	none := at.Less(at.scalar(0)) // in a bag without indices
	rows := c.index(1).Reshape(-1).Select(0, at.Maximum(at.scalar(0)).Reshape(-1)).Reshape(at.Shape()...)
	return c.g.Gather(0, rows).MaskFill(none, 0)
}

func bagFactorsAgain(c *ctx) dyn {
	return c.with(OpEmbeddingBagDFactors, c.in(0), byFrequency(c), dyn{c.tensor(1)}, dyn{c.tensor(2)})
}

// bagOfFactors and bagRowsOfFactors differentiate the gradient of per_sample_weights.
func bagOfFactors(c *ctx) dyn {
	return c.with(OpEmbeddingBag, c.in(1), dyn{c.tensor(2)}, dyn{c.tensor(3)}, c.g)
}

func bagRowsOfFactors(c *ctx) dyn {
	return c.shaped(OpEmbeddingBagBackward, 1, c.in(0), c.tensor(2), c.tensor(3), c.g.Tensor, Tensor[Backend]{})
}
