//go:build cgo && cuda && linux

package cuda

// #include "libcuda.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// gpu is CUDA's driver.
type gpu struct {
	open     sync.Once
	err      error
	lock     sync.RWMutex // of contexts
	contexts map[int]*context
}

// context is a device's primary context, which PyTorch uses too, and the
// kernels loaded there. It is kept until the process ends.
type context struct {
	primary    cu.CUContext
	capability int        // ten times the compute capability
	lock       sync.Mutex // of functions: one thread loads, while others run
	functions  map[string]Function
}

func newDriver() Driver { return &gpu{contexts: map[int]*context{}} }

const (
	oldestDriver = 12000 // CUDA 12.0: driver 525, which reads PTX 8.0
	oldestDevice = 75
)

func (g *gpu) Available() error {
	g.open.Do(func() {
		var why [256]C.char
		if C.isobit_cuda_open(&why[0], C.ulong(len(why))) == 0 {
			g.err = errors.New(C.GoString(&why[0]))
			return
		}
		if v := cu.Version(); v < oldestDriver {
			g.err = fmt.Errorf("the CUDA driver is for CUDA %d.%d; 12.0 (driver 525) or later is needed", v/1000, v%1000/10)
		}
	})
	return g.err
}

// relaxed is the capture mode in which a thread may load modules while
// another thread's stream captures (CU_STREAM_CAPTURE_MODE_RELAXED).
const relaxed = 2

func (g *gpu) Load(device int, kernels []string) ([]Function, error) {
	if err := g.Available(); err != nil {
		return nil, err
	}
	c, err := g.context(device)
	if err != nil {
		return nil, err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	leave, err := c.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	mode := C.isobit_cuda_capture_mode(relaxed)
	defer C.isobit_cuda_capture_mode(mode)
	functions := make([]Function, len(kernels))
	for i, name := range kernels {
		if functions[i], err = c.function(name); err != nil {
			return nil, err
		}
	}
	return functions, nil
}

// context returns a device's context; the first time, it is created.
func (g *gpu) context(device int) (*context, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if c := g.contexts[device]; c != nil {
		return c, nil
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("cannot count devices: %w", err)
	}
	if device >= n {
		return nil, fmt.Errorf("device %d does not exist; there are %d", device, n)
	}
	d := cu.Device(device)
	major, err := d.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return nil, fmt.Errorf("cannot ask device %d: %w", device, err)
	}
	minor, err := d.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		return nil, fmt.Errorf("cannot ask device %d: %w", device, err)
	}
	if major*10+minor < oldestDevice {
		return nil, fmt.Errorf("device %d has compute capability %d.%d; 7.5 or later is needed", device, major, minor)
	}
	primary, err := d.RetainPrimaryCtx()
	if err != nil {
		return nil, fmt.Errorf("device %d gives no context: %w", device, err)
	}
	c := &context{primary: primary, capability: major*10 + minor, functions: map[string]Function{}}
	g.contexts[device] = c
	return c, nil
}

// enter makes the context current in this thread, unless it is.
func (c *context) enter() (leave func(), err error) {
	runtime.LockOSThread()
	current, err := cu.CurrentContext()
	if err == nil && current == c.primary {
		return runtime.UnlockOSThread, nil
	}
	if err := cu.PushCurrentCtx(c.primary); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("the device's context cannot be made current: %w", err)
	}
	return func() {
		cu.PopCurrentCtx()
		runtime.UnlockOSThread()
	}, nil
}

// function loads a kernel, once; it is 0 where there is none, or the device is too old for it.
func (c *context) function(name string) (Function, error) {
	if name == "" || strings.Contains(name, "_sm80") && c.capability < 80 {
		return 0, nil
	}
	if f, ok := c.functions[name]; ok {
		return f, nil
	}
	ptx, err := ptxOf(name)
	if err != nil {
		return 0, err
	}
	module, err := cu.LoadData(ptx)
	if err != nil {
		return 0, fmt.Errorf("the driver does not load the kernel %s: %w", name, err)
	}
	fn, err := module.Function(name)
	if err == nil {
		// A driver that loads lazily does so now, not while a graph is captured.
		_, err = fn.Attribute(cu.FnMaxThreadsPerBlock)
	}
	if err != nil {
		return 0, fmt.Errorf("the driver does not load the kernel %s: %w", name, err)
	}
	f := *(*Function)(unsafe.Pointer(&fn))
	c.functions[name] = f
	return f, nil
}

func (g *gpu) Enter(device int) (func(), error) {
	g.lock.RLock()
	c := g.contexts[device]
	g.lock.RUnlock()
	return c.enter()
}

func (g *gpu) Launch(f Function, stream uintptr, grid, block [3]uint32, args unsafe.Pointer, size uintptr) error {
	// cu copies parameters as 64-bit words that follow one another, so the
	// words of a struct arrive as the struct, the only parameter.
	var words [maxArgWords]unsafe.Pointer
	n := size / 8
	for i := range n {
		words[i] = unsafe.Add(args, i*8)
	}
	fn, s := *(*cu.Function)(unsafe.Pointer(&f)), *(*cu.Stream)(unsafe.Pointer(&stream))
	err := fn.Launch(int(grid[0]), int(grid[1]), int(grid[2]), int(block[0]), int(block[1]), int(block[2]), 0, s, words[:n])
	if err != nil {
		return fmt.Errorf("a kernel cannot be launched: %w", err)
	}
	return nil
}

// maxArgWords is the largest struct of arguments in 64-bit words.
const maxArgWords = 256
