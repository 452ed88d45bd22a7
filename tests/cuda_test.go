package tests

import (
	"bytes"
	"errors"
	"fmt"
	"math"
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
	text   string
	data   string // how inputs are made; see fill
	layout func(tensor.DType, []int64) placed
	shift  uint64 // bytes by which device memory is off its alignment
	turned string // arguments whose matrices lie column by column
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
		if slices.Contains(strings.Fields(c.turned), info.Name) {
			layout = turned
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

func elementBits(dtype tensor.DType, v float64) []byte {
	if dtype.IsFloat8() {
		return []byte{tensor.ToFloat8(dtype, v)}
	}
	if dtype.IsInt() {
		return appendBits(nil, uint64(int64(v)), dtype.Size())
	}
	return appendBits(nil, floatBits(v, dtype), dtype.Size())
}

// special values that definitions must agree on.
var special = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e-45, -1e-40, 3e38, -65504, 0.5, -0.5, 1.5, 2.5}

const hotScale = float64(float32(1.3 / 16))

// value makes one element of an argument. data says how: "plain" has no special
// values, "hot" prefers one destination, one scale and ties, grids are within the
// image when "inner" and at one place of it when "calm"; other words mix everything.
func (c deviceCase) value(r *rand.Rand, name string, dtype tensor.DType, p *plans.Problem) float64 {
	wild := c.data != "plain" && r.IntN(16) == 0
	switch {
	case c.data == "extreme" && dtype == tensor.S8:
		return -128
	case name == "indices":
		rows := float64(indexRows(p))
		switch {
		case c.data == "hot" && r.IntN(8) > 0:
			return math.Floor(rows / 2)
		case wild && !strings.Contains(c.text, "bounds=error") && c.data != "valid":
			return rows + float64(r.IntN(3)) - float64(r.IntN(2))*(rows+3)
		}
		return math.Floor(r.Float64() * rows)
	case name == "chosen":
		return float64(r.IntN(int(tensor.NumElements(p.Shape("indices")))))
	case dtype.IsInt():
		lo, hi := -8.0, 7.0
		if name == "q" || dtype == tensor.S8 || dtype == tensor.U8 {
			l, h := dtype.WholeRange()
			lo, hi = float64(l), float64(h)
		}
		if name == "zero_point" {
			lo, hi = max(lo, -8), 7
			if strings.Contains(c.text, "qmin=0 ") || dtype == tensor.U8 {
				lo = 0
			}
		}
		return lo + math.Floor(r.Float64()*(hi-lo+1))
	case dtype.IsFloat8():
		v := float64(tensor.Float8Values(dtype)[r.IntN(256)])
		if math.IsNaN(v-v) && !wild {
			return 0
		}
		return v
	case name == "q":
		return math.Floor(r.Float64()*255) - 128
	case name == "scale" || strings.HasSuffix(name, "_scale"):
		if wild && r.IntN(4) == 0 {
			return special[r.IntN(len(special))]
		}
		switch {
		case c.data == "hot":
			return hotScale
		case r.IntN(2) == 0: // few quotients by it are exact
			return math.Ldexp(1+r.Float64(), -4)
		}
		return math.Ldexp(1+math.Floor(r.Float64()*4)/4, -4)
	case name == "grid":
		switch {
		case c.data == "inner":
			return r.Float64() - 0.5
		case c.data == "calm":
			return (r.Float64() - 0.5) / 64
		case wild:
			return special[r.IntN(len(special))]
		case c.data == "hot":
			return math.Floor(r.Float64()*3) / 64
		case r.IntN(8) == 0: // where the padding of align_corners begins
			return float64(r.IntN(3) - 1)
		}
		return r.Float64()*3 - 1.5
	case wild:
		return special[r.IntN(len(special))]
	case c.data == "hot" && name == "x": // quotients that are ties, or next to them
		return (math.Floor(r.Float64()*64) - 31.5) * hotScale
	case r.IntN(3) == 0: // ties
		return (math.Floor(r.Float64()*64) - 32) / 32
	}
	return r.NormFloat64()
}

// list makes the values of arguments whose elements hang together: offsets ascend
// from 0 on, and of each bag that is a row of indices some position is chosen.
func (c deviceCase) list(r *rand.Rand, info plans.ArgInfo, p *plans.Problem) (list []float64) {
	switch {
	case info.Name == "offsets":
		for range info.Shape[0] {
			list = append(list, float64(r.Int64N(p.Shape("indices")[0]+1)))
		}
		slices.Sort(list)
		list[0] = 0
	case info.Name == "chosen" && len(p.Shape("indices")) == 2:
		length := p.Shape("indices")[1]
		for i := range tensor.NumElements(info.Shape) {
			list = append(list, float64(i/info.Shape[1]*length+r.Int64N(length)))
		}
	}
	return list
}

func indexRows(p *plans.Problem) int64 {
	if strings.HasPrefix(p.Op(), "embedding") && strings.HasSuffix(p.Op(), "_backward") && !strings.Contains(p.Op(), "weights") {
		return p.Shape("grad_weight")[0]
	}
	return p.Shape("weight")[0]
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
