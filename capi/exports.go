//go:build cgo

// Command capi is the shared library libisobit: the C interface of
// include/isobit.h over package plans. entry.c has the functions that C calls;
// each calls its twin here. Nothing here keeps a pointer of the caller's.
package main

// #include <stdlib.h>
// #include "isobit.h"
// void run_on_host(int32_t ticket, int32_t max_threads);
import "C"

import (
	"encoding/json"
	"os"
	"runtime"
	"sync"
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
		text := err.Error()
		// No more than is needed, so that a size such as SIZE_MAX is fine.
		putText(unsafe.Slice((*byte)(unsafe.Pointer(errBuf)), min(uint64(errSize), uint64(len(text)+1))), text)
	}
	return C.int32_t(kindOf(err))
}

func find(handle C.uint64_t) (plans.Plan, error) {
	if plan := handles.get(uint64(handle)); plan != nil {
		return plan, nil
	}
	return nil, fail(plans.InvalidHandle, "plan", "%#x is not a handle, or was destroyed", uint64(handle))
}

// environment passes isobit's environment variables on. Go has its own copy of
// the environment, from before the host program changed it: C's is asked.
var environment = sync.OnceValue(func() error {
	get := func(name string) string {
		key := C.CString(name)
		defer C.free(unsafe.Pointer(key))
		return C.GoString(C.getenv(key))
	}
	if v := get("ISOBIT_VERBOSE"); v != "" && v != "0" {
		plans.SetVerbose(func(line string) { os.Stderr.WriteString(line + "\n") })
	}
	if rows := get("ISOBIT_ROWS"); rows != "" {
		return plans.SetRows(rows)
	}
	return nil
})

//export goPlanCreate
func goPlanCreate(problem *C.char, maxWorkspace C.int64_t, row *C.char, threads C.int32_t, handle *C.uint64_t,
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
		p, err := plans.Parse(C.GoString(problem))
		if err != nil {
			return err
		}
		plan, err := plans.Select(0, p, plans.Preference{
			MaxWorkspace: int64(maxWorkspace), Row: C.GoString(row), Threads: int(threads)})
		if err != nil {
			return err
		}
		*handle = C.uint64_t(handles.add(plan))
		return nil
	})
}

//export goPlanCanImplement
func goPlanCanImplement(handle C.uint64_t, args **C.DLTensor, nargs C.int32_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		plan, err := find(handle)
		if err != nil {
			return err
		}
		return withViews(plan, args, nargs, plan.CanImplement)
	})
}

//export goPlanWorkspaceSize
func goPlanWorkspaceSize(handle C.uint64_t, bytes *C.uint64_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		plan, err := find(handle)
		if err != nil {
			return err
		}
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
	return answer(errBuf, errSize, func() error {
		plan, err := find(handle)
		if err != nil {
			return err
		}
		if workspace == nil && workspaceSize > 0 {
			return fail(plans.InvalidArgument, "workspace", "is NULL with workspace_size %d", workspaceSize)
		}
		// A caller may offer more than an int holds; the plan's own size fits.
		bytes := unsafe.Slice((*byte)(workspace), int(min(workspaceSize, C.uint64_t(plan.WorkspaceSize()))))
		return withViews(plan, args, nargs, func(views []tensor.View) error {
			return plan.Run(plans.Stream(stream), bytes, views)
		})
	})
}

//export goPlanDestroy
func goPlanDestroy(handle C.uint64_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		if !handles.remove(uint64(handle)) {
			_, err := find(handle)
			return err
		}
		return nil
	})
}

//export goSetNumThreads
func goSetNumThreads(n C.int32_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error { return plans.SetNumThreads(int(n)) })
}

//export goGetNumThreads
func goGetNumThreads(n *C.int32_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		if n == nil {
			return isNull("n")
		}
		*n = C.int32_t(plans.GetNumThreads())
		return nil
	})
}

//export goPlanDescribe
func goPlanDescribe(handle C.uint64_t, buf *C.char, size C.size_t, needed *C.size_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		plan, err := find(handle)
		if err != nil {
			return err
		}
		return putJSON(plans.Describe(plan), buf, size, needed)
	})
}

//export goSetParallel
func goSetParallel(set C.int32_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		if set == 0 {
			plans.SetParallel(nil)
			return nil
		}
		plans.SetParallel(func(ticket, maxThreads int) { C.run_on_host(C.int32_t(ticket), C.int32_t(maxThreads)) })
		return nil
	})
}

//export goWork
func goWork(ticket, thread C.int32_t) {
	protect(func() error { plans.Work(int(ticket), int(thread)); return nil })
}

//export goSupport
func goSupport(buf *C.char, size C.size_t, needed *C.size_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error { return putJSON(plans.Support(), buf, size, needed) })
}

//export goInfo
func goInfo(buf *C.char, size C.size_t, needed *C.size_t, errBuf *C.char, errSize C.size_t) C.int32_t {
	return answer(errBuf, errSize, func() error {
		if err := environment(); err != nil {
			return err
		}
		return putJSON(map[string]any{
			"version": C.ISOBIT_VERSION, "abi": C.ISOBIT_ABI_VERSION,
			"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
			"isa": plans.ISA(), "threads": plans.GetNumThreads(), "parallel": plans.ThreadsOf(), "cuda": plans.CUDA(),
		}, buf, size, needed)
	})
}

// putJSON answers isobit.h's triple of buf, size and needed.
func putJSON(value any, buf *C.char, size C.size_t, needed *C.size_t) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if needed != nil {
		*needed = C.size_t(len(text) + 1)
	}
	if buf == nil {
		return nil
	}
	if uint64(size) <= uint64(len(text)) {
		return fail(plans.InvalidArgument, "buf", "has %d bytes; want %d", size, len(text)+1)
	}
	putText(unsafe.Slice((*byte)(unsafe.Pointer(buf)), len(text)+1), string(text))
	return nil
}
