package autodiff

import (
	"fmt"

	"github.com/isobit-ml/isobit/autodiff/internal/kernel"
	"github.com/isobit-ml/isobit/tensor"
)

// The CPU's loops that move elements.

func permuteOf[T kernel.Bits](k *call) error {
	kernel.Permute(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.in[0].shape, k.at.Axes)
	return nil
}

func expandOf[T kernel.Bits](k *call) error {
	kernel.Expand(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.out[0].shape, k.in[0].shape)
	return nil
}

func sliceOf[T kernel.Bits](k *call) error {
	kernel.Slice(k.t, elements[T](k.out[0]), elements[T](k.in[0]), k.part(k.out[0], k.in[0]))
	return nil
}

func (k *call) part(part, whole *cpuTensor) kernel.Part {
	return kernel.Part{Shape: part.shape, Whole: whole.shape, Starts: k.at.Starts, Steps: k.at.Steps}
}

func sliceInto[T kernel.Bits](k *call) error {
	z, part := elements[T](k.out[0]), k.in[1]
	copy(z, elements[T](k.in[0]))
	kernel.SliceInto(k.t, elements[T](part), z, k.part(part, k.out[0]))
	return nil
}

func sliceAddInPlace[T kernel.Float](k *call) error {
	kernel.SliceAdd(k.t, elements[T](k.in[1]), elements[T](k.in[0]), k.part(k.in[1], k.in[0]))
	return nil
}

func catOf[T kernel.Bits](k *call) error {
	_, total, inner := split(k.out[0].shape, k.at.Axis)
	at := 0
	for _, x := range k.in {
		outer, n, _ := split(x.shape, k.at.Axis)
		kernel.Cat(elements[T](k.out[0]), elements[T](x), outer, n, inner, at, total)
		at += n
	}
	return nil
}

// reader returns a function that reads indices.
func reader(t *cpuTensor) func(i int) int {
	if t.dtype == tensor.I32 {
		return func(i int) int { return int(elements[int32](t)[i]) }
	}
	return func(i int) int { return int(elements[int64](t)[i]) }
}

// checkIndices asks every index to lie in [0, n).
func checkIndices(t *cpuTensor, n int) error {
	bad := -1
	if t.dtype == tensor.I32 {
		bad = kernel.CheckIndex(elements[int32](t), n)
	} else {
		bad = kernel.CheckIndex(elements[int64](t), n)
	}
	if bad >= 0 {
		return notAnIndex(bad, int64(reader(t)(bad)), n)
	}
	return nil
}

// notAnIndex is the error of an index that does not lie in [0, n).
func notAnIndex(at int, index int64, n int) error {
	if n == 0 {
		return fmt.Errorf("index %d is %d; want none: there are no elements to choose from", at, index)
	}
	return fmt.Errorf("index %d is %d; want 0 to %d", at, index, n-1)
}

func gatherOf[T kernel.Bits](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	m := int(k.in[1].shape[k.at.Axis])
	z, x := elements[T](k.out[0]), elements[T](k.in[0])
	if k.in[1].dtype == tensor.I32 {
		kernel.Gather(k.t, z, x, elements[int32](k.in[1]), outer, n, m, inner)
	} else {
		kernel.Gather(k.t, z, x, elements[int64](k.in[1]), outer, n, m, inner)
	}
	return nil
}

func scatterAdd[T kernel.Float](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	if k.in[1].dtype == tensor.I32 {
		scatterAddBy[T](k, elements[int32](k.in[1]), outer, n, inner)
	} else {
		scatterAddBy[T](k, elements[int64](k.in[1]), outer, n, inner)
	}
	return nil
}

// scatterAddBy takes elements that do not lie along the last dimension one by one.
func scatterAddBy[T kernel.Float, I kernel.Integer](k *call, idx []I, outer, n, inner int) {
	z, x, y := elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[2])
	if inner == 1 {
		kernel.ScatterAdd(k.t, z, x, y, idx, outer, n, 1)
		return
	}
	dst, done := scratch[int64](k.c)(len(idx))
	defer done()
	kernel.FlatIndex(k.t, dst, idx, inner)
	kernel.ScatterAdd(k.t, z, x, y, dst, outer, n*inner, 1)
}

func selectOf[T kernel.Bits](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	z, x := elements[T](k.out[0]), elements[T](k.in[0])
	if k.in[1].dtype == tensor.I32 {
		kernel.Select(k.t, z, x, elements[int32](k.in[1]), outer, n, inner)
	} else {
		kernel.Select(k.t, z, x, elements[int64](k.in[1]), outer, n, inner)
	}
	return nil
}

func selectAddOf[T kernel.Float](k *call) error {
	outer, n, inner := split(k.in[0].shape, k.at.Axis)
	if err := checkIndices(k.in[1], n); err != nil {
		return err
	}
	z, x, y := elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[2])
	if k.in[1].dtype == tensor.I32 {
		kernel.ScatterAdd(k.t, z, x, y, elements[int32](k.in[1]), outer, n, inner)
	} else {
		kernel.ScatterAdd(k.t, z, x, y, elements[int64](k.in[1]), outer, n, inner)
	}
	return nil
}
