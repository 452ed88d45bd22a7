package tests

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// operand is an argument of a case: the same bytes for the definition and for
// the device.
type operand struct {
	placed
	info   plans.ArgInfo
	device []byte // the device's copy of the memory
}

// deviceCase runs one problem with the definitions and on the shim.
type deviceCase struct {
	text       string
	data       string // how inputs are made; see fill
	layout     func(tensor.DType, []int64) placed
	shift      uint64 // bytes by which device memory is off its alignment
	transposed string // arguments whose matrices lie column by column
}

func (c deviceCase) String() string { return fmt.Sprintf("%s (%s)", c.text, c.data) }

// operands makes the arguments, filled from a seed that is the text.
func (c deviceCase) operands(p plans.Plan) (list []*operand) {
	seed := uint64(0)
	for _, b := range []byte(c.String()) {
		seed = seed*31 + uint64(b)
	}
	random := rand.New(rand.NewPCG(seed, 7))
	problem := p.Problem()
	for _, info := range plans.Describe(p).Args {
		o := &operand{info: info}
		list = append(list, o)
		if !info.Present {
			continue
		}
		dtype, _ := tensor.ParseDType(info.DType)
		layout := c.layout
		if slices.Contains(strings.Fields(c.transposed), info.Name) {
			layout = transposed
		}
		if dtype.Packed() {
			dtype = tensor.U8
			if bytes := layout(dtype, info.Shape); !bytes.view.IsContiguous() {
				layout = rowsApart
			}
		}
		o.placed = layout(dtype, info.Shape)
		if info.Direction != "out" {
			list := c.list(random, info, &problem)
			for i, at := range o.at {
				v := c.value(random, info.Name, dtype, &problem)
				if list != nil {
					v = list[i]
				}
				copy(o.memory[at:], elementBits(dtype, v))
			}
		}
		o.device = bytes.Clone(o.memory)
	}
	return list
}

// define draws operands and runs the definition on them. Their device memory is
// as it was before.
func (c deviceCase) define(problem plans.Problem) (operands []*operand, views []tensor.View, err error) {
	plan, err := plans.Select(0, problem, plans.Preference{Row: "go", Threads: 1})
	if err != nil {
		return nil, nil, err
	}
	operands = c.operands(plan)
	for _, o := range operands {
		views = append(views, o.view)
	}
	return operands, views, plan.Run(0, make([]byte, plan.WorkspaceSize()), views)
}

// run compares the device's memory with the definition's, bit for bit.
func (c deviceCase) run(s *shim, descending bool) error {
	problem, err := plans.Parse(c.text)
	if err != nil {
		return err
	}
	operands, _, err := c.define(problem)
	if err != nil {
		return err
	}
	if problem, err = plans.Parse(c.text + " device=cuda:0"); err != nil {
		return err
	}
	plan, err := plans.Select(0, problem, plans.Preference{})
	if err != nil {
		return err
	}
	buffers, views, workspace := c.onDevice(operands, plan.WorkspaceSize())
	if err := plan.Run(0, workspace, views); err != nil {
		return err
	}
	if err := s.execute(buffers, descending); err != nil {
		return err
	}
	for _, o := range operands {
		if err := o.compare(); err != nil {
			return fmt.Errorf("%s: %w", o.info.Name, err)
		}
	}
	return nil
}

// onDevice gives every memory an address, a workspace full of rubbish too.
func (c deviceCase) onDevice(operands []*operand, workspace int64) (buffers []deviceBuffer, views []tensor.View, work []byte) {
	base, apart := deviceMemory()
	for i, o := range operands {
		v := o.view
		if o.info.Present {
			// The end of the memory is the end of a page, as far as alignment allows.
			address := base + uint64(i)*apart - uint64(len(o.memory)+15)&^15 + c.shift
			buffers = append(buffers, deviceBuffer{address, o.device})
			first := uint64(uintptr(v.Data)) - uint64(uintptr(unsafe.Pointer(&o.memory[0])))
			v.Data, v.Device = devicePointer(address+first), tensor.Device{Kind: tensor.CUDA}
		}
		views = append(views, v)
	}
	if workspace > 0 {
		address := base + uint64(len(operands))*apart - uint64(workspace+15)&^15
		buffers = append(buffers, deviceBuffer{address, bytes.Repeat([]byte{0xC3}, int(workspace))})
		work = unsafe.Slice((*byte)(devicePointer(address)), workspace)
	}
	return buffers, views, work
}

// deviceMemory returns where buffers begin and how far apart: away from Go's
// heap, wherever the system put that, since the collector takes an address
// within it for a pointer.
func deviceMemory() (base, apart uint64) {
	base = 1 << 44
	if uint64(uintptr(unsafe.Pointer(new(int)))) < 2*base {
		base *= 3
	}
	return base, 1 << 32
}

func devicePointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func (o *operand) compare() error {
	if !o.info.Present || bytes.Equal(o.memory, o.device) {
		return nil
	}
	size := o.view.DType.Size()
	wrong, first := 0, ""
	for i, at := range o.at {
		want, got := bitsAt(o.memory[at:at+size]), bitsAt(o.device[at:at+size])
		if want != got && !(isNaN(want, o.view.DType) && isNaN(got, o.view.DType)) {
			if wrong++; wrong <= 3 {
				first += fmt.Sprintf("; element %d is %s, want %s", i, show(got, o.view.DType), show(want, o.view.DType))
			}
		}
		copy(o.device[at:at+size], o.memory[at:at+size])
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements differ%s", wrong, len(o.at), first)
	}
	if !bytes.Equal(o.memory, o.device) {
		return fmt.Errorf("memory between the elements was written")
	}
	return nil
}

// TestCUDAKernels runs every kernel on the CPU and compares with definitions.
func TestCUDAKernels(t *testing.T) {
	s := startShim(t, buildShim(t))
	defer cuda.ReplaceDriver(s)()
	for i, c := range deviceCases(t) {
		if err := c.run(s, i%2 == 1); err != nil {
			t.Fatalf("%s\n%v", c, err)
		}
	}
	for _, name := range cuda.KernelNames() {
		if !s.launched[name] {
			t.Errorf("no case runs the kernel %s", name)
		}
	}
}

// TestCUDAUnavailable asks for a device that is not there, in any build.
func TestCUDAUnavailable(t *testing.T) {
	if cuda.Available() == nil {
		t.Skip("this machine has a GPU")
	}
	_, err := plans.Select(0, plans.MustParse("quantize_per_tensor x=f32[4] q=s8 qmin=-8 qmax=7 device=cuda:0"), plans.Preference{})
	var e *plans.Error
	if !errors.As(err, &e) || e.Kind != plans.DeviceError || !strings.Contains(err.Error(), "quantize_per_tensor: device is cuda:0, which cannot be used: ") {
		t.Errorf("error %v", err)
	}
	t.Log(err)
}
