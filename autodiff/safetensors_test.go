package autodiff

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

func safetensorsFile(header string, bytes int) []byte {
	data := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(data, header...), make([]byte, bytes)...)
}

// Files that the format's own reader refuses, with errors that say where.
func TestMalformedSafetensors(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for _, tc := range []struct {
		header string
		bytes  int
		want   string
	}{
		{`{` + a + `}`, 9, `the tensors end at byte 8 of the data, which has 9`},
		{`{` + a + `}`, 7, `"a": bytes 0 to 8 of 7 do not hold F32[2]`},
		{`{}`, 1, `the tensors end at byte 0 of the data, which has 1`},
		{`{` + a + `,"b":{"dtype":"U8","shape":[2],"data_offsets":[9,11]}}`, 11, `"b" has bytes 9 to 11; want it to begin at 8`},
		{`{` + a + `,"b":{"dtype":"U8","shape":[2],"data_offsets":[7,9]}}`, 9, `"b" has bytes 7 to 9; want it to begin at 8`},
		{`{` + a + `,"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8, `"b" has bytes 0 to 8; want it to begin at 8`},
		{`{` + a + `,"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}`, 16, `the header: "a" is there twice`},
		{`{` + a + `,"\u0061":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8, `the header: "a" is there twice`},
		{`{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]},` + a + `}`, 8, `the header: "a" is there twice`},
		{"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, `the header: it is not UTF-8`},
		{`null`, 0, `the header: it is <nil>; want an object`},
		{`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}`, 8, `data_offsets are [0 8 9]; want a list, and a begin and an end`},
		{`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}}`, 8, `data_offsets are [0]`},
		{`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4, `the shape is []`},
		{`{"a":null}`, 0, `the type "" is not known; want one of BF16, BOOL, F16`},
		{`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1, `the type "F4" is not known`},
		{`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[8,0]}}`, 8, `do not hold F32[-2]`},
		{`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0, `do not hold`},
		{`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, 0, `do not hold`},
		{`{"__metadata__":{"k":1}}`, 0, `the metadata`},
		{`{` + a, 8, `the header`},
		{`[]`, 0, `the header`},
	} {
		_, _, err := ReadSafetensors(bytes.NewReader(safetensorsFile(tc.header, tc.bytes)))
		require.ErrorContains(t, err, tc.want, tc.header)
	}
	// Empty tensors may lie anywhere between others.
	tensors, _, err := ReadSafetensors(bytes.NewReader(safetensorsFile(`{"e":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},`+a+`}`, 8)))
	require.NoError(t, err)
	require.Len(t, tensors, 2)
	whole := safetensorsFile(`{}`, 0) // a header alone
	tensors, _, err = ReadSafetensors(bytes.NewReader(whole))
	require.NoError(t, err)
	require.Empty(t, tensors)
	for n := range whole {
		_, _, err := ReadSafetensors(bytes.NewReader(whole[:n]))
		require.ErrorContains(t, err, "bytes are shorter than the header")
	}
}

// Tensors take no more memory than the file: those that share bytes are refused before they are copied.
func TestSafetensorsThatShareBytes(t *testing.T) {
	const tensors, size = 1000, 1 << 20
	fields := make([]string, tensors)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"%d":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}`, i, size, size)
	}
	file := safetensorsFile("{"+strings.Join(fields, ",")+"}", size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := ReadSafetensors(bytes.NewReader(file))
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, `want it to begin at 1048576, where what is before it ends`)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32*size))
}

// What cannot be written back as it is.
func TestUnwritableSafetensors(t *testing.T) {
	one := tensor.Of([]float32{1, 2})
	for _, bad := range []NamedView{
		{"\xff", one},
		{"a", tensor.View{}},
		{"a", tensor.View{DType: 99, Shape: []int64{1}}},
		{"a", tensor.View{DType: tensor.F32, Shape: []int64{1}}},
		{"a", tensor.View{Data: one.Data, DType: tensor.F32, Shape: []int64{-1}}},
		{"a", tensor.View{Data: one.Data, DType: tensor.F32, Shape: []int64{2}, Strides: []int64{2}}},
		{"a", tensor.View{Data: one.Data, DType: tensor.F32, Shape: []int64{2}, Strides: []int64{}}},
		{"a", tensor.View{Data: one.Data, DType: tensor.F64, Shape: []int64{1 << 61}}},
		{"a", tensor.View{Data: one.Data, DType: tensor.F32, Shape: []int64{3}, High: one.High}},
		{"a", tensor.View{Data: one.Data, DType: tensor.F32, Shape: []int64{2}, Device: tensor.Device{Kind: tensor.CUDA}}},
	} {
		var b bytes.Buffer
		require.Error(t, WriteSafetensors(&b, []NamedView{bad}, nil), "%v", bad.View)
		require.Zero(t, b.Len())
	}
	for key, value := range map[string]string{"k": "\xff", "\xff": "v"} {
		require.ErrorContains(t, WriteSafetensors(new(bytes.Buffer), nil, map[string]string{key: value}), "not UTF-8")
	}
}

// full is a file on a disk that has room for so many bytes.
type full int

func (f *full) Write(p []byte) (int, error) {
	if len(p) > int(*f) {
		return 0, io.ErrShortWrite
	}
	*f -= full(len(p))
	return len(p), nil
}

// What the reader or the writer answers reaches the caller, wherever it ends.
func TestSafetensorsOfBrokenFiles(t *testing.T) {
	var whole bytes.Buffer
	one := []NamedView{{"a", tensor.Of([]float32{1, 2})}}
	require.NoError(t, WriteSafetensors(&whole, one, nil))
	for room := range whole.Len() {
		f := full(room)
		require.ErrorIs(t, WriteSafetensors(&f, one, nil), io.ErrShortWrite)
	}
	_, _, err := ReadSafetensors(iotest.ErrReader(io.ErrNoProgress))
	require.ErrorIs(t, err, io.ErrNoProgress)
	path := filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(path, whole.Bytes()[:9], 0o600))
	_, _, err = LoadSafetensors(path)
	require.ErrorContains(t, err, path+": autodiff: safetensors: 9 bytes")
	_, _, err = LoadSafetensors(path + "er")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Files with bytes changed are read or refused, without a panic, and what is
// read is written to a file that reads the same.
func TestChangedSafetensors(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, WriteSafetensors(&file, []NamedView{{"a", tensor.Of([]float32{1, 2})}, {"b", tensor.Of([]int8{3}, 1, 1)}}, map[string]string{"k": "v"}))
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 20000 {
		data := bytes.Clone(file.Bytes())
		for range 1 + r.IntN(3) {
			data[r.IntN(len(data))] = `0123456789-,:"[]{}aF`[r.IntN(20)]
		}
		tensors, metadata, err := ReadSafetensors(bytes.NewReader(data))
		if err != nil {
			require.ErrorContains(t, err, "autodiff: safetensors: ")
			continue
		}
		read++
		var again bytes.Buffer
		require.NoError(t, WriteSafetensors(&again, tensors, metadata))
		_, _, err = ReadSafetensors(&again)
		require.NoError(t, err)
	}
	require.Greater(t, read, 500)
}

// A momentum that is set after the first steps begins with that step.
func TestMomentumSetLater(t *testing.T) {
	ad := New(NewCPU(), None{})
	p := NewParams(ad, 1)
	w := p.Full("w", 1, 2)
	o := &SGD{Rate: 1}
	values := func() float64 {
		g, err := ad.Backward(w.Sum())
		require.NoError(t, err)
		require.NoError(t, o.Step(p, g))
		v, err := w.Float64s()
		require.NoError(t, err)
		return v[0]
	}
	require.Equal(t, 0.0, values())
	o.Momentum = 0.5
	require.Equal(t, -1.0, values())
	require.Equal(t, -2.5, values())
	o.Momentum = 0
	require.Equal(t, -3.5, values())
}

func TestSafetensors(t *testing.T) {
	in := []NamedView{
		{"b", tensor.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)},
		{"a", tensor.Of([]int8{-1, 2, 3})},
		{"c \"quoted\"", tensor.Of([]int64{7}, []int64{}...)},
		{"empty", tensor.Of([]float64{}, 0, 4)},
		{"bool", tensor.Of([]bool{true, false})},
	}
	var b, again bytes.Buffer
	require.NoError(t, WriteSafetensors(&b, in, map[string]string{"k": "v"}))
	data := b.Bytes()
	out, metadata, err := ReadSafetensors(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v"}, metadata)
	require.Len(t, out, len(in))
	slices.Reverse(out)
	last := out[0].Name
	require.NoError(t, WriteSafetensors(&again, out, metadata))
	require.Equal(t, data, again.Bytes())
	require.Equal(t, last, out[0].Name, "the caller's list")
	require.Zero(t, binary.LittleEndian.Uint64(data)%8)
	for _, v := range out {
		if v.Name == "b" {
			require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, tensor.Slice[float32](v.View))
			require.Equal(t, []int64{2, 3}, v.View.Shape)
		}
	}
	require.Error(t, WriteSafetensors(&b, append(in, in[0]), nil), "a name twice")
	_, _, err = ReadSafetensors(bytes.NewReader(data[:len(data)-1]))
	require.ErrorContains(t, err, "do not hold")
	_, _, err = ReadSafetensors(bytes.NewReader(data[:5]))
	require.ErrorContains(t, err, "shorter than the header")
}

func FuzzReadSafetensors(f *testing.F) {
	var b bytes.Buffer
	_ = WriteSafetensors(&b, []NamedView{{"a", tensor.Of([]float32{1, 2})}}, nil)
	f.Add(b.Bytes())
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = ReadSafetensors(bytes.NewReader(data)) // must not crash
	})
}
