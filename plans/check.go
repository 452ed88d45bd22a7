package plans

import (
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// checkArgs checks the arguments by the problem.
func (pl *plan) checkArgs(c *call) error {
	o := pl.problem.op
	if len(c.args) != len(o.args) {
		names := make([]string, len(o.args))
		for i := range o.args {
			names[i] = named(o.args[i].name)
		}
		return errorf(InvalidArgument, o.name, "args", "has %d tensors; want %d: %s", len(c.args), len(o.args), strings.Join(names, ", "))
	}
	meta := false
	for i := range c.args {
		at, err := pl.checkArg(&c.args[i], i, c.takesMeta)
		if err != nil {
			return err
		}
		c.places[i] = at
		meta = meta || c.args[i].Device.Kind == tensor.Meta
	}
	if err := pl.checkOverlap(c); err != nil {
		return err
	}
	if meta || pl.check == nil {
		return nil
	}
	return pl.check(c)
}

// checkArg checks an argument by the problem, and returns where it lies.
func (pl *plan) checkArg(v *tensor.View, i int, takesMeta bool) (place, error) {
	if err := pl.checkView(v, i, takesMeta); err != nil || !v.Present() {
		return place{}, err
	}
	lo, hi := v.Extent()
	if lo == hi || v.Device.Kind == tensor.Meta { // no elements, or none in memory
		return place{}, nil
	}
	if err := pl.checkMemory(v, i, lo, hi); err != nil {
		return place{}, err
	}
	start := int64(uintptr(v.Data))
	return place{start + lo, start + hi}, nil
}

func (pl *plan) badArg(i int, format string, args ...any) error {
	o := pl.problem.op
	return errorf(InvalidArgument, o.name, o.args[i].name, format, args...)
}

// checkView checks what a View says of its tensor.
func (pl *plan) checkView(v *tensor.View, i int, takesMeta bool) error {
	want, shapes := pl.problem.types[i], pl.shapes[i]
	if want.Packed() {
		want = tensor.U8
	}
	switch {
	case v.DType != want && want == tensor.None:
		return pl.badArg(i, "is %s; the problem says none", v)
	case v.DType != want && !v.Present():
		return pl.badArg(i, "is missing; want %s%s", want, tensor.ShapeText(shapes[0]))
	case v.DType != want:
		return pl.badArg(i, "is %s; want %s%s", v, want, tensor.ShapeText(shapes[0]))
	case want == tensor.None:
		return nil
	case v.Device != pl.problem.device && !(v.Device.IsCPU() && pl.problem.device.IsCPU()) && !(v.Device.Kind == tensor.Meta && takesMeta):
		return pl.badArg(i, "is on %s; want %s", v.Device, pl.problem.device)
	case v.Strides != nil && len(v.Strides) != len(v.Shape):
		return pl.badArg(i, "has %d strides for %d dimensions", len(v.Strides), len(v.Shape))
	case !slices.Equal(v.Shape, shapes[0]) && !slices.ContainsFunc(shapes[1:], func(s []int64) bool { return slices.Equal(v.Shape, s) }):
		return pl.badArg(i, "has shape %s; want %s", tensor.ShapeText(v.Shape), shapeChoices(shapes))
	case v.ReadOnly && pl.problem.op.args[i].out:
		return pl.badArg(i, "is read-only; it is an output")
	}
	return nil
}

// checkMemory checks where the elements of a tensor are: from lo to hi bytes after its address.
func (pl *plan) checkMemory(v *tensor.View, i int, lo, hi int64) error {
	switch {
	case v.Data == nil:
		return pl.badArg(i, "has a null data pointer for %s", v)
	case lo == math.MinInt64:
		return pl.badArg(i, "has strides %s, which reach beyond all memory", tensor.ShapeText(v.Strides))
	case (v.Low != 0 || v.High != 0) && (lo < v.Low || hi > v.High):
		return pl.badArg(i, "spans bytes [%d, %d) of its memory, which has [%d, %d)", lo, hi, v.Low, v.High)
	case uintptr(v.Data)&uintptr(v.DType.Size()-1) != 0:
		return pl.badArg(i, "is at an address that is not a multiple of its element size, %d", v.DType.Size())
	case pl.problem.types[i].Packed() && !checkPacked(v):
		return pl.badArg(i, "has stride %d along its last dimension; packed codes want 1", v.Stride(len(v.Shape)-1))
	case pl.problem.op.args[i].out && overlapsItself(v):
		return pl.badArg(i, "has strides %s with which elements may overlap; it is an output", tensor.ShapeText(v.Strides))
	}
	return nil
}

func shapeChoices(shapes [][]int64) string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = tensor.ShapeText(s)
	}
	return strings.Join(names, " or ")
}

// checkWorkspace checks the size and the alignment of the memory for intermediate results,
// and that it overlaps no argument.
func (pl *plan) checkWorkspace(c *call) error {
	o := pl.problem.op
	if int64(len(c.workspace)) < pl.workspace {
		return errorf(WorkspaceTooSmall, o.name, "workspace", "has %d bytes; want %d", len(c.workspace), pl.workspace)
	}
	if pl.workspace == 0 {
		return nil
	}
	start := int64(uintptr(unsafe.Pointer(unsafe.SliceData(c.workspace))))
	if start%WorkspaceAlignment != 0 {
		return errorf(InvalidArgument, o.name, "workspace", "is at an address that is not a multiple of %d", WorkspaceAlignment)
	}
	own := place{start, start + pl.workspace}
	for i := range c.args {
		if own.overlaps(c.places[i]) {
			return errorf(InvalidArgument, o.name, "workspace", "overlaps %s in memory", named(o.args[i].name))
		}
	}
	return nil
}
