//go:build cgo

package main

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

func TestPanicPoisons(t *testing.T) {
	defer poison.Store(nil)
	if err := protect(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := protect(func() error { return fail(plans.Unsupported, "x", "is odd") }); kindOf(err) != plans.Unsupported {
		t.Fatalf("an ordinary error became %v", err)
	}
	for _, f := range []func() error{
		func() error { panic("boom") },
		func() error { var none *plans.Error; return fail(none.Kind, "", "") },
		func() error { return errors.New("boom of an unknown kind") },
	} {
		poison.Store(nil)
		if err := protect(f); kindOf(err) != plans.Internal {
			t.Errorf("a panic became %v", err)
		}
		ran := false
		err := protect(func() error { ran = true; return nil })
		if ran || kindOf(err) != plans.Internal || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("after a panic, ran=%v: %v", ran, err)
		}
	}
}

func TestHandles(t *testing.T) {
	var handles table
	plan, err := plans.Select(0, plans.MustParse("quantize_per_tensor x=f32[2] q=s8 qmin=-128 qmax=127"), plans.Preference{})
	if err != nil {
		t.Fatal(err)
	}
	if handles.get(0) != nil || handles.get(1<<32) != nil || handles.remove(1<<32) {
		t.Error("an empty table has a plan")
	}
	seen := map[uint64]bool{}
	var live []uint64
	for i := range 1000 {
		h := handles.add(plan, false)
		if h == 0 || seen[h] {
			t.Fatalf("handle %#x was given out before", h)
		}
		seen[h] = true
		live = append(live, h)
		if i%3 == 0 {
			if old := live[i/2]; handles.get(old) != nil && (!handles.remove(old) || handles.get(old) != nil || handles.remove(old)) {
				t.Fatalf("handle %#x outlives its removal", old)
			}
		}
	}
	slots := uint64(len(*handles.slots.Load()))
	if handles.get(1<<32|slots) != nil || handles.get(1<<32|(slots-1)) != nil {
		t.Error("a slot that was not given out has a plan")
	}
	// A slot is used again, and its generations begin anew at 1, since no handle is 0.
	h := live[len(live)-1]
	handles.generations[uint32(h)] = math.MaxUint32
	handles.remove(h)
	if again := handles.add(plan, false); again != 1<<32|uint64(uint32(h)) {
		t.Errorf("handle %#x has another slot or generation than %#x had", again, h)
	}
}

func TestPutText(t *testing.T) {
	const text = "größe ∞"
	for size := range len(text) + 3 {
		buf := []byte(strings.Repeat("#", size+1))
		putText(buf[:size], text)
		if size == 0 {
			continue
		}
		got, _, found := strings.Cut(string(buf[:size]), "\x00")
		if !found || !strings.HasPrefix(text, got) || !utf8.ValidString(got) || buf[size] != '#' {
			t.Errorf("size %d: %q", size, buf)
		}
		if size > len(text) && got != text {
			t.Errorf("size %d: cut to %q", size, got)
		}
	}
}

// TestRunDoesNotAllocate runs a plan through the path that C takes.
func TestRunDoesNotAllocate(t *testing.T) {
	plan, err := plans.Select(0, plans.MustParse("fake_quantize_per_tensor x=f32[2] zero_point=none qmin=-128 qmax=127"), plans.Preference{})
	if err != nil {
		t.Fatal(err)
	}
	handle := handles.add(plan, false)
	defer handles.remove(handle)
	x, scale, y := []float32{0.4, 1.6}, []float32{1}, []float32{0, 0}
	shape := []int64{2}
	dl := func(data []float32, shape []int64) *_Ctype_DLTensor {
		d := new(_Ctype_DLTensor)
		d.data = unsafe.Pointer(&data[0])
		d.device.device_type = 1
		d.dtype = _Ctype_DLDataType{code: 2, bits: 32, lanes: 1}
		d.ndim = _Ctype_int32_t(len(shape))
		if len(shape) > 0 {
			d.shape = (*_Ctype_int64_t)(&shape[0])
		}
		return d
	}
	args := []*_Ctype_DLTensor{dl(x, shape), dl(scale, nil), nil, dl(y, shape)}
	n := testing.AllocsPerRun(1000, func() {
		if goPlanRun(_Ctype_uint64_t(handle), 0, nil, 0, &args[0], 4, nil, 0) != 0 {
			t.Fatal("the run failed")
		}
	})
	if n != 0 || y[1] != 2 {
		t.Errorf("%v allocations in a run; y is %v", n, y)
	}
}

// A tensor without dimensions has no use for the pointers to its shape and strides. Kept
// in a View, one to the first page would end the process when a stack moves.
func TestPointersOfNoDimensions(t *testing.T) {
	value := float32(1)
	d := &_Ctype_DLTensor{data: unsafe.Pointer(&value), dtype: _Ctype_DLDataType{code: 2, bits: 32, lanes: 1}}
	d.device.device_type = 1
	*(*uintptr)(unsafe.Pointer(&d.shape)), *(*uintptr)(unsafe.Pointer(&d.strides)) = 8, 8
	v := new(tensor.View)
	if problem := toView(d, v); problem != "" || v.Shape != nil || v.Strides != nil {
		t.Errorf("%q; shape at %p, strides at %p", problem, v.Shape, v.Strides)
	}
}
