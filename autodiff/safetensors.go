package autodiff

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/isobit-ml/isobit/tensor"
)

// NamedView is a tensor in a safetensors file.
type NamedView struct {
	Name string
	View tensor.View // in host memory
}

// The names of element types in safetensors.
var fileTypes = map[tensor.DType]string{
	tensor.F32: "F32", tensor.F64: "F64", tensor.F16: "F16", tensor.BF16: "BF16", tensor.S8: "I8",
	tensor.U8: "U8", tensor.S16: "I16", tensor.U16: "U16", tensor.I32: "I32", tensor.I64: "I64", tensor.Bool: "BOOL",
	tensor.F8E4M3: "F8_E4M3", tensor.F8E5M2: "F8_E5M2",
}

func fileTypeNames() string { return strings.Join(slices.Sorted(maps.Values(fileTypes)), ", ") }

type fileEntry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // two
}

// WriteSafetensors writes compact tensors in host memory to w, and metadata
// unless it is nil. Types are all but the packed s4 and u4, which the format
// does not have; names and metadata are UTF-8. The same tensors give the same
// bytes: the widest types come first, then by name.
func WriteSafetensors(w io.Writer, tensors []NamedView, metadata map[string]string) error {
	tensors = slices.Clone(tensors)
	slices.SortFunc(tensors, func(a, b NamedView) int {
		return cmp.Or(cmp.Compare(b.View.DType.Size(), a.View.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	header, err := fileHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("%w: %w", errFile, err)
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := w.Write(tensor.LittleEndian(t.View)); err != nil {
			return err
		}
	}
	return nil
}

// fileHeader says which bytes of the data are which tensor's.
func fileHeader(tensors []NamedView, metadata map[string]string) ([]byte, error) {
	var fields []string
	field := func(name string, v any) error {
		key, keyErr := json.Marshal(name)
		value, err := json.Marshal(v)
		fields = append(fields, string(key)+":"+string(value))
		return cmp.Or(keyErr, err)
	}
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("the metadata %q, %q is not UTF-8", key, value)
		}
	}
	if metadata != nil {
		if err := field("__metadata__", metadata); err != nil {
			return nil, err
		}
	}
	at := int64(0)
	seen := map[string]bool{"__metadata__": true}
	for _, t := range tensors {
		if seen[t.Name] {
			return nil, fmt.Errorf("%q is there twice, or metadata's; want a name of its own", t.Name)
		}
		seen[t.Name] = true
		if err := t.check(); err != nil {
			return nil, err
		}
		end := at + t.View.NumElements()*t.View.DType.Size()
		if err := field(t.Name, fileEntry{fileTypes[t.View.DType], append([]int64{}, t.View.Shape...), []int64{at, end}}); err != nil {
			return nil, err
		}
		at = end
	}
	header := "{" + strings.Join(fields, ",") + "}"
	return []byte(header + strings.Repeat(" ", -len(header)&7)), nil // the data begins at a multiple of 8
}

// check refuses what a file cannot hold.
func (t *NamedView) check() error {
	v := &t.View
	switch {
	case !utf8.ValidString(t.Name):
		return fmt.Errorf("the name %q is not UTF-8", t.Name)
	case fileTypes[v.DType] == "":
		return fmt.Errorf("%q is %v; want one of the format's types: %s", t.Name, v, fileTypeNames())
	case !v.Device.IsCPU():
		return fmt.Errorf("%q is %v on %v; want a tensor in host memory", t.Name, v, v.Device)
	}
	if err := checkView(v); err != nil {
		return fmt.Errorf("%q: %w", t.Name, err)
	}
	if !v.IsContiguous() {
		return fmt.Errorf("%q is %v with strides %v; want a compact tensor", t.Name, v, v.Strides)
	}
	if err := checkBools(v.DType, tensor.Bytes(*v)); err != nil {
		return fmt.Errorf("%q: %w", t.Name, err)
	}
	return nil
}

var errFile = errors.New("autodiff: safetensors")

// ReadSafetensors reads the tensors of a file, in the order of their data, and
// its metadata. A file that is cut short, has bytes that belong to no tensor or
// to two, a name twice, types that WriteSafetensors does not write, or a bool other
// than 0 or 1, is an error.
func ReadSafetensors(r io.Reader) (tensors []NamedView, metadata map[string]string, err error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	if len(data) < 8 || binary.LittleEndian.Uint64(data) > uint64(len(data)-8) {
		return nil, nil, fmt.Errorf("%w: %d bytes are shorter than the header", errFile, len(data))
	}
	size := binary.LittleEndian.Uint64(data)
	fields, err := readHeader(data[8 : 8+size])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the header: %w", errFile, err)
	}
	data = data[8+size:]
	entries := map[string]*fileEntry{}
	for name, text := range fields {
		if name == "__metadata__" {
			if err := json.Unmarshal(text, &metadata); err != nil {
				return nil, nil, fmt.Errorf("%w: the metadata: %w", errFile, err)
			}
			continue
		}
		e := new(fileEntry)
		if err := cmp.Or(json.Unmarshal(text, e), e.check(data)); err != nil {
			return nil, nil, fmt.Errorf("%w: %q: %w", errFile, name, err)
		}
		entries[name] = e
	}
	names := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		return cmp.Or(slices.Compare(entries[a].Offsets, entries[b].Offsets), cmp.Compare(a, b))
	})
	// As the format has it: no byte belongs to two tensors or to none. (This also finds a
	// file that was written in part.) So tensors take no more memory than the file has.
	at := int64(0)
	for _, name := range names {
		span := entries[name].Offsets
		if span[0] != at {
			return nil, nil, fmt.Errorf("%w: %q has bytes %d to %d; want it to begin at %d, where what is before it ends", errFile, name, span[0], span[1], at)
		}
		at = span[1]
	}
	if at != int64(len(data)) {
		return nil, nil, fmt.Errorf("%w: the tensors end at byte %d of the data, which has %d", errFile, at, len(data))
	}
	for _, name := range names {
		v, err := entries[name].read(data)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %q: %w", errFile, name, err)
		}
		tensors = append(tensors, NamedView{name, v})
	}
	return tensors, metadata, nil
}

// readHeader reads the fields of a header, each of which may come once.
func readHeader(text []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil { // which takes the last of fields of one name
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, _ := d.Token(); t != json.Delim('{') {
		return nil, fmt.Errorf("it is %v; want an object", t)
	}
	for seen := map[string]bool{}; d.More(); {
		name, _ := d.Token() // all of it is known to be right
		if seen[name.(string)] {
			return nil, fmt.Errorf("%q is there twice", name)
		}
		seen[name.(string)] = true
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

func (e *fileEntry) dtype() tensor.DType {
	for d, name := range fileTypes {
		if name == e.DType {
			return d
		}
	}
	return tensor.None
}

func (e *fileEntry) check(data []byte) error {
	d := e.dtype()
	if d == tensor.None {
		return fmt.Errorf("the type %q is not known; want one of %s", e.DType, fileTypeNames())
	}
	if e.Shape == nil || len(e.Offsets) != 2 {
		return fmt.Errorf("the shape is %v and data_offsets are %v; want a list, and a begin and an end", e.Shape, e.Offsets)
	}
	n := tensor.NumElements(e.Shape)
	begin, end := e.Offsets[0], e.Offsets[1]
	if n < 0 || n > math.MaxInt64/8 || begin < 0 || end < begin || end > int64(len(data)) || end-begin != n*d.Size() {
		return fmt.Errorf("bytes %d to %d of %d do not hold %s%s", begin, end, len(data), e.DType, tensor.ShapeText(e.Shape))
	}
	return nil
}

// read copies an entry that check took.
func (e *fileEntry) read(data []byte) (v tensor.View, err error) {
	d, data := e.dtype(), data[e.Offsets[0]:e.Offsets[1]]
	if err := checkBools(d, data); err != nil {
		return v, err
	}
	v = tensor.New(d, append([]int64{}, e.Shape...)...)
	tensor.SetLittleEndian(v, data)
	return v, nil
}

// LoadSafetensors reads a file.
func LoadSafetensors(path string) ([]NamedView, map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	tensors, metadata, err := ReadSafetensors(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return tensors, metadata, err
}

// loadByName reads a file's tensors.
func loadByName(path string) (map[string]tensor.View, error) {
	tensors, _, err := LoadSafetensors(path)
	if err != nil {
		return nil, err
	}
	all := map[string]tensor.View{}
	for _, t := range tensors {
		all[t.Name] = t.View
	}
	return all, nil
}
