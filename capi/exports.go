//go:build cgo

// Command capi is the shared library libisobit: the C interface of
// include/isobit.h over package plans. entry.c has the functions that C calls;
// each calls its twin here. Nothing here keeps a pointer of the caller's.
package main

// #include "isobit.h"
import "C"

import (
	"unsafe"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

func main() {} // required of a c-shared library, never called

var handles table

// answer ends an exported function: it calls f, and turns its error or panic
// into a status and a text in the caller's buffer.
func answer(errBuf *C.char, errSize C.size_t, f func() error) C.int32_t {
	err := protect(f)
	if err == nil {
		return C.ISOBIT_OK
	}
	if errBuf != nil {
		text := sentence(err)
		// No more than is needed, so that a size such as SIZE_MAX is fine.
		putText(unsafe.Slice((*byte)(unsafe.Pointer(errBuf)), min(uint64(errSize), uint64(len(text)+1))), text)
	}
	return C.int32_t(kindOf(err))
}

func noPlan(handle C.uint64_t) error {
	return fail(plans.InvalidHandle, "plan", "%#x is not a handle, or was destroyed", uint64(handle))
}

// onPlan is answer with the plan that a handle stands for.
func onPlan(handle C.uint64_t, errBuf *C.char, errSize C.size_t, f func(plan *entry) error) C.int32_t {
	return answer(errBuf, errSize, func() error {
		plan := handles.get(uint64(handle))
		if plan == nil {
			return noPlan(handle)
		}
		return f(plan)
	})
}

//export goPlanCreate
func goPlanCreate(problem *C.char, maxWorkspace C.int64_t, row *C.char, threads, markNames C.int32_t, handle *C.uint64_t,
	errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		if problem == nil {
			return isNull("problem")
		}
		if handle == nil {
			return isNull("plan")
		}
		if err := environment(); err != nil {
			return err
		}
		if markNames != 0 && markNames != 1 {
			return fail(plans.InvalidProblem, "preference", "has mark_names %d; want 0 or 1", markNames)
		}
		p, err := plans.Parse(C.GoString(problem))
		if err != nil {
			return markedIf(markNames != 0, err)
		}
		plan, err := plans.Select(0, p, plans.Preference{
			MaxWorkspace: int64(maxWorkspace), Row: C.GoString(row), Threads: int(threads)})
		if err != nil {
			return markedIf(markNames != 0, err)
		}
		*handle = C.uint64_t(handles.add(plan, markNames != 0))
		return nil
	})
}

//export goPlanCanImplement
func goPlanCanImplement(handle C.uint64_t, args **C.DLTensor, nargs C.int32_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return onPlan(handle, errBuf, errSize, func(plan *entry) error {
		return markedIf(plan.markNames, withViews(plan, args, nargs, plan.CanImplement))
	})
}

//export goPlanWorkspaceSize
func goPlanWorkspaceSize(handle C.uint64_t, bytes *C.uint64_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return onPlan(handle, errBuf, errSize, func(plan *entry) error {
		if bytes == nil {
			return isNull("bytes")
		}
		*bytes = C.uint64_t(plan.WorkspaceSize())
		return nil
	})
}

//export goPlanRun
func goPlanRun(handle C.uint64_t, stream C.uintptr_t, workspace unsafe.Pointer, workspaceSize C.uint64_t,
	args **C.DLTensor, nargs C.int32_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return onPlan(handle, errBuf, errSize, func(plan *entry) error {
		// A caller may offer more than an int holds; the plan's own size fits.
		size := uintptr(min(workspaceSize, C.uint64_t(plan.WorkspaceSize())))
		if uintptr(workspace)+size < uintptr(workspace) || workspace == nil && workspaceSize > 0 {
			return fail(plans.InvalidArgument, "workspace", "leads to no memory with workspace_size %d", workspaceSize)
		}
		bytes := unsafe.Slice((*byte)(workspace), size)
		return markedIf(plan.markNames, withViews(plan, args, nargs, func(views []tensor.View) error {
			return plan.Run(plans.Stream(stream), bytes, views)
		}))
	})
}

//export goPlanDestroy
func goPlanDestroy(handle C.uint64_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		if !handles.remove(uint64(handle)) {
			return noPlan(handle)
		}
		return nil
	})
}

//export goPlanDescribe
func goPlanDescribe(handle C.uint64_t, buf *C.char, size C.size_t, needed *C.size_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return onPlan(handle, errBuf, errSize, func(plan *entry) error {
		return putJSON(plans.Describe(plan.Plan), buf, size, needed)
	})
}
