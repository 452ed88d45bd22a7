package testcase

import (
	"slices"
	"strings"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Placement is a case's tensors in memory, in the order of a run. Those that
// are absent have the zero View.
type Placement []*Placed

// Place lays out the tensors and the workspace of a run.
func (c *Case) Place(plan plans.Plan, o Options) (placed Placement, workspace []byte, free func()) {
	var release []func()
	for i := range c.Args {
		a := &c.Args[i]
		if !a.Present {
			placed = append(placed, &Placed{})
			continue
		}
		p := newPlaced(a, o, a.In() && a.Name != o.InPlace[1])
		if o.Alternate {
			p.alternate(c.Op.Name, a)
		}
		placed = append(placed, p)
		release = append(release, p.free)
	}
	if o.InPlace[0] != "" {
		*placed[c.index(o.InPlace[0])] = *placed[c.index(o.InPlace[1])]
	}
	workspace, last := o.Memory.get(plan.WorkspaceSize())
	paint(workspace) // which holds what was there before
	return placed, workspace, func() {
		for _, f := range append(release, last) {
			f()
		}
	}
}

// alternate gives a parameter per tensor or per token the second shape that
// it may have: with a last dimension of 1.
func (p *Placed) alternate(op string, a *Arg) {
	if !a.IsParam() || !strings.Contains(op, "_per_tensor") && !strings.Contains(op, "_per_token") {
		return
	}
	p.View.Shape = append(slices.Clone(a.Shape), 1)
	if p.View.Strides != nil {
		p.View.Strides = append(slices.Clone(p.View.Strides), 12345) // of no consequence
	}
}

// Views returns the tensors as a run takes them.
func (all Placement) Views() []tensor.View {
	views := make([]tensor.View, len(all))
	for i, p := range all {
		views[i] = p.View
	}
	return views
}

// Reset gives the outputs the values that they have before a run.
func (all Placement) Reset(c *Case) {
	for i, p := range all {
		if c.Args[i].Out() {
			p.fill(&c.Args[i])
		}
	}
}

// Outputs returns the present outputs, compact.
func (all Placement) Outputs(c *Case) (outputs [][]byte) {
	for i, p := range all {
		if c.Args[i].Out() {
			outputs = append(outputs, p.Read())
		}
	}
	return outputs
}
