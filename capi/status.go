//go:build cgo

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"unicode/utf8"

	"github.com/isobit-ml/isobit/plans"
)

func fail(kind plans.Kind, arg, format string, args ...any) *plans.Error {
	return &plans.Error{Kind: kind, Arg: arg, Msg: fmt.Sprintf(format, args...)}
}

func isNull(arg string) error { return fail(plans.InvalidArgument, arg, "is NULL") }

// poison is set by the first internal error. What that left half done is
// unknown, so nothing runs after it.
var poison atomic.Pointer[plans.Error]

// protect calls f so that no panic reaches the host process.
func protect(f func() error) (err error) {
	if p := poison.Load(); p != nil {
		return p
	}
	defer func() {
		if v := recover(); v != nil {
			err = poisoned(v)
		}
	}()
	err = f()
	if err != nil && kindOf(err) == plans.Internal {
		err = poisoned(err)
	}
	return err
}

func poisoned(cause any) error {
	p := fail(plans.Internal, "", "isobit has met an internal error and answers no further call in this process: %v", cause)
	if poison.CompareAndSwap(nil, p) {
		fmt.Fprintf(os.Stderr, "%s\n%s", p.Msg, debug.Stack())
	}
	return poison.Load()
}

// kindOf returns an error's kind, whose value is its isobit_status.
func kindOf(err error) plans.Kind {
	if e, ok := errors.AsType[*plans.Error](err); ok {
		return e.Kind
	}
	return plans.Internal
}

// inC is what C calls functions of plans.
var inC = map[string]string{"SetNumThreads": "isobit_set_num_threads", "SetRows": "ISOBIT_ROWS", "plans.Support": "isobit_support"}

// marked is an error whose text has marks beside names.
type marked struct{ error }

func (m marked) Unwrap() error { return m.error }

func markedIf(asked bool, err error) error {
	if asked && err != nil {
		return marked{err}
	}
	return err
}

// sentence is an error's text with the names that C has. It is one of plans: protect lets no other through.
func sentence(err error) string {
	_, marks := err.(marked)
	e, _ := errors.AsType[*plans.Error](err)
	return e.Renamed(func(name string) string {
		if named, ok := inC[name]; ok {
			name = named
		}
		if marks {
			name = "\x01" + name + "\x01"
		}
		return name
	})
}

// putText writes text and a NUL to buf, cut to a whole character where it does
// not fit.
func putText(buf []byte, text string) {
	if len(buf) == 0 {
		return
	}
	if end := len(buf) - 1; len(text) > end {
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	buf[copy(buf, text)] = 0
}
