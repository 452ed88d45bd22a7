package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"

	"github.com/isobit-ml/isobit/tensor"
)

// safeTensors is a safetensors file in memory: eight bytes with the size of a
// JSON header, the header, the tensors.
type safeTensors struct {
	path    string
	entries map[string]entry
	data    []byte
}

type entry struct {
	DType   string    `json:"dtype"`
	Shape   []int64   `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

func open(path string) (*safeTensors, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(bytes) < 8 || binary.LittleEndian.Uint64(bytes) > uint64(len(bytes)-8) {
		return nil, fmt.Errorf("%s: shorter than its header", path)
	}
	size := binary.LittleEndian.Uint64(bytes)
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(bytes[8:8+size], &header); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file := &safeTensors{path, map[string]entry{}, bytes[8+size:]}
	for name, text := range header {
		if name == "__metadata__" {
			continue
		}
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, err)
		}
		file.entries[name] = e
	}
	return file, nil
}

// get copies a tensor out of the file. Its element type must be the given one.
func (f *safeTensors) get(name string, want tensor.DType) (tensor.View, error) {
	e, ok := f.entries[name]
	if !ok {
		return tensor.View{}, fmt.Errorf("%s: has no tensor %s", f.path, name)
	}
	dtypes := map[string]tensor.DType{"F32": tensor.F32, "I8": tensor.S8, "U8": tensor.U8, "I64": tensor.I64}
	if dtypes[e.DType] != want {
		return tensor.View{}, fmt.Errorf("%s: %s is %s; want %s", f.path, name, e.DType, want)
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	elements := tensor.NumElements(e.Shape)
	if begin > end || end > uint64(len(f.data)) || elements < 0 || uint64(elements*want.Size()) != end-begin {
		return tensor.View{}, fmt.Errorf("%s: the offsets of %s do not fit", f.path, name)
	}
	v := tensor.New(want, e.Shape...)
	tensor.SetLittleEndian(v, f.data[begin:end])
	return v, nil
}
