package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// mayRepeat reports whether some of m elements may be mapped again: they are added to nothing, and the results
// replace none of them.
func (k *kernel) mayRepeat(m int, c *kernelCall) bool {
	extent := func(p unsafe.Pointer, d tensor.DType) [2]uintptr {
		return [2]uintptr{uintptr(p), uintptr(p) + uintptr(m)*uintptr(d.Size())}
	}
	out := extent(c.out, k.out)
	return c.sum0 == nil && apart(out, extent(c.in0, k.in[0])) && apart(out, extent(c.in1, k.in[1]))
}

// apart reports whether two operands, from one address to another each, have no byte in common.
func apart(p, q [2]uintptr) bool { return p[1] <= q[0] || q[1] <= p[0] }

// repeat runs the kernel on a step's last elements, the first of which it has mapped before.
func (k *kernel) repeat(more bool, c *kernelCall) {
	stream := c.stream
	c.stream = false
	k.run(k.step, c)
	c.stream = stream
	if more {
		k.advance(k.step, c)
	}
}

// finish runs the kernel on fewer elements than its step: on copies that are
// followed by zeros, of which only the elements' results are kept.
func (k *kernel) finish(n int, a *Args) {
	c, s := &a.call, a.Scratch
	g := &s.part.call
	*g = *c
	g.stream = false
	size := int(k.compute.Size())
	pad := func(number int, p *unsafe.Pointer, size int) {
		to := s.part.memory[number][:k.step*size]
		clear(to[copy(to, unsafe.Slice((*byte)(*p), n*size)):])
		*p = unsafe.Pointer(&to[0])
	}
	if k.in[0] != tensor.None {
		pad(0, &g.in0, int(k.in[0].Size()))
	}
	if k.in[1] != tensor.None {
		pad(1, &g.in1, int(k.in[1].Size()))
	}
	if c.scales {
		pad(2, &g.scale, size)
	}
	if c.zeros {
		pad(3, &g.zero, size)
	}
	g.out = unsafe.Pointer(&s.part.memory[4])
	k.run(k.step, g)
	if k.out != tensor.None {
		copy(unsafe.Slice((*byte)(c.out), n*int(k.out.Size())), s.part.memory[4][:])
	}
	*g = kernelCall{}
}
