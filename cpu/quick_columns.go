package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// quickRows is from how many rows on what quick codes need is worth making.
const quickRows = 16

// rowsAhead is how many bytes before an element of such rows is read its line is asked for.
const rowsAhead = 1 << 13

// tryRows runs the kernel on runs that have the same parameters, some of them one for each
// element, if it can.
func (k *kernel) tryRows(n, data int, a *Args) bool {
	r, c, out := &a.Runs, &a.call, len(a.In)
	if !a.Ready || r.Strands != 1 || r.Step[data]|r.Step[data+1] != 0 || n%k.step != 0 || n > callSize || !k.takes(n, a) || k.lacks(a, n) {
		return false
	}
	wide, quick := n, r.Steps >= quickRows && k.takesColumns(n, data, a)
	aligned := misaligned(a.Out[0].P, k.out) == 0 && r.Step[out]%streamAlignment == 0
	// Lines of codes are read before they are written then: less than a division takes, where elements have 16 bits.
	if a.Stream && !aligned && !(quick && k.out.Size() == 1 && k.in[0].Size() == 2) {
		return false
	}
	if quick {
		wide = quickColumns
	}
	for at := 0; at < n; at += wide {
		m := min(wide, n-at)
		most := max(1, runsCall/m)
		var columns unsafe.Pointer
		for step := 0; step < r.Steps; step += most {
			k.load(a, data, at, n)
			if quick && step == 0 {
				columns = k.quickColumns(m, a)
			}
			c.stream = c.stream && aligned
			c.columns, c.rows = columns, min(most, r.Steps-step)
			if quick && c.ahead != 0 {
				c.ahead = max(1, rowsAhead/(m*int(k.in[0].Size()))) * int(r.Step[0])
			}
			c.in0, c.out = unsafe.Add(c.in0, step*int(r.Step[0])), unsafe.Add(c.out, step*int(r.Step[out]))
			if data > 1 {
				c.in1 = unsafe.Add(c.in1, step*int(r.Step[1]))
			}
			c.in0Step, c.in1Step, c.outStep = int(r.Step[0]), int(r.Step[1]), int(r.Step[out])
			k.run(m, c)
		}
	}
	a.call = kernelCall{}
	return true
}

// takesColumns reports whether rows of n elements, which have a scale each, may have quick codes.
func (k *kernel) takesColumns(n, data int, a *Args) bool {
	return k.quick && (k.in[0] != tensor.F32 || k.needs == AVX2 && k.out.Size() == 1) && n >= quickRun && a.In[data].Stride != 0 &&
		!a.Attrs.Reciprocal && smallBound(float32(a.Lo)) && smallBound(float32(a.Hi))
}

// quickColumns makes what quick codes of the call's first n elements need; nil where they may have none.
func (k *kernel) quickColumns(n int, a *Args) unsafe.Pointer {
	const vector = 8
	c := &a.call
	p, zero, step := a.Scratch.quick.aligned(), (*float32)(c.zero), 4*vector
	if !c.zeros {
		all := BlockOf[float32](a.Scratch, 0, vector)
		for i := range all {
			all[i] = *zero
		}
		zero, step = &all[0], 0
	}
	if !quickColumnParams(n-n%vector, (*float32)(c.scale), zero, step, p, float32(a.Lo), float32(a.Hi)) {
		return nil
	}
	return unsafe.Pointer(p)
}

// quickMemory has room for parameters that begin at a cache line, which no load crosses then.
type quickMemory [unsafe.Sizeof(columnParams{}) + streamAlignment]byte

func (m *quickMemory) aligned() *columnParams {
	p := unsafe.Pointer(m)
	return (*columnParams)(unsafe.Add(p, -uintptr(p)%streamAlignment))
}
