package autodiff

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// fragile is a backend of the caller's own, which panics once at an operation.
type fragile struct {
	*CPU
	at Op
}

func (f *fragile) Run(op Op, at *Attr, in ...Value) (Outputs, error) {
	if op == f.at {
		f.at = opCount
		panic("fragile")
	}
	return f.CPU.Run(op, at, in...)
}

// isUnlocked holds that no lock was left, for which what follows would wait.
func isUnlocked(t *testing.T, ad *Autodiff[*fragile, Strategy]) {
	t.Helper()
	require.True(t, ad.mu.TryLock(), "the panic left a lock")
	ad.mu.Unlock()
}

// goesOn holds that the leaf can be differentiated as before.
func goesOn(t *testing.T, ad *Autodiff[*fragile, Strategy], w Float[*Autodiff[*fragile, Strategy]]) {
	t.Helper()
	g, err := ad.Backward(w.Exp().Log().Sum())
	require.NoError(t, err)
	d, ok := ad.Grad(w, g)
	require.True(t, ok)
	require.Equal(t, []float64{1, 1, 1}, list(t, d))
}

// A panic goes through to the caller, and leaves a graph as an error does.
func TestPanicInBackward(t *testing.T) {
	forStrategies(t, func(t *testing.T, s Strategy) {
		be := &fragile{NewCPUThreads(1), opCount}
		ad := New(be, s)
		w := ad.Track(Floats(ad, []float64{0, 0, 0}))
		for _, at := range []Op{OpFill, OpExpand, OpMul} { // the seed; then rules
			loss := w.Exp().Mul(w).Sum()
			be.at = at
			require.Panics(t, func() { _, _ = ad.Backward(loss, KeepGraph()) })
			isUnlocked(t, ad)
			g, err := ad.Backward(loss, KeepGraph()) // which nobody else differentiates
			require.NoError(t, err)
			d, _ := ad.Grad(w, g)
			require.Equal(t, []float64{1, 1, 1}, list(t, d))
			be.at = at
			require.Panics(t, func() { _, _ = ad.Backward(loss) })
			if _, err := ad.Backward(loss); at == OpFill {
				require.NoError(t, err) // nothing had begun
			} else {
				require.ErrorContains(t, err, "freed by an earlier Backward")
			}
			goesOn(t, ad, w)
		}
	})
}

// What an operation computes again for results that are held may panic, too.
func TestPanicInWhatIsComputedAgain(t *testing.T) {
	for _, s := range []Strategy{Balanced{}, Budget{}} {
		be := &fragile{NewCPUThreads(1), opCount}
		ad := New(be, s)
		p := NewParams(ad, 1)
		w := p.Zeros("w", 3)
		held := w.Cos()
		for range len(ad.aside.ring) { // which sets it aside
			require.NoError(t, w.Neg().Err())
		}
		g, err := ad.Backward(w.Exp().Sum())
		require.NoError(t, err)
		optimizer := SGD{Rate: 1}
		be.at = OpCos
		require.Panics(t, func() { _ = optimizer.Step(p, g) })
		isUnlocked(t, ad)
		require.Equal(t, []float64{1, 1, 1}, list(t, held))
		require.Equal(t, []float64{0, 0, 0}, list(t, w))
		goesOn(t, ad, w)
	}
}
