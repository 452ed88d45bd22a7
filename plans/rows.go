package plans

import (
	"fmt"
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
		return errorf(InvalidArgument, "", "ISOBIT_ROWS", "is %q; want go, avx2 or avx512", name)
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

// SetVerbose makes Select report each problem's text, the row taken, and the
// rows refused with the reason. It is what ISOBIT_VERBOSE=1 sets; nil ends it.
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
