package plans

import (
	"cmp"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// place is the addresses that a tensor takes, the last one not among them; 0 and 0,
// which overlap nothing, where it is absent or empty.
type place struct{ begin, end int64 }

func (p place) overlaps(q place) bool { return p.begin < q.end && q.begin < p.end }

// overlapsItself reports whether two indices may name the same element: true
// unless every dimension steps over all of those with smaller strides.
func overlapsItself(v *tensor.View) bool {
	if v.IsContiguous() {
		return false
	}
	var dims [tensor.MaxRank][2]int64
	n := 0
	for i, d := range v.Shape {
		if d > 1 {
			dims[n] = [2]int64{max(v.Strides[i], -v.Strides[i]), d}
			n++
		}
	}
	slices.SortFunc(dims[:n], func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	reach := int64(0) // the largest distance within the dimensions so far
	for _, d := range dims[:n] {
		if d[0] <= reach {
			return true
		}
		reach += d[0] * (d[1] - 1)
	}
	return false
}

// checkOverlap refuses outputs that share memory with another argument,
// unless the op says that the two may be the same tensor.
func (pl *plan) checkOverlap(c *call) error {
	o := pl.problem.op
	for _, i := range pl.outputs {
		for j := range c.args {
			if j == i || !c.places[i].overlaps(c.places[j]) {
				continue
			}
			if interleaved(c, i, j) || slices.Contains(o.inPlace, [2]int{i, j}) && sameTensor(&c.args[i], &c.args[j]) {
				continue
			}
			return errorf(InvalidArgument, o.name, o.args[i].name, "overlaps %s in memory", named(o.args[j].name))
		}
	}
	return nil
}

// interleaved reports whether two tensors whose places overlap share no byte all the same, such as
// columns of one matrix. It looks for a stride of either, the period, within which the two take
// different bytes. Where it finds none they may still be apart; then the overlap is an error.
func interleaved(c *call, i, j int) bool {
	a, b := &c.args[i], &c.args[j]
	for _, v := range [2]*tensor.View{a, b} {
		for d := range v.Shape {
			period := strideBytes(v, d)
			if v.Shape[d] < 2 || period == 0 {
				continue
			}
			wide, other := widthWithin(a, period), widthWithin(b, period)
			apart := (c.places[j].begin - c.places[i].begin) % period
			if apart < 0 {
				apart += period
			}
			if wide <= apart && other <= period-apart {
				return true
			}
		}
	}
	return false
}

// widthWithin returns how many bytes a tensor spans, not counting dimensions that step by whole
// periods.
func widthWithin(v *tensor.View, period int64) int64 {
	width := v.DType.Size()
	for d, n := range v.Shape {
		if step := strideBytes(v, d); step%period != 0 {
			width += step * (n - 1)
		}
	}
	return width
}

func strideBytes(v *tensor.View, d int) int64 {
	stride := v.Stride(d) * v.DType.Size()
	return max(stride, -stride)
}

func sameTensor(a, b *tensor.View) bool {
	if a.Data != b.Data || a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) {
		return false
	}
	for i := range a.Shape {
		if a.Shape[i] != 1 && a.Stride(i) != b.Stride(i) {
			return false
		}
	}
	return true
}
