//go:build cgo && cuda && linux

package tests

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// TestCUDADriver runs plans through gorgonia.org/cu and a stand-in for
// libcuda.so.1 that runs kernels on the CPU (../cuda/shim/driver.cc): what
// lies between a plan and the driver is what a GPU sees.
func TestCUDADriver(t *testing.T) {
	folder := filepath.Dir(buildShim(t))
	for _, fault := range []string{"", "nodevice", "old", "launch", "capture", "nodriver"} {
		c := exec.Command(os.Args[0], "-test.run=TestCUDADriverChild", "-test.v")
		c.Env = append(os.Environ(), "ISOBIT_FAKE_CUDA="+fault, "ISOBIT_CUDA_CHILD=1")
		if fault != "nodriver" {
			c.Env = append(c.Env, "LD_LIBRARY_PATH="+folder)
		}
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestCUDADriverChild") {
			t.Errorf("with the fault %q: %v\n%s", fault, err, out)
		}
	}
}

// fakeStream is the stream that the stand-in expects launches on.
const fakeStream = 0x5757

// TestCUDADriverChild is one process of TestCUDADriver.
func TestCUDADriverChild(t *testing.T) {
	if os.Getenv("ISOBIT_CUDA_CHILD") == "" {
		t.Skip("a part of TestCUDADriver")
	}
	fault := os.Getenv("ISOBIT_FAKE_CUDA")
	if fault == "nodriver" && cuda.Available() == nil {
		return // this machine has one
	}
	wants := map[string]string{
		"nodevice": "finds no device", "old": "is for CUDA 11.8; 12.0", "launch": "a kernel cannot be launched", "nodriver": "there is no CUDA driver",
	}
	for _, text := range []string{
		"quantize_per_channel x=f32[3,16] q=s8 axis=0 qmin=-8 qmax=7",
		"fake_quantize_per_tensor_backward grad_output=f16[140000] zero_point=f32 grad_scale=f32 grad_zero_point=f32 qmin=-8 qmax=7",
		"embedding_backward grad_output=f32[600,8] indices=i64[600] grad_weight=f32[2,8]",
		"grid_sample_backward grad_output=f32[1,3,4,6] input=f32[1,3,5,7] grid=f32[1,4,6,2]",
		"grid_sample_double_backward grad_output=f32[1,3,4,6] input=f32[1,3,5,7] grid=f32[1,4,6,2]",
		"quantized_linear x=s8[5,64] weight=s8[3,64]", // the first device is too old for tensor cores
	} {
		for _, device := range []string{"cuda:0", "cuda:1", "cuda:2"} {
			err := runOnDriver(text, device)
			want := wants[fault]
			if device == "cuda:2" && (want == "" || fault == "launch") {
				want = "device 2 does not exist; there are 2"
			}
			var e *plans.Error
			switch {
			case want == "" && err != nil:
				t.Errorf("%s on %s: %v", text, device, err)
			case want != "" && (!errors.As(err, &e) || e.Kind != plans.DeviceError || !strings.Contains(err.Error(), want)):
				t.Errorf("%s on %s: error %v, want a device error with %q", text, device, err, want)
			}
		}
	}
}

// TestCUDADriverLoads runs a plan while another one's kernels load, which takes until then.
func TestCUDADriverLoads(t *testing.T) {
	if os.Getenv("ISOBIT_CUDA_CHILD") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestCUDADriverLoads$")
		c.Env = append(os.Environ(), "ISOBIT_FAKE_CUDA=slow", "ISOBIT_CUDA_CHILD=1", "LD_LIBRARY_PATH="+filepath.Dir(buildShim(t)))
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	run, err := onDriver("quantize_per_tensor x=f32[8] q=s8 qmin=-8 qmax=7", "cuda:0")
	if err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	go func() {
		_, err := onDriver("dequantize_per_tensor q=s8[8] y=f32 qmin=-8 qmax=7", "cuda:0")
		loaded <- err
	}()
	for {
		if err := run(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-loaded:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// runOnDriver compares a problem's result on a device with the definition's.
func runOnDriver(text, device string) error {
	run, err := onDriver(text, device)
	if err != nil {
		return err
	}
	return run()
}

// onDriver makes a problem's plan on a device, and a function that compares its result
// with the definition's. Device memory is the host's.
func onDriver(text, device string) (run func() error, err error) {
	c, err := deviceCase{text: text, data: "plain"}.draw()
	if err != nil {
		return nil, err
	}
	want, err := c.Run(definition)
	if err != nil {
		return nil, err
	}
	plan, err := plans.Select(fakeStream, plans.MustParse(text+" device="+device), plans.Preference{})
	if err != nil {
		return nil, err
	}
	return func() error {
		placed, _, free := c.Place(plan, testcase.Options{})
		defer free()
		p, views := plan.Problem(), placed.Views()
		for i := range views {
			if c.Args[i].Present {
				views[i].Device = p.Device()
			}
		}
		if err := plan.Run(fakeStream, tensor.Bytes(tensor.New(tensor.U8, plan.WorkspaceSize())), views); err != nil {
			return err
		}
		return c.Compare(placed.Outputs(c), want)
	}, nil
}
