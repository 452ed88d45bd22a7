package plans_test

import (
	"fmt"
	"testing"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Rows of x that fill panels of each size, that leave room in the last one, and that no panel takes;
// depths that leave room in the last column of panels; and several jobs. Nothing behind x is packed,
// and panels hold nothing of what lay in their memory.
func TestPanelsOfQuantizedLinear(t *testing.T) {
	for _, m := range []int{30, 32, 37, 39, 40, 44, 45, 56, 100} {
		for _, k := range []int{16, 33, 78} {
			c := caseOf(t, testcase.Small, fmt.Sprintf("quantized_linear x=s8[%d,%d] weight=s8[300,%d]", m, k, k))
			want := defined(t, c)
			for _, row := range rowsFor(c) {
				o := testcase.Options{Preference: plans.Preference{Row: row, Threads: 3}, Memory: testcase.EndsPage}
				same(t, c, o, want, row)
			}
		}
	}
}
