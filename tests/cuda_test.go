package tests

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// deviceCase is a problem for the definition and for the shim.
type deviceCase struct {
	text       string
	data       string // how inputs are made; see value
	layout     testcase.Layout
	shift      uint64 // bytes by which device memory is off its alignment
	transposed string // arguments whose matrices lie column by column
}

func (c deviceCase) String() string { return fmt.Sprintf("%s (%s)", c.text, c.data) }

// draw makes the tensors, from a seed that is the text.
func (c deviceCase) draw() (*testcase.Case, error) {
	drawn, err := testcase.Blank(c.text)
	if err != nil {
		return nil, err
	}
	seed := uint64(0)
	for _, b := range []byte(c.String()) {
		seed = seed*31 + uint64(b)
	}
	random := rand.New(rand.NewPCG(seed, 7))
	for i := range drawn.Args {
		if a := &drawn.Args[i]; a.Present && a.Direction != "out" {
			a.Fill(c.values(random, a, &drawn.Problem))
		}
	}
	return drawn, nil
}

// run compares what the shim returns with what the definition does.
func (c deviceCase) run(s *shim, descending bool) error {
	drawn, err := c.draw()
	if err != nil {
		return err
	}
	options := testcase.Options{Layout: c.layout, Layouts: map[string]testcase.Layout{}}
	for _, name := range strings.Fields(c.transposed) {
		options.Layouts[name] = testcase.Columns
	}
	want, err := drawn.Run(definition)
	if err != nil {
		return err
	}
	return compareOnDevice(s, drawn, options, want, c.shift, descending)
}

// definition runs cases by the definition.
var definition = testcase.Options{Preference: plans.Preference{Row: "go", Threads: 1}}

// compareOnDevice runs a case on the shim, its memory off a vector's alignment by shift, and compares the
// results with others.
func compareOnDevice(s *shim, c *testcase.Case, o testcase.Options, want [][]byte, shift uint64, descending bool) error {
	plan, err := plans.Select(0, plans.MustParse(c.Text+" device=cuda:0"), plans.Preference{})
	if err != nil {
		return err
	}
	placed, _, free := c.Place(plan, o)
	defer free()
	inputs := make([][]byte, len(placed))
	for i, p := range placed {
		inputs[i] = bytes.Clone(p.Memory)
	}
	buffers, views, workspace := placedOnDevice(placed, plan.WorkspaceSize(), shift)
	if err := plan.Run(0, workspace, views); err != nil {
		return err
	}
	if err := s.execute(buffers, descending); err != nil {
		return err
	}
	for i, p := range placed {
		a := &c.Args[i]
		if err := p.Stray(); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
		if a.In() && a.Name != o.InPlace[1] && !bytes.Equal(p.Memory, inputs[i]) {
			return fmt.Errorf("the input %s was written", a.Name)
		}
	}
	return c.Compare(placed.Outputs(c), want)
}

// placedOnDevice gives every memory of a placement an address, off a vector's
// alignment by shift, and makes a workspace. Buffers share the placement's bytes.
func placedOnDevice(placed testcase.Placement, workspace int64, shift uint64) (buffers []deviceBuffer, views []tensor.View, work []byte) {
	base, apart := deviceMemory()
	at := map[*byte]uint64{} // an output in place of an input has its address
	for i, p := range placed {
		v := p.View
		if p.Memory != nil {
			start := unsafe.SliceData(p.Memory)
			if at[start] == 0 {
				at[start] = base + uint64(i)*apart - uint64(len(p.Memory)+15)&^15 + shift
				buffers = append(buffers, deviceBuffer{at[start], p.Memory})
			}
			v.Data = devicePointer(at[start] + uint64(uintptr(v.Data)-uintptr(unsafe.Pointer(start))))
			v.Device = tensor.Device{Kind: tensor.CUDA}
		}
		views = append(views, v)
	}
	if workspace > 0 {
		address := base + uint64(len(placed))*apart - uint64(workspace+15)&^15
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
