package plans

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/isobit-ml/isobit/cpu"
)

var (
	best      = cpu.Best()
	rowsLimit atomic.Int64 // 1 + the largest cpu.ISA that rows may need; 0 means no limit
	verbose   atomic.Pointer[func(line string)]
)

// SetRows caps the rows that Select takes: "go", "avx2" or "avx512"; "" lifts
// the cap. It is what ISOBIT_ROWS sets.
func SetRows(name string) error {
	if name == "" {
		rowsLimit.Store(0)
		return nil
	}
	isa, ok := cpu.ParseISA(name)
	if !ok {
		return errorf(InvalidArgument, "SetRows", "name", "is %s; want one of %s", quoted(name), strings.Join(cpu.ISANames(), ", "))
	}
	rowsLimit.Store(int64(isa) + 1)
	return nil
}

// rowsCap returns the largest instruction set that rows may need.
func rowsCap() cpu.ISA {
	if limit := rowsLimit.Load(); limit > 0 {
		return min(best, cpu.ISA(limit-1))
	}
	return best
}

// ISA returns the name of the largest instruction set in use.
func ISA() string { return rowsCap().String() }

// SetVerbose makes Select report each problem's text, the row taken (SKU.Row),
// and the rows refused with the reason: a line per plan, and one before it per
// row that was passed over. It is what ISOBIT_VERBOSE=1 sets; nil ends it. Every
// goroutine that selects calls log, at the same time as others.
func SetVerbose(log func(line string)) {
	if log == nil {
		verbose.Store(nil)
		return
	}
	verbose.Store(&log)
}

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
		case r.Needs > rowsCap():
			reason = "needs " + r.Needs.String()
			refusal = fmt.Sprintf("%s; this machine, or %s, allows %s", reason, named("SetRows"), rowsCap())
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
	f, _ := cpu.PickUpTo(table, rowsCap(), t)
	return f
}
