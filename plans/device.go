package plans

import (
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
)

// cudaRow is the only row of a CUDA device.
const cudaRow = "cuda"

// selectDevice picks the row of a device other than the CPU. Values in device
// memory are not read back: what a CPU plan says of an index or a zero point
// out of range, this one cannot.
func selectDevice(pl *plan) (Plan, error) {
	p := &pl.problem
	o := p.op
	if pl.pref.Row != "" && pl.pref.Row != cudaRow {
		return nil, errorf(InvalidProblem, o.name, "preference", "names row %s; want %q on %s", quoted(pl.pref.Row), cudaRow, p.device)
	}
	if err := cuda.Available(); err != nil {
		return nil, errorf(DeviceError, o.name, "device", "is %s, which cannot be used: %v", p.device, err)
	}
	c := cuda.Problem{Op: o.name, Types: p.types, Shapes: p.shapes, Int: p.int, Float: p.float, Bool: p.bool, Word: p.word}
	if o.base != "" {
		c.Op, c.Block = o.base, p.grouping.block
	}
	program, err := cuda.New(&c)
	if err != nil {
		return nil, errorf(Unsupported, o.name, "", "%v", err)
	}
	pl.row, pl.workspace = cudaRow, program.Workspace
	pl.compute, pl.accumulator = program.Compute, program.Accumulator
	if err := pl.checkWorkspaceLimit(); err != nil {
		return nil, err
	}
	if err := program.Load(int(p.device.Index)); err != nil {
		return nil, errorf(DeviceError, o.name, "device", "is %s: %v", p.device, err)
	}
	pl.run = func(c *call) error {
		if err := program.Run(uintptr(c.stream), uintptr(unsafe.Pointer(unsafe.SliceData(c.workspace))), c.args); err != nil {
			return errorf(DeviceError, o.name, "device", "is %s: %v", p.device, err)
		}
		return nil
	}
	verbosef("select %q row=%s workspace=%d", p.String(), pl.row, pl.workspace)
	return pl, nil
}

// CUDA is "available", or says why this process cannot use CUDA devices.
func CUDA() string {
	if err := cuda.Available(); err != nil {
		return err.Error()
	}
	return "available"
}

// devicesOf lists the kinds of devices that an op runs on.
func devicesOf(o *op) []string {
	name := o.name
	if o.base != "" {
		name = o.base
	}
	if cuda.Supports(name) {
		return []string{"cpu", "cuda"}
	}
	return []string{"cpu"}
}
