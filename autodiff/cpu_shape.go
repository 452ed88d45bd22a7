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
	kernel.Expand(k.t, arrayOf[T](k.out[0]), arrayOf[T](k.in[0]))
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
	at, total := 0, int(k.out[0].shape[k.at.Axis])
	for _, x := range k.in {
		a := x.along(k.at.Axis)
		kernel.Cat(elements[T](k.out[0]), elements[T](x), a, at, total)
		at += a.N
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

// byIndex calls the loop for the type of an operation's indices along its axis, once these are checked.
func byIndex(k *call, i32 func(k *call, idx []int32, a kernel.Axis), i64 func(k *call, idx []int64, a kernel.Axis)) error {
	a := k.in[0].along(k.at.Axis)
	if err := checkIndices(k.in[1], a.N); err != nil {
		return err
	}
	if k.in[1].dtype == tensor.I32 {
		i32(k, elements[int32](k.in[1]), a)
	} else {
		i64(k, elements[int64](k.in[1]), a)
	}
	return nil
}

func gatherOf[T kernel.Bits](k *call) error {
	return byIndex(k, gatherBy[T, int32], gatherBy[T, int64])
}

func gatherBy[T kernel.Bits, I kernel.Integer](k *call, idx []I, a kernel.Axis) {
	kernel.Gather(k.t, elements[T](k.out[0]), elements[T](k.in[0]), idx, a, int(k.in[1].shape[k.at.Axis]))
}

func selectOf[T kernel.Bits](k *call) error {
	return byIndex(k, selectBy[T, int32], selectBy[T, int64])
}

func selectBy[T kernel.Bits, I kernel.Integer](k *call, idx []I, a kernel.Axis) {
	kernel.Select(k.t, elements[T](k.out[0]), elements[T](k.in[0]), idx, a)
}

func selectAddOf[T kernel.Float](k *call) error {
	return byIndex(k, selectAddBy[T, int32], selectAddBy[T, int64])
}

func selectAddBy[T kernel.Float, I kernel.Integer](k *call, idx []I, a kernel.Axis) {
	kernel.ScatterAdd(k.t, elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[2]), idx, a)
}

func scatterAdd[T kernel.Float](k *call) error {
	return byIndex(k, scatterAddBy[T, int32], scatterAddBy[T, int64])
}

// scatterAddBy takes elements that do not lie along the last dimension one by one.
func scatterAddBy[T kernel.Float, I kernel.Integer](k *call, idx []I, a kernel.Axis) {
	z, x, y := elements[T](k.out[0]), elements[T](k.in[0]), elements[T](k.in[2])
	if a.Inner == 1 {
		kernel.ScatterAdd(k.t, z, x, y, idx, a)
		return
	}
	dst, done := scratch[int64](k.c)(len(idx))
	defer done()
	kernel.FlatIndex(k.t, dst, idx, a.Inner)
	kernel.ScatterAdd(k.t, z, x, y, dst, kernel.Axis{Outer: a.Outer, N: a.N * a.Inner, Inner: 1})
}
