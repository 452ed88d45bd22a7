package plans_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
)

// Many positions of few rows: chunks that begin among the positions of one worker and end among those
// of another, rows without any, beside lists of positions.
func TestFewRows(t *testing.T) {
	defer plans.SetParallelCost(1)()
	defer plans.SetStreamFrom(1)()
	defer limitRowsAgain()
	for _, s := range []struct{ rows, columns, positions int }{
		{1, 128, 5}, {1, 130, 257}, {1, 300, 3100}, {2, 128, 2600}, {3, 257, 4000}, {40, 129, 90}, {500, 128, 1100},
	} {
		for _, dtype := range []string{"f32", "f64"} {
			for _, keys := range []string{"indices=i64", "padding_idx=0 indices=i32"} {
				text := fmt.Sprintf("embedding_backward grad_output=%[1]s[%[2]d,%[3]d] %[4]s[%[2]d] grad_weight=%[1]s[%[5]d,%[3]d]", dtype, s.positions, s.columns, keys, s.rows)
				t.Run(text, func(t *testing.T) {
					c := finiteCase(t, text)
					want := defined(t, c)
					for _, rows := range []string{"go", "avx2", ""} {
						require.NoError(t, plans.SetRows(rows))
						for _, threads := range []int{1, 2, 3, 8} {
							same(t, c, testcase.Options{Preference: plans.Preference{Threads: threads}}, want, fmt.Sprint(rows, threads))
						}
					}
					for _, l := range layouts {
						same(t, c, testcase.Options{Layout: l.layout}, want, l.name)
					}
				})
			}
		}
	}
}
