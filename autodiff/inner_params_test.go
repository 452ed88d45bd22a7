package autodiff

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was loaded before the network asked for it is served, too.
func TestInnerParamsOfWhatWasLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net")
	ad := over(None{})
	p := NewParams(ad, 1)
	p.Full("a", 3, 2)
	p.Full("b", 4, 2)
	require.NoError(t, p.Save(path))
	q := NewParams(ad, 1)
	require.NoError(t, q.Load(path))
	require.Equal(t, []string{"a", "b"}, q.Waiting())
	q.Zeros("a", 2)
	require.Equal(t, []string{"b"}, q.Waiting())
	inner := InnerParams(q)
	require.Equal(t, []float64{3, 3}, list(t, inner.Zeros("a", 2)))
	require.Equal(t, []float64{4, 4}, list(t, inner.Zeros("b", 2)))
	require.Equal(t, []float64{4, 4}, list(t, q.Zeros("b", 2)))

	for _, p := range []*Params[*Autodiff[*CPU, None]]{nil, new(Params[*Autodiff[*CPU, None]]), NewParams(new(Autodiff[*CPU, None]), 1)} {
		require.ErrorIs(t, InnerParams(p).Zeros("a", 2).Err(), errNoBackend)
	}
	bad := NewParams(ad, 1)
	bad.Add("a", Ones(ad, 2).Reshape(3))
	x, ok := InnerParams(bad).Get("a")
	require.True(t, ok)
	require.ErrorContains(t, x.Err(), "reshape")
}
