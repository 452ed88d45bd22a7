package plans

import (
	"bytes"
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// Data inputs that are one number, expanded, such as the gradient of a sum: kernels read the same few copies of it,
// wherever the elements of the others are.

// mostRepeated is how many copies of a number there are: a run has no more elements.
const mostRepeated = jobSize / 2

// repeatNumbers has a call read copies in the place of such inputs.
func (f *groupedPlan) repeatNumbers(c *call) {
	for k := range dataInputs {
		i := f.operand[k]
		if !c.seen.again { // else they are those of the last run
			c.repeated[k] = i >= 0 && !oneByOne && !f.param[k] && k != f.packed && isOneNumber(&c.args[i])
		}
		if c.repeated[k] {
			need(&c.compactions[i]).repeat(f.copier[k], &c.args[i])
		}
	}
}

// isOneNumber reports whether all elements of a tensor, which has several, are one.
func isOneNumber(v *tensor.View) bool {
	for d, n := range v.Shape {
		if n != 1 && v.Stride(d) != 0 {
			return false
		}
	}
	return v.Present() && v.NumElements() > 1
}

// repeat copies a number, unless its copies are there.
func (m *compaction) repeat(p *copier, v *tensor.View) {
	n := min(v.NumElements(), mostRepeated)
	number := unsafe.Slice((*byte)(v.Data), p.size)
	if m.repeats == p.size && m.count >= n && bytes.Equal(number, unsafe.Slice((*byte)(m.start()), p.size)) {
		return
	}
	m.reserve(n, p.size)
	p.run(m.start(), v.Data, 0, n)
	m.repeats = p.size
}
