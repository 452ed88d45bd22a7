package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How operands and parameters get into the call of a kernel.

// load makes the call for the elements from at on. It returns how many of
// them it holds for.
func (k *kernel) load(a *Args, data, at, n int) int {
	c := &a.call
	if k.compute == tensor.F64 {
		return load[float64](k, c, a, data, at, n)
	}
	return load[float32](k, c, a, data, at, n)
}

func load[C Compute](k *kernel, c *kernelCall, a *Args, data, at, n int) int {
	setEverywhere[C](k, c, a)
	c.stream = a.Stream && k.writes(a)
	c.ahead = a.Ahead
	limit := callSize
	in := [2]*unsafe.Pointer{&c.in0, &c.in1}
	for i, d := range k.in {
		if d == tensor.None {
			continue
		}
		*in[i] = a.In[i].At(int64(at)).P
		if a.In[i].P == nil {
			*in[i], limit = unsafe.Pointer(&a.Scratch.zeros), paramBlock
		}
	}
	c.out = a.Out[0].At(int64(at)).P
	if c.out == nil && k.out != tensor.None {
		c.out, limit = unsafe.Pointer(&a.Scratch.unused), paramBlock
	}
	if a.In[data].P == nil {
		return limit // no parameters
	}
	c.scale, c.scales, limit = param[C](a, data, 0, at, n, limit)
	c.zero, c.zeros, limit = param[C](a, data+1, 1, at, n, limit)
	return limit
}

// setEverywhere puts what holds for all elements into the call.
func setEverywhere[C Compute](k *kernel, c *kernelCall, a *Args) {
	*(*C)(unsafe.Pointer(&c.lo)), *(*C)(unsafe.Pointer(&c.hi)) = C(a.Lo), C(a.Hi)
	c.reciprocal = a.Attrs.Reciprocal
	c.half, c.kind = k.half, k.kind
	c.float8 = float8Words(k)
}

// param makes a parameter, operand k, for the elements from at on. It returns
// where it is, whether there is one for each element, and how many it holds for.
func param[C Compute](a *Args, k, number, at, n, limit int) (p unsafe.Pointer, each bool, holds int) {
	s := a.In[k]
	each = n > 1 && s.Stride != 0
	if a.Ready {
		return s.At(int64(at)).P, each, limit
	}
	p = unsafe.Pointer(&a.Scratch.params[number])
	m := 1
	if each {
		limit = min(limit, paramBlock)
		m = min(limit, n-at)
	}
	loadByKernel(unsafe.Slice((*C)(p), m), s.At(int64(at)), number == 1, a.Lo, a.Hi)
	return p, each, limit
}

// What parameters are.
const areScales, areZeroPoints = false, true

// loadParams fills v with scales or zero points as kernels want them: the latter are
// codes, from lo to hi.
func loadParams[C Compute](v []C, s Span, zeroPoints bool, lo, hi float64) {
	Load(v, s)
	if zeroPoints && s.P != nil && s.DType.IsFloat() {
		for i, z := range v {
			v[i] = roundZeroPoint(z, C(lo), C(hi))
		}
	}
}

// paramKernel is loadParams of n parameters that lie one after the other, as one does.
type paramKernel func(to *float32, from *byte, n int, lo, hi float32)

// loadByKernel is loadParams, by a kernel where there is one.
func loadByKernel[C Compute](v []C, s Span, zeroPoints bool, lo, hi float64) {
	kernels := &scaleKernels
	if zeroPoints {
		kernels = &zeroKernels
	}
	if to, ok := any(v).([]float32); ok && s.P != nil && len(to) > 0 && (len(to) == 1 || s.Contiguous()) && kernels[s.DType] != nil {
		kernels[s.DType](&to[0], (*byte)(s.P), len(to), float32(lo), float32(hi))
		return
	}
	loadParams(v, s, zeroPoints, lo, hi)
}
