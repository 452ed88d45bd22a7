package autodiff

import (
	"fmt"

	"github.com/isobit-ml/isobit/tensor"
)

// The sums of what reaches a node.

// add adds v to a gradient, in place where nobody else sees it. Sums of 16-bit
// gradients are kept in f32, until the last one is in them.
func (b *backward) add(sum *Value, v Value) error {
	defer func() { v.Release() }()
	if err := b.oneType(sum, &v); err != nil {
		return err
	}
	if (*sum).Alone() {
		_, err := b.e.inner.Run(OpAddInPlace, &Attr{}, *sum, v)
		return err
	}
	out, err := b.e.inner.Run(OpAdd, &Attr{}, *sum, v)
	if err != nil {
		return err
	}
	(*sum).Release()
	*sum = out[0]
	return nil
}

// parts is what a pass knows of a gradient that came in parts.
type parts struct {
	first *Attr // it began as one part in zeros: nowhere else it holds -0
	plus  bool  // it holds no -0, which no sum brings back
}

// addPart adds v to that part of a gradient that n took of its input. The first one lies in zeros, and so would the
// others. Where the first two do not overlap, zeros around the second, and all later ones, do no more than turn each -0
// into +0, once for all: from then on a part changes no more than its own elements.
func (b *backward) addPart(n *node, at int, v Value) error {
	defer func() { v.Release() }()
	sum, known := &b.grads[at], &b.parts[at]
	if first := known.first; first != nil && disjoint(first, n.at) {
		if err := b.addZero(sum); err != nil {
			return err
		}
		known.plus = true
	}
	known.first = nil
	if known.plus && (*sum).Alone() {
		if err := b.oneType(sum, &v); err != nil {
			return err
		}
		_, err := b.e.inner.Run(OpSliceAddInPlace, n.at, *sum, v)
		return err
	}
	zeros, err := b.e.inner.Run(OpFill, &Attr{DType: v.DType(), Shape: n.in[0].info.Shape})
	if err != nil {
		return err
	}
	defer zeros[0].Release()
	whole, err := b.e.inner.Run(OpSliceAssign, n.at, zeros[0], v)
	if err != nil {
		return err
	}
	if *sum != nil {
		return b.add(sum, whole[0])
	}
	*sum, known.first = whole[0], n.at
	return nil
}

// disjoint reports whether no element is in two parts of a tensor.
func disjoint(x, y *Attr) bool {
	for d := range x.Shape {
		xFirst, xLast := x.ends(d)
		yFirst, yLast := y.ends(d)
		if xLast < yFirst || yLast < xFirst {
			return true
		}
	}
	return false
}

// ends returns the smallest and the largest index of a part along an axis.
func (at *Attr) ends(d int) (first, last int) {
	a := at.Starts[d]
	b := a + (int(at.Shape[d])-1)*at.Steps[d]
	return min(a, b), max(a, b)
}

// addZero turns each -0 into +0.
func (b *backward) addZero(sum *Value) error {
	zero, err := b.e.inner.Run(OpFill, &Attr{DType: (*sum).DType(), Shape: []int64{}})
	if err != nil {
		return err
	}
	defer zero[0].Release()
	out, err := b.e.inner.Run(OpAdd, &Attr{}, *sum, zero[0])
	if err != nil {
		return err
	}
	(*sum).Release()
	*sum = out[0]
	return nil
}

// oneType widens gradients to a type that sums are kept in. Those of codes have the
// types of what was computed from the codes.
func (b *backward) oneType(x, y *Value) error {
	wide := tensor.F32
	for _, v := range []*Value{x, y} {
		if (*v).DType() == tensor.F64 {
			wide = tensor.F64
		}
	}
	for _, v := range []*Value{x, y} {
		if (*v).DType() == wide {
			continue
		}
		if err := b.cast(v, wide); err != nil {
			return err
		}
	}
	return nil
}

// total returns a node's whole gradient in its own type.
func (b *backward) total(n *node, at int) (Value, error) {
	sum := &b.grads[at]
	if *sum == nil {
		return nil, fmt.Errorf("autodiff: internal: no gradient reached %v", n)
	}
	if d := n.out.DType; d.IsFloat() && (*sum).DType() != d {
		if err := b.cast(sum, d); err != nil {
			return nil, err
		}
	}
	return *sum, nil
}

// cast replaces a gradient by one of another type.
func (b *backward) cast(v *Value, d tensor.DType) error {
	out, err := b.e.inner.Run(OpCast, &Attr{DType: d}, *v)
	if err == nil {
		(*v).Release()
		*v = out[0]
	}
	return err
}
