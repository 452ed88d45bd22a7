//go:build cgo

package main

// What concerns the library as a whole: its environment, threads and descriptions.

// #include <stdlib.h>
// #include "isobit.h"
// void run_on_host(int32_t ticket, int32_t max_threads);
import "C"

import (
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"github.com/isobit-ml/isobit/plans"
)

// environment passes isobit's environment variables on. Go has its own copy of
// the environment, from before the host program changed it: C's comes after it.
var environment = sync.OnceValue(func() error {
	get := func(name string) string {
		key := C.CString(name)
		defer C.free(unsafe.Pointer(key))
		return C.GoString(C.getenv(key))
	}
	plans.SetVerbose(nil)
	if v := get("ISOBIT_VERBOSE"); v != "" && v != "0" {
		plans.SetVerbose(plans.LogToStderr)
	}
	err := plans.SetRows(get("ISOBIT_ROWS"))
	if e, ok := errors.AsType[*plans.Error](err); ok { // the variable is what the caller set
		e.Op, e.Arg = "", "ISOBIT_ROWS"
	}
	return err
})

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
		*n = C.int32_t(plans.NumThreads())
		return nil
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
			"isa": plans.ISA(), "threads": plans.NumThreads(), "parallel": plans.ThreadsOf(), "cuda": plans.CUDA(),
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
