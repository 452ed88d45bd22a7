package plans

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says what sort of error an Error is.
type Kind int

// The kinds of errors. The C ABI's status codes have the same order.
const (
	InvalidProblem    Kind = iota + 1 // the problem's text, its values, or the preference
	InvalidArgument                   // a tensor that does not fit the problem
	Unsupported                       // a valid problem that no row takes
	WorkspaceTooSmall                 // less workspace than WorkspaceSize
	InvalidHandle                     // a plan that does not exist (any more)
	DeviceError                       // no driver, no device, a failed launch
	Forked                            // the process is a fork of the one that loaded the library
	Internal                          // a bug in isobit
)

// Error is every error that this package returns.
type Error struct {
	Kind Kind
	Op   string // the op, or "" before it is known
	Arg  string // the argument, attribute or key at fault, or ""
	Msg  string // what came and what was wanted
}

// Error returns one sentence.
func (e *Error) Error() string {
	s := e.Msg
	if e.Arg != "" {
		s = e.Arg + " " + s
	}
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	return s
}

// longestQuote is how many bytes of a caller's text an error repeats, so that
// there is room in a C caller's buffer for what was wanted.
const longestQuote = 64

func shortened(text string) string {
	if len(text) > longestQuote {
		return strings.ToValidUTF8(text[:longestQuote], "") + "..."
	}
	return text
}

func quoted(text string) string { return strconv.Quote(shortened(text)) }

func errorf(kind Kind, op, arg, format string, a ...any) *Error {
	return &Error{kind, op, arg, fmt.Sprintf(format, a...)}
}
