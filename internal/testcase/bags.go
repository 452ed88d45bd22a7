package testcase

import "github.com/isobit-ml/isobit/tensor"

// Bags of embeddings.

// bagKeys draws indices into a weight and the bags that they are in, and returns the
// weight's shape and the number of bags.
func bagKeys(s *Source, t *text) (weight []int64, count int64) {
	weight = []int64{1 + s.Int64N(9), s.width()}
	n := s.extent() * s.extent()
	switch {
	case s.Size == Large:
		n = LargeElements / weight[1]
	case s.Size != Edge:
		n = 1 + s.Int64N(40)
		if s.IntN(4) == 0 {
			n = 600 + s.Int64N(300) // more than one chunk for a bag or a row
		}
	}
	t.add("padding_idx", s.Int64N(weight[0]+1)-1)
	dtype := indexType(s)
	if s.IntN(3) == 0 {
		count = s.extent()
		t.tensor("indices", dtype, []int64{count, (n + max(count, 1) - 1) / max(count, 1)})
		return weight, count
	}
	if count = s.extent(); s.IntN(2) == 0 {
		count += n / oneOf[int64](s, 2, 8, 40)
	}
	last := s.IntN(2)
	t.tensor("indices", dtype, []int64{n})
	t.tensor("offsets", indexType(s), []int64{count + int64(last)})
	t.add("include_last_offset", last == 1)
	return weight, count
}

func embeddingBag(s *Source, t *text) {
	weight, _ := bagKeys(s, t)
	dtype, mode := s.float(), oneOf(s, "sum", "mean", "max", "weighted")
	t.tensor("weight", dtype, weight)
	t.add("bounds", oneOf(s, "error", "skip"))
	switch mode {
	case "weighted":
		mode = "sum"
		t.add("per_sample_weights", dtype)
	case "max":
		t.WriteString(oneOf(s, "", " chosen=i64"))
	}
	t.add("mode", mode)
}

func weightOnlyEmbeddingBag(s *Source, t *text) {
	weight, _ := bagKeys(s, t)
	dtype, mode := s.float(), oneOf(s, "sum", "mean", "max", "weighted")
	if s.IntN(2) == 0 { // what kernels take as it is
		dtype, weight[1] = tensor.F32, 1+s.Int64N(150)
		s.weightOfCodes(t, weight, oneOf(s, 16, 48, weight[1], 1000))
		t.add("weight_scale", dtype)
		t.add("weight_zero_point", oneOf(s, tensor.None, tensor.I32))
	} else {
		s.weightOfCodes(t, weight, s.block(weight[1]))
		s.codeParameters(t)
	}
	t.add("y", dtype)
	t.add("bounds", oneOf(s, "error", "skip"))
	if mode == "weighted" {
		mode = "sum"
		t.add("per_sample_weights", dtype)
	}
	t.add("mode", mode)
}

func embeddingBagBackward(s *Source, t *text) {
	weight, count := bagKeys(s, t)
	dtype, mode := s.float(), oneOf(s, "sum", "mean", "max", "weighted")
	t.tensor("grad_output", dtype, []int64{count, weight[1]})
	t.tensor("grad_weight", dtype, weight)
	t.add("accumulate", s.IntN(2) == 0)
	t.add("scale_grad_by_freq", mode != "max" && s.IntN(2) == 0)
	switch mode {
	case "weighted":
		mode = "sum"
		t.add("per_sample_weights", dtype)
	case "max":
		t.add("chosen", tensor.I64)
	}
	t.add("mode", mode)
}

func embeddingBagWeights(s *Source, t *text) {
	weight, count := bagKeys(s, t)
	dtype := s.float()
	t.tensor("grad_output", dtype, []int64{count, weight[1]})
	t.tensor("weight", dtype, weight)
}

// offsets draws where bags begin, some of them empty.
func (s *Source) offsets(c *Case, a *Arg) func() float64 {
	n, at, left := c.Arg("indices").Shape[0], int64(0), a.Shape[0]
	return func() float64 {
		if left < a.Shape[0] && s.IntN(3) > 0 {
			at += s.Int64N(min(n-at, 1+3*(n-at)/left) + 1)
		}
		left--
		return float64(at)
	}
}

// positions draws positions of indices, mostly from the element's bag.
func (s *Source) positions(c *Case, a *Arg) func() float64 {
	index, element := c.Arg("indices").Shape, int64(-1)
	n := tensor.NumElements(index)
	var begins []float64
	if offsets := c.Arg("offsets"); offsets.Present {
		begins = Decode(offsets.Before, offsets.DType)
	} else {
		for bag := range index[0] {
			begins = append(begins, float64(bag*index[1]))
		}
	}
	return func() float64 {
		element++
		begin, end := int64(begins[element/a.Shape[1]]), n
		if next := element/a.Shape[1] + 1; next < int64(len(begins)) {
			end = int64(begins[next])
		}
		if begin == end || s.IntN(8) == 0 {
			return float64(s.Int64N(n+1) - 1)
		}
		return float64(begin + s.Int64N(end-begin))
	}
}
