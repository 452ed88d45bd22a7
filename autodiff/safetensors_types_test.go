package autodiff

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/tensor"
)

// Every type is written and read, or refused by its name.
func TestSafetensorsOfEveryType(t *testing.T) {
	for d := tensor.F32; int(d) < tensor.Count; d++ {
		if d.Packed() {
			v := tensor.View{Data: tensor.Of([]uint8{1}).Data, DType: d, Shape: []int64{2}}
			require.ErrorContains(t, WriteSafetensors(new(bytes.Buffer), []NamedView{{"a", v}}, nil),
				`autodiff: safetensors: "a" is `+d.String()+`[2]; want one of the format's types: BF16, BOOL, F16, F32, F64, F8_E4M3, F8_E5M2, I16, I32, I64, I8, U16, U8`)
			continue
		}
		v := tensor.New(d, 2, 3)
		for i := range tensor.Bytes(v) {
			tensor.Bytes(v)[i] = byte(i%2) & 1
		}
		var file bytes.Buffer
		require.NoError(t, WriteSafetensors(&file, []NamedView{{"a", v}}, nil), d)
		read, _, err := ReadSafetensors(&file)
		require.NoError(t, err, d)
		require.Equal(t, d, read[0].View.DType)
		require.Equal(t, tensor.Bytes(v), tensor.Bytes(read[0].View))
	}
	one := tensor.Of([]float32{1, 2})
	for want, tensors := range map[string][]NamedView{
		`"a" is there twice`:                                    {{"a", one}, {"a", one}},
		`"__metadata__" is there twice`:                         {{"__metadata__", one}},
		`"a" is none; want one of the`:                          {{"a", tensor.View{}}},
		`"a" is f32[2] with strides [2]; want a compact tensor`: {{"a", tensor.View{Data: tensor.Of([]float32{1, 2, 3}).Data, DType: tensor.F32, Shape: []int64{2}, Strides: []int64{2}}}},
	} {
		require.ErrorContains(t, WriteSafetensors(new(bytes.Buffer), tensors, nil), want)
	}
}
