package plans

import (
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// checkArgs holds the arguments against the problem.
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

func (pl *plan) checkArg(v *tensor.View, i int, takesMeta bool) (at place, err error) {
	o := pl.problem.op
	a := &o.args[i]
	bad := func(format string, args ...any) (place, error) {
		return place{}, errorf(InvalidArgument, o.name, a.name, format, args...)
	}
	want := pl.problem.types[i]
	packed := want.Packed()
	if packed {
		want = tensor.U8
	}
	switch {
	case v.DType != want && want == tensor.None:
		return bad("is %s; the problem says none", v)
	case v.DType != want && !v.Present():
		return bad("is missing; want %s%s", want, tensor.ShapeText(pl.shapes[i][0]))
	case v.DType != want:
		return bad("is %s; want %s%s", v, want, tensor.ShapeText(pl.shapes[i][0]))
	case want == tensor.None:
		return place{}, nil
	case v.Device != pl.problem.device && !(v.Device.IsCPU() && pl.problem.device.IsCPU()) && !(v.Device.Kind == tensor.Meta && takesMeta):
		return bad("is on %s; want %s", v.Device, pl.problem.device)
	case v.Strides != nil && len(v.Strides) != len(v.Shape):
		return bad("has %d strides for %d dimensions", len(v.Strides), len(v.Shape))
	case !slices.ContainsFunc(pl.shapes[i], func(s []int64) bool { return slices.Equal(s, v.Shape) }):
		return bad("has shape %s; want %s", tensor.ShapeText(v.Shape), shapeChoices(pl.shapes[i]))
	case a.out && v.ReadOnly:
		return bad("is read-only; it is an output")
	}
	lo, hi := v.Extent()
	if lo == hi || v.Device.Kind == tensor.Meta { // no elements, or none in memory
		return place{}, nil
	}
	if v.Data == nil {
		return bad("has a null data pointer for %s", v)
	}
	if lo == math.MinInt64 {
		return bad("has strides %s, which reach beyond all memory", tensor.ShapeText(v.Strides))
	}
	if (v.Low != 0 || v.High != 0) && (lo < v.Low || hi > v.High) {
		return bad("spans bytes [%d, %d) of its memory, which has [%d, %d)", lo, hi, v.Low, v.High)
	}
	if uintptr(v.Data)&uintptr(v.DType.Size()-1) != 0 {
		return bad("is at an address that is not a multiple of its element size, %d", v.DType.Size())
	}
	if packed && !checkPacked(v) {
		return bad("has stride %d along its last dimension; packed codes want 1", v.Stride(len(v.Shape)-1))
	}
	if a.out && overlapsItself(v) {
		return bad("has strides %s with which elements may overlap; it is an output", tensor.ShapeText(v.Strides))
	}
	start := int64(uintptr(v.Data))
	return place{start + lo, start + hi}, nil
}

func shapeChoices(shapes [][]int64) string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = tensor.ShapeText(s)
	}
	return strings.Join(names, " or ")
}

// checkWorkspace holds the memory for intermediate results against the plan
// and against the arguments, none of which it may share.
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
