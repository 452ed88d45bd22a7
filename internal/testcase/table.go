package testcase

import (
	"fmt"
	"strings"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// Op draws problems of one op.
type Op struct {
	Name    string
	InPlace [][2]string // an output, and an input that it may take the place of: what plans says
	draw    func(s *Source, t *text)
}

// Table has every op, in plans' order.
var Table = makeTable()

// Find returns the op with a name.
func Find(name string) *Op {
	for i := range Table {
		if Table[i].Name == name {
			return &Table[i]
		}
	}
	panic("testcase: no op " + name)
}

func makeTable() (table []Op) {
	for _, f := range groupedOps {
		for _, g := range granularities {
			table = append(table, Op{Name: f.name + "_per_" + g.name + f.suffix, draw: func(s *Source, t *text) {
				shape := s.shape(s.rank(g.rank))
				t.scalar = len(shape) == 0
				dtype := t.storable(f.firstType(s))
				t.tensor(f.first, dtype, shape)
				g.keys(s, t, shape)
				f.keys(s, t, dtype)
			}})
		}
	}
	table = append(table,
		Op{Name: "embedding", draw: embedding},
		Op{Name: "embedding_backward", draw: embeddingBackward},
		Op{Name: "embedding_renorm", draw: embeddingRenorm},
		Op{Name: "embedding_bag", draw: embeddingBag},
		Op{Name: "embedding_bag_backward", draw: embeddingBagBackward},
		Op{Name: "embedding_bag_per_sample_weights_backward", draw: embeddingBagWeights},
		Op{Name: "weight_only_embedding_bag", draw: weightOnlyEmbeddingBag},
		Op{Name: "grid_sample", draw: gridSample},
		Op{Name: "grid_sample_backward", draw: gridSampleBackward},
		Op{Name: "grid_sample_double_backward", draw: gridSampleDoubleBackward},
		Op{Name: "affine_grid", draw: affineGrid},
		Op{Name: "affine_grid_backward", draw: affineGridBackward},
		Op{Name: "quantized_linear", draw: quantizedLinear},
		Op{Name: "quantized_linear_per_group", draw: quantizedLinearPerGroup},
		Op{Name: "weight_only_linear", draw: weightOnlyLinear},
		Op{Name: "matmul", draw: matmul},
	)
	pairs := inPlace()
	for i := range table {
		table[i].InPlace = pairs[table[i].Name]
	}
	return table
}

// inPlace lists by op the pairs that plans has.
func inPlace() map[string][][2]string {
	pairs := map[string][][2]string{}
	for _, o := range plans.Support() {
		for _, a := range o.Args {
			for _, input := range a.InPlace {
				pairs[o.Op] = append(pairs[o.Op], [2]string{a.Name, input})
			}
		}
	}
	return pairs
}

// text is a problem's text in the making.
type text struct {
	strings.Builder
	scalar bool // its tensors have rank 0
}

// storable returns the type, or bytes where it needs a dimension to be packed
// along.
func (t *text) storable(dtype tensor.DType) tensor.DType {
	if t.scalar && dtype.Packed() {
		return map[tensor.DType]tensor.DType{tensor.S4: tensor.S8, tensor.U4: tensor.U8}[dtype]
	}
	return dtype
}

func (t *text) add(key string, value any) { fmt.Fprintf(t, " %s=%v", key, value) }

func (t *text) tensor(key string, dtype tensor.DType, shape []int64) {
	t.add(key, dtype.String()+tensor.ShapeString(shape))
}

// embeddingSizes draws the shapes of a weight and of indices into it.
func embeddingSizes(s *Source) (weight, index []int64) {
	weight = []int64{1 + s.Int64N(9), s.width()}
	index = s.shape(s.IntN(4))
	if s.Size == Large {
		index = []int64{s.extent(), LargeElements / weight[1]}
	} else if s.Size == Small && s.IntN(4) == 0 {
		index = []int64{2, 400} // more than one chunk for a row
	}
	return weight, index
}

func indexType(s *Source) tensor.DType { return oneOf(s, tensor.I32, tensor.I64) }

func embedding(s *Source, t *text) {
	weight, index := embeddingSizes(s)
	t.tensor("weight", s.float(), weight)
	t.tensor("indices", indexType(s), index)
	t.add("bounds", oneOf(s, "error", "skip"))
}

func embeddingBackward(s *Source, t *text) {
	weight, index := embeddingSizes(s)
	dtype := s.float()
	t.tensor("grad_output", dtype, append(index, weight[1]))
	t.tensor("indices", indexType(s), index)
	t.tensor("grad_weight", dtype, weight)
	t.add("padding_idx", s.Int64N(weight[0]+1)-1)
	t.add("accumulate", s.IntN(2) == 0)
	t.add("scale_grad_by_freq", s.IntN(2) == 0)
}

func embeddingRenorm(s *Source, t *text) {
	weight, index := embeddingSizes(s)
	t.tensor("weight", s.float(), weight)
	t.tensor("indices", indexType(s), index)
	t.add("max_norm", oneOf(s, 0.5, 1, 3))
	t.add("norm_type", oneOf(s, "2", "1", "inf", "3"))
	t.add("bounds", oneOf(s, "error", "skip"))
}

// samplerKeys draws the shapes of an image, its grid and its output.
func samplerKeys(s *Source, t *text) (dtype, grid tensor.DType, image, where, out []int64) {
	dims := 2 + s.IntN(2)
	n, c := s.extent(), s.extent()
	image, where, out = []int64{n, c}, []int64{n}, []int64{n, c}
	for i := range dims {
		o := s.extent()
		if i == dims-1 && s.Size != Edge {
			o = oneOf(s, widths...)
			if s.Size == Large {
				o = LargeElements / 8 / max(1, tensor.NumElements(out))
			}
		}
		image = append(image, max(1, s.extent()))
		where, out = append(where, o), append(out, o)
	}
	if s.Size == Small && s.IntN(3) == 0 {
		c = 15 + s.Int64N(20) // more than one group of channels
		image[1], out[1] = c, c
	}
	dtype = s.float()
	grid = dtype
	if dtype.Size() == 2 {
		grid = oneOf(s, dtype, tensor.F32)
	}
	modes := []string{"bilinear", "bilinear", "nearest", "bicubic"}
	if dims == 2 {
		modes = append(modes, "bicubic")
	}
	t.add("mode", oneOf(s, modes...))
	t.add("padding_mode", oneOf(s, "zeros", "border", "reflection"))
	t.add("align_corners", s.IntN(2) == 0)
	return dtype, grid, image, append(where, int64(dims)), out
}

func gridSample(s *Source, t *text) {
	dtype, grid, image, where, _ := samplerKeys(s, t)
	t.tensor("input", dtype, image)
	t.tensor("grid", grid, where)
}

func gridSampleBackward(s *Source, t *text) {
	dtype, grid, image, where, out := samplerKeys(s, t)
	t.tensor("grad_output", dtype, out)
	t.tensor("input", dtype, image)
	t.tensor("grid", grid, where)
	t.WriteString(oneOf(s, "", "", " grad_input=none", " grad_grid=none"))
}

func gridSampleDoubleBackward(s *Source, t *text) {
	dtype, grid, image, where, out := samplerKeys(s, t)
	t.tensor("grad_output", dtype, out)
	t.tensor("input", dtype, image)
	t.tensor("grid", grid, where)
	t.WriteString(oneOf(s, "", "", " grad_grad_input=none", " grad_grad_grid=none"))
	t.WriteString(oneOf(s, "", "", " grad_grad_output=none", " grad_input=none", " grad_grid=none"))
}

func affineKeys(s *Source, t *text) (theta, grid []int64) {
	dims := int64(2 + s.IntN(2))
	n := s.extent()
	grid = append(append([]int64{n}, s.shape(int(dims))...), dims)
	if s.Size == Large {
		grid[0], n = 1, 1
	}
	t.add("align_corners", s.IntN(2) == 0)
	return []int64{n, dims, dims + 1}, grid
}

func affineGrid(s *Source, t *text) {
	theta, grid := affineKeys(s, t)
	dtype := s.float()
	t.tensor("theta", dtype, theta)
	t.tensor("grid", dtype, grid)
}

func affineGridBackward(s *Source, t *text) {
	_, grid := affineKeys(s, t)
	t.tensor("grad_grid", s.float(), grid)
}

func quantizedLinear(s *Source, t *text) {
	m, k, n := s.extent(), s.width(), s.width()
	if s.Size == Large {
		m, k, n = 30, 300, 300
	}
	t.tensor("x", tensor.S8, []int64{m, k})
	t.tensor("weight", tensor.S8, []int64{n, k})
	t.add("x_scale", s.float())
	t.add("weight_scale", s.float())
	t.add("bias", oneOf(s, tensor.None, s.float()))
	t.add("y", s.float())
}

func quantizedLinearPerGroup(s *Source, t *text) {
	m, k, n := s.extent(), s.width(), s.extent()
	if s.Size == Large {
		m, k, n = 30, 300, 70
	}
	t.tensor("x", oneOf(s, tensor.S8, tensor.U8), []int64{m, k})
	t.add("x_scale", s.float())
	t.add("x_zero_point", oneOf(s, tensor.None, tensor.I32, tensor.U8, s.float()))
	s.weightOfCodes(t, []int64{n, k}, s.block(k))
	s.codeParameters(t)
	t.add("bias", oneOf(s, tensor.None, s.float()))
	t.add("y", s.float())
}

func weightOnlyLinear(s *Source, t *text) {
	m, k, n := s.extent(), s.width(), s.extent()
	if s.Size == Large {
		m, k, n = 30, 300, 30
	}
	t.tensor("x", s.float(), []int64{m, k})
	s.weightOfCodes(t, []int64{n, k}, s.block(k))
	s.codeParameters(t)
	t.add("bias", oneOf(s, tensor.None, s.float()))
}

// weightOfCodes draws a weight of codes in groups.
func (s *Source) weightOfCodes(t *text, shape []int64, group int64) {
	t.tensor("weight", oneOf(s, tensor.S8, tensor.U8, tensor.S4, tensor.U4), shape)
	t.add("group_size", group)
}

// codeParameters draws the types of what these codes have beside them.
func (s *Source) codeParameters(t *text) {
	t.add("weight_scale", s.float())
	t.add("weight_zero_point", oneOf(s, tensor.None, tensor.I32, tensor.U8, s.float()))
}

func matmul(s *Source, t *text) {
	m, k, n := s.extent(), s.width(), s.width()
	switch {
	case s.Size == Large:
		size := oneOf(s, [3]int64{40, 300, 300}, [3]int64{20, 1100, 40}, [3]int64{3, 300, 1100}, [3]int64{70, 1100, 5})
		m, k, n = size[0], size[1], size[2]
	case s.Size != Edge && s.IntN(4) == 0:
		m, n = s.width(), s.extent()
	}
	var batch []int64
	if s.IntN(2) == 0 {
		batch = []int64{s.extent()}
	}
	dtype := s.float()
	t.tensor("input", dtype, append(batch[:len(batch):len(batch)], m, k))
	t.tensor("other", dtype, append(batch[:len(batch):len(batch)], k, n))
	t.add("bias", oneOf(s, tensor.None, s.float()))
}
