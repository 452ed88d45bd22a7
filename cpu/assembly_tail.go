package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// finish runs the kernel on fewer elements than its step: on copies that are
// followed by zeros, of which only the elements' results are kept.
func (k *kernel) finish(n int, a *Args) {
	c, s := &a.call, a.Scratch
	g := &s.part.call
	*g = *c
	g.stream = false
	size := int(k.compute.Size())
	pad := func(number int, p *unsafe.Pointer, size int) {
		to := s.part.memory[number][:]
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
