package tests

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// TestCUDARandom runs drawn problems of every op on the CPU build of the
// kernels: any shape, any strides, repeated elements, outputs in place of inputs.
func TestCUDARandom(t *testing.T) {
	s := startShim(t, buildShim(t))
	defer cuda.ReplaceDriver(s)()
	refused := 0
	for _, run := range []struct {
		size  testcase.Size
		cases int
	}{{testcase.Small, 16}, {testcase.Edge, 12}, {testcase.Large, 1}} {
		for i := range testcase.Table {
			o := &testcase.Table[i]
			hash := fnv.New64a()
			fmt.Fprint(hash, "cuda ", o.Name, run.size)
			cases := run.cases
			if strings.HasPrefix(o.Name, "grid_sample") && run.size != testcase.Large { // of many kinds
				cases *= 3
			}
			for n := range cases {
				err := randomCase(s, o, testcase.NewSource(hash.Sum64()+uint64(n), run.size))
				var e *plans.Error
				switch refusal := errors.As(err, &e) && e.Kind == plans.Unsupported; {
				case refusal && o.Name == "embedding_renorm": // other norms than 1, 2 and infinity
					refused++
				case err != nil:
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("refused: %d", refused)
}

// randomCase draws a case, and where and how its tensors lie, and compares the
// device's result with the definition's.
func randomCase(s *shim, o *testcase.Op, source *testcase.Source) error {
	c, err := o.New(source)
	if err != nil {
		return err
	}
	options := testcase.Options{Preference: plans.Preference{Row: "go", Threads: 1}}
	expanded := source.IntN(2) == 0
	if expanded {
		c.Expand(source.Rand)
	}
	want, err := c.Run(options)
	if err != nil {
		return err
	}
	if source.IntN(3) > 0 {
		options.Layout = testcase.Mixed(source.Rand)
	}
	options.Alternate = source.IntN(2) == 0
	for _, pair := range o.InPlace {
		if out, in := c.Arg(pair[0]), c.Arg(pair[1]); out.Out() && in.In() && out.DType == in.DType && !expanded {
			options.InPlace = pair
		}
	}
	plan, err := plans.Select(0, plans.MustParse(c.Text+" device=cuda:0"), plans.Preference{})
	if err != nil {
		return err
	}
	placed, _, free := c.Place(plan, options)
	defer free()
	inputs := make([][]byte, len(placed))
	for i, p := range placed {
		inputs[i] = bytes.Clone(p.Memory)
	}
	buffers, views, workspace := placedOnDevice(placed, plan.WorkspaceSize(), 8*uint64(source.IntN(2)))
	if err := plan.Run(0, workspace, views); err != nil {
		return fmt.Errorf("%s: %w", c.Text, err)
	}
	if err := s.execute(buffers, source.IntN(2) == 0); err != nil {
		return fmt.Errorf("%s: %w", c.Text, err)
	}
	for i, p := range placed {
		a := &c.Args[i]
		if err := p.Stray(); err != nil {
			return fmt.Errorf("%s: %s: %w", c.Text, a.Name, err)
		}
		if a.In() && a.Name != options.InPlace[1] && !bytes.Equal(p.Memory, inputs[i]) {
			return fmt.Errorf("%s: the input %s was written", c.Text, a.Name)
		}
	}
	if err := c.Compare(placed.Outputs(c), want); err != nil {
		return fmt.Errorf("%s: %w", c.Text, err)
	}
	return nil
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
