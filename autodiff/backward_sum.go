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
