package plans

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

// Kind says what sort of error an Error is. It is an error itself, so that
// errors.Is(err, plans.Unsupported) asks for one.
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

var kinds = [...]string{"no error", "invalid problem", "invalid argument", "unsupported", "workspace too small", "invalid handle", "device", "forked", "internal"}

// Error returns the kind in words.
func (k Kind) Error() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind(%d)", int(k))
	}
	return kinds[k]
}

// Error is every error that this package returns.
type Error struct {
	Kind Kind
	Op   string // the op, or "" before it is known
	Arg  string // the argument, attribute or key at fault, or ""
	Msg  string // what came and what was wanted

	parts []string // Msg cut at names: every second part is one
}

// Error returns one sentence.
func (e *Error) Error() string {
	return e.Renamed(func(name string) string { return name })
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Renamed returns the sentence with other names in it, for callers who know an
// op, an argument, an attribute, a type or a function by another one. Words
// that are no names stay, whatever they are.
func (e *Error) Renamed(rename func(name string) string) string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(rename(e.Op) + ": ")
	}
	if e.Arg != "" {
		b.WriteString(rename(e.Arg) + " ")
	}
	if len(e.parts) == 0 {
		b.WriteString(e.Msg)
	}
	for i, part := range e.parts {
		if i%2 == 1 {
			part = rename(part)
		}
		b.WriteString(part)
	}
	return b.String()
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

// nameMark stands before and after a name while a message is put together. What
// comes from a caller is quoted, so that it has none.
const nameMark = "\x00"

// named marks a name within a message.
func named(name string) string { return nameMark + name + nameMark }

// errorf makes an Error; types and truth values among a are names, and so is what named marked.
func errorf(kind Kind, op, arg, format string, a ...any) *Error {
	for i := range a {
		switch v := a[i].(type) {
		case bool:
			a[i] = named(strconv.FormatBool(v))
		case tensor.DType:
			a[i] = named(v.String())
		case *tensor.View:
			if v.Present() {
				a[i] = named(v.DType.String()) + tensor.ShapeText(v.Shape)
			}
		}
	}
	parts := strings.Split(fmt.Sprintf(format, a...), nameMark)
	return &Error{kind, op, arg, strings.Join(parts, ""), parts}
}
