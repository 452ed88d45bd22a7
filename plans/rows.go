package plans

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/tensor"
)

var (
	verbose  atomic.Pointer[func(line string)]
	wrongCap atomic.Pointer[Error] // of ISOBIT_ROWS
)

// What the program's environment asks for comes before any other setting.
func init() {
	if v := os.Getenv("ISOBIT_VERBOSE"); v != "" && v != "0" {
		SetVerbose(LogToStderr)
	}
	wrongCap.Store(limitRows(os.Getenv("ISOBIT_ROWS"), "", "ISOBIT_ROWS"))
}

// SetRows caps the instruction sets of the rows that Select takes, and of autodiff's loops: "go", "avx2" or
// "avx512"; "" lifts the cap. It comes after ISOBIT_ROWS in the environment.
func SetRows(name string) error {
	if err := limitRows(name, "SetRows", "name"); err != nil {
		return err
	}
	wrongCap.Store(nil)
	return nil
}

func limitRows(name, op, arg string) *Error {
	isa, ok := cpu.ParseISA(name)
	switch {
	case name == "":
		isa = cpu.Best()
	case !ok:
		return errorf(InvalidArgument, op, arg, "is %s; want one of %s", quoted(name), strings.Join(cpu.ISANames(), ", "))
	}
	cpu.Limit(isa)
	return nil
}

// ISA returns the name of the largest instruction set in use.
func ISA() string { return cpu.Allowed().String() }

// SetVerbose makes Select report each problem's text, the row taken (SKU.Row),
// and the rows refused with the reason: a line per plan, and one before it per
// row that was passed over. It comes after ISOBIT_VERBOSE=1 in the environment,
// which logs to standard error; nil ends it. Every goroutine that selects calls
// log, at the same time as others.
func SetVerbose(log func(line string)) {
	if log == nil {
		verbose.Store(nil)
		return
	}
	verbose.Store(&log)
}

// LogToStderr is what ISOBIT_VERBOSE=1 has for a log.
func LogToStderr(line string) { fmt.Fprintln(os.Stderr, line) }

func verbosef(format string, a ...any) {
	if log := verbose.Load(); log != nil {
		(*log)("isobit: " + fmt.Sprintf(format, a...))
	}
}

// selectRow picks the first row of a table that takes the types, is within
// the machine's and the user's instruction sets, and has the preferred name.
func selectRow[F any](pl *plan, table []cpu.Row[F], t cpu.Types) (kernel F, err error) {
	pl.compute, pl.accumulator = t.Compute, t.Compute
	name := pl.problem.op.name
	refusal := ""
	for _, r := range table {
		reason := ""
		switch {
		case pl.pref.Row != "" && r.Name != pl.pref.Row:
			reason = "preference"
		case r.Needs > cpu.Allowed():
			reason = "needs " + r.Needs.String()
			refusal = fmt.Sprintf("%s; this machine, or %s, allows %s", reason, named("SetRows"), cpu.Allowed())
		default:
			if kernel, ok := r.Pick(t); ok {
				pl.row, pl.needs = r.Name, r.Needs
				return kernel, nil
			}
			reason, refusal = "types", "does not take these types"
		}
		pl.logRefusal(r.Name, reason)
	}
	if refusal == "" { // no row has the name
		return kernel, errorf(InvalidProblem, name, "preference", "names row %s; want one of %s", quoted(pl.pref.Row), strings.Join(rowNames(table), ", "))
	}
	return kernel, errorf(Unsupported, name, "preference", "names row %q, which %s", pl.pref.Row, refusal)
}

// typesOf are those of a kernel whose operands have one type.
func typesOf(d tensor.DType) cpu.Types {
	return cpu.Types{Compute: d.Compute(), In: cpu.InTypes{d}}
}

// logRefusal logs why a row was refused, once for all tables that have it.
func (pl *plan) logRefusal(row, reason string) {
	if verbose.Load() == nil {
		return
	}
	line := fmt.Sprintf("refuse %s row=%s: %s", pl.problem.op.name, row, reason)
	if !slices.Contains(pl.refused, line) {
		pl.refused = append(pl.refused, line)
		verbosef("%s", line)
	}
}

func rowNames[F any](table []cpu.Row[F]) (names []string) {
	for _, r := range table {
		names = append(names, r.Name)
	}
	return names
}

// namesOf lists a table's rows, for the support matrix.
func namesOf[F any](table []cpu.Row[F]) func() []string {
	return func() []string { return rowNames(table) }
}

// pickSupport picks the first of a table of helpers of kernels, such as those that
// expand parameters, that the machine and the user's cap allow.
func pickSupport[F any](table []cpu.Row[F], t cpu.Types) F {
	f, _ := cpu.PickUpTo(table, cpu.Allowed(), t)
	return f
}
