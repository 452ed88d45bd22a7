package plans

import "github.com/isobit-ml/isobit/cpu"

// Groups whose elements are mapped with what was found for these: dynamic_quantize. One way does both where it can, while
// the caches hold a group. Elsewhere all groups are reduced first, in the order in which the input lies, and the elements
// mapped afterwards in that of the output.

// apart is what both passes need, made by the first run of a plan that takes them: few do.
type apart[C cpu.Compute] struct {
	*reduction[C] // without elements to map
	ways          []way
	then          mapJobs
}

// mapsWell reports whether a way that was chosen should map the elements, too: not where tiles are copied for calls of few,
// from and to tensors that lie otherwise than each other.
func (r *reduction[C]) mapsWell(c *call, of *way) bool {
	g := &c.groups
	few := c.tilesCopied && g.dims > 1 && r.shortRows(g, c.members.count())
	return of.mapped(c) && !(few && !c.lieAlike(r.operand[0], r.operand[firstOutput]))
}

// again is a run on tensors that lie as the last ones did.
func (r *reduction[C]) again(c *call, ways []way) {
	s, first, pass := &c.seen, r, c.seen.noted
	if s.twice {
		apart := r.apart()
		first, pass, ways = apart.reduction, s.first, apart.ways
	}
	first.putStarts(c, &c.groups, maxOperands)
	first.putStarts(c, &c.members, kernelOperands)
	if s.twice { // the second pass had sides of its own
		first.laySides(c, &c.groups, c.groups.dims)
	} else {
		first.putSides(c)
	}
	c.parallel(pass.jobs, pass.cost, ways[pass.way].run)
	if s.twice {
		r.mapRegion(c, &r.regions[0], &r.apart().then)
	}
}

// lieAlike reports whether two arguments of one shape have their dimensions in the same order.
func (c *call) lieAlike(i, j int) bool {
	v, w := &c.args[i], &c.args[j]
	for d, n := range v.Shape {
		for e := range d {
			if n > 1 && v.Shape[e] > 1 && v.Stride(d) < v.Stride(e) != (w.Stride(d) < w.Stride(e)) {
				return false
			}
		}
	}
	return true
}

// mapGroup maps the elements of one group.
func (r *reduction[C]) mapGroup(c *call, w *worker, group int64) {
	a, cur, l := r.arm(w), w.members(c, group), &c.members
	a.Ahead = c.nextGroups(r.groupedPlan, 1)
	l.walk(cur, 0, l.count(), kernelOperands, func(n int64) {
		l.spans(a, cur)
		r.feed(w, l, cur, n, func(n int64, a *cpu.Args) { r.then(int(n), a) })
	})
}
