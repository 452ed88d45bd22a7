package autodiff

import (
	"crypto/sha256"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/plans"
)

// TestSameBitsOnEveryMachine compares what comes out with what came out on
// linux/amd64 when this was written: a network of every kind of layer, trained;
// every case of the table with its gradients; graphs; random numbers; rates.
// A mismatch is a wrong result, unless a rule of NUMERICS.md was changed.
func TestSameBitsOnEveryMachine(t *testing.T) {
	be := NewCPUThreads(1)
	textOf := func(cases []testCase) (text string) {
		for i := range cases {
			c := &cases[i]
			loss, gradients := c.gradient(t, be, None{}, c.points())
			text += fmt.Sprintln(c.name, loss, gradients)
		}
		return text
	}
	for _, c := range []struct {
		name string
		text func() string
		want string
	}{
		{"training", func() string { return trained(t, 1, None{}) }, "840edc94aef599f8fc21c8bb2059eaa35323d0a0e5f715f2e448f9dabdcdc15a"},
		{"losses", func() string { return textOf(lossCases) }, "95d989cbda2263a8aeeea4d7f36ce159c1447de9bcb8c496098144a3592620ff"},
		{"further layers", func() string { return textOf(furtherCases) }, "c9c72d64865b6b900a271c92f3bcf7492eede6c2c45c0e5a315aed56def78a0b"},
		{"options", func() string { return textOf(optionCases) }, "f307ebd914c0b13a9dbec2eefdc51a1431d73c19fe394803fb8039e5c536c591"},
		{"cases", func() string { return textOf(firstCases) }, "2e430adcb5cff9489745ae58e0c1964a2eb990debb7597dfe81ac1dc364f93f7"},
		{"graphs", func() string {
			text := ""
			for seed := range uint64(20) {
				text += randomGraph(t, seed, None{}, 1)
			}
			return text
		}, "50ed61683edb6518d78d321c7688492f9d0deb9984f296e7c3e26efd68b16943"},
		{"random", func() string {
			return fmt.Sprint(list(t, Normal(be, 3, 0, 1, 1000)), list(t, Uniform(be, 4, -3, 5, 1000)))
		}, "cf0e1d8cf02750c4b08dfc6cacc00a60c75e883d68708c02935b40d0a1d18af3"},
		{"rates", func() string {
			text := ""
			for step := range 1000 {
				text += fmt.Sprintln(OneCycle(step, 1000, 4e-3, 0.15))
			}
			return text
		}, "2bc89aad5479dccd2d9b6f4b742cd4fabbbaa4dbc765c71ec37a76f4e1ff8caf"},
	} {
		for _, rows := range cpu.ISANames() {
			t.Run(c.name+" "+rows, func(t *testing.T) {
				require.NoError(t, plans.SetRows(rows))
				defer plans.SetRows(os.Getenv("ISOBIT_ROWS")) // which go's cache of results is to know
				text := c.text()
				require.Equal(t, c.want, fmt.Sprintf("%x", sha256.Sum256([]byte(text))), "of %.2000s", text)
			})
		}
	}
}
