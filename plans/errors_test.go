package plans_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
)

// requireKind asks for an Error of a kind and returns it.
func requireKind(t *testing.T, err error, kind plans.Kind) *plans.Error {
	t.Helper()
	var e *plans.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kind, e.Kind, "%v", err)
	return e
}
