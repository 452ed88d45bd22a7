//go:build cgo

package main

// #cgo CFLAGS: -I${SRCDIR}/../include -std=c11 -D_GNU_SOURCE
// #include "isobit.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// page is the size of the first page of addresses and of the last one, which are never memory.
const page = 4096

// allMemory is more bytes than a process can have.
const allMemory = 1 << 56

// A problem's arguments as Views. They are passed to an interface's method,
// so on the stack they would be allocated by every call.
type viewList [plans.MaxArgs]tensor.View

var viewLists = sync.Pool{New: func() any { return new(viewList) }}

// withViews calls f with args as Views. The Views read the caller's shapes and
// strides in place and are cleared afterwards: a stale pointer into memory that
// Go's heap may take over later would end the process.
func withViews(plan *entry, args **C.DLTensor, nargs C.int32_t, f func([]tensor.View) error) error {
	n := int(nargs)
	if n < 0 || n > plans.MaxArgs {
		return fail(plans.InvalidArgument, "nargs", "is %d; want the number of entries of args, 0 to %d", n, plans.MaxArgs)
	}
	if args == nil && n > 0 {
		return fail(plans.InvalidArgument, "args", "is NULL with nargs %d", n)
	}
	list := viewLists.Get().(*viewList)
	views := list[:n]
	for i, t := range unsafe.Slice(args, n) {
		if t == nil {
			continue
		}
		if problem := toView(t, &views[i]); problem != "" {
			return badArg(plan.Plan, i, problem) // the list is dropped
		}
	}
	err := f(views)
	// Not deferred: after a panic the list is garbage, and nothing runs anyway.
	clear(views)
	viewLists.Put(list)
	return err
}

// badArg says what is wrong with argument i of a plan.
func badArg(plan plans.Plan, i int, problem string) error {
	at := fmt.Sprintf("args[%d]", i)
	d := plans.Describe(plan)
	if i >= len(d.Args) {
		return fail(plans.InvalidArgument, at, "%s", problem)
	}
	err := fail(plans.InvalidArgument, d.Args[i].Name, "(%s) %s", at, problem)
	err.Op = plan.Problem().Op()
	return err
}

// toView fills v from t and returns what is wrong with t, or "".
func toView(t *C.DLTensor, v *tensor.View) string {
	if t.ndim < 0 || t.ndim > tensor.MaxRank {
		return fmt.Sprintf("has ndim %d; want 0 to %d", t.ndim, tensor.MaxRank)
	}
	if t.shape == nil && t.ndim > 0 {
		return fmt.Sprintf("has a NULL shape with ndim %d", t.ndim)
	}
	dtype := tensor.None
	if t.dtype.lanes == 1 && int(t.dtype.code) < len(dtypes) && int(t.dtype.bits) < len(dtypes[0]) {
		dtype = dtypes[t.dtype.code][t.dtype.bits]
	}
	if dtype == tensor.None {
		return fmt.Sprintf("has dtype {code %d, bits %d, lanes %d}, which is not one of isobit's",
			t.dtype.code, t.dtype.bits, t.dtype.lanes)
	}
	v.DType = dtype
	if t.ndim > 0 { // else the pointers may be anything
		v.Shape = unsafe.Slice((*int64)(unsafe.Pointer(t.shape)), int(t.ndim))
		if t.strides != nil {
			v.Strides = unsafe.Slice((*int64)(unsafe.Pointer(t.strides)), int(t.ndim))
		}
	}
	switch t.device.device_type {
	case C.kDLCPU, C.kDLCUDAHost:
		v.Device = tensor.Device{Kind: tensor.CPU}
	case C.kDLExtDev:
		v.Device = tensor.Device{Kind: tensor.Meta}
		return "" // data is never touched
	case C.kDLCUDA, C.kDLCUDAManaged:
		v.Device = tensor.Device{Kind: tensor.CUDA, Index: int32(t.device.device_id)}
	default:
		return fmt.Sprintf("is on DLPack device type %d; want cpu (1) or cuda (2)",
			int32(t.device.device_type))
	}
	return setData(t, v)
}

// setData sets where v's elements are and returns what is wrong with that, or "".
func setData(t *C.DLTensor, v *tensor.View) string {
	// Added as numbers first: a pointer to the first page is an error here and
	// would be a fatal one if Go's stack scanner met it. MAP_FAILED is in the last.
	data := *(*uintptr)(unsafe.Pointer(&t.data))
	if data+page < 2*page || t.byte_offset > allMemory || data+uintptr(t.byte_offset) < data {
		if v.NumElements() <= 0 {
			return "" // data is never touched: there is none, or no such shape
		}
		return fmt.Sprintf("has data %#x and byte_offset %d, which lead to no memory, and is not empty", data, t.byte_offset)
	}
	v.Data = unsafe.Add(t.data, int(t.byte_offset))
	return ""
}

// dtypes finds a DType by DLPack's type code and width.
var dtypes = func() (table [int(tensor.MaxKind) + 1][65]tensor.DType) {
	for code := range table {
		for bits := range table[code] {
			table[code][bits] = tensor.FromDLPack(uint8(code), uint8(bits))
		}
	}
	return table
}()
