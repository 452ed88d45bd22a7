package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/cpu"
	"github.com/isobit-ml/isobit/internal/testcase"
	"github.com/isobit-ml/isobit/tensor"
)

// terms draws values of many sizes, so that every order has its own sum.
func terms[C cpu.Compute](r *rand.Rand, n int) []C {
	v := make([]C, n)
	for i := range v {
		v[i] = C(r.NormFloat64()) * C(int64(1)<<r.IntN(30))
	}
	return v
}

func TestStripeOrder(t *testing.T) {
	t.Run("f32", func(t *testing.T) { testStripeOrder[float32](t) })
	t.Run("f64", func(t *testing.T) { testStripeOrder[float64](t) })
}

func testStripeOrder[C cpu.Compute](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	scratch := new(cpu.Scratch)
	for _, n := range []int{0, 1, 2, 63, 64, 65, 127, 128, 129, 4095, 65535, 65536, 65537, 131072, 131073, 400001} {
		all := terms[C](r, n)
		tree, lanes := cpu.TreeOf[C](scratch, 0), cpu.LanesOf[C](scratch, 0)
		for start := 0; start < n; start += cpu.StripeBlock {
			clear(lanes[:])
			block := all[start:min(n, start+cpu.StripeBlock)]
			for pos := 0; pos < len(block); { // in runs of any length
				m := min(1+r.IntN(200), len(block)-pos)
				cpu.AddStripe(lanes, int64(pos), block[pos:pos+m])
				pos += m
			}
			tree.Push(cpu.FoldLanes(lanes))
		}
		require.Equal(t, testcase.Stripe(all), tree.Sum(), "%d terms", n)
		if n > 1000 {
			require.NotEqual(t, testcase.Chunk(all), tree.Sum(), "the data tells orders apart")
		}
	}
}

func TestTreeOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 300 {
		v := terms[float32](r, n)
		var tree cpu.Tree[float32]
		var one []float32 // chunks of one term: what Chunk folds pairwise
		for _, x := range v {
			tree.Push(x)
			one = append(append(one, x), make([]float32, 255)...)
		}
		require.Equal(t, testcase.Chunk(one), tree.Sum(), "%d values", n)
	}
}

func TestChunkOrder(t *testing.T) {
	t.Run("f32", func(t *testing.T) { testChunkOrder[float32](t) })
	t.Run("f64", func(t *testing.T) { testChunkOrder[float64](t) })
}

func testChunkOrder[C cpu.Compute](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	scratch := new(cpu.Scratch)
	for _, n := range []int{0, 1, 255, 256, 257, 511, 512, 513, 768, 1000, 2048, 70000} {
		for _, width := range []int{1, 5, cpu.Block} {
			if n*width > 400000 {
				continue
			}
			columns := make([][]C, width)
			for j := range columns {
				columns[j] = terms[C](r, n)
			}
			chunks := cpu.NewChunks[C](scratch, 2, width)
			for i := range n {
				acc := chunks.Next()
				for j := range acc {
					acc[j] += columns[j][i]
				}
			}
			sum := chunks.Sum()
			for j := range columns {
				require.Equal(t, testcase.Chunk(columns[j]), sum[j], "%d terms, column %d of %d", n, j, width)
			}
		}
	}
}

// Sums start from +0: of nothing, and of terms of -0, they are +0.
func TestSumsAreNeverNegativeZero(t *testing.T) {
	negative := float32(math.Copysign(0, -1))
	scratch := new(cpu.Scratch)
	lanes := cpu.LanesOf[float32](scratch, 0)
	clear(lanes[:])
	cpu.AddStripe(lanes, 0, []float32{negative, negative})
	chunks := cpu.NewChunks[float32](scratch, 2, 1)
	chunks.Next()[0] += negative
	for _, sum := range []float32{cpu.FoldLanes(lanes), chunks.Sum()[0], new(cpu.Tree[float32]).Sum()} {
		require.Zero(t, *(*uint32)(unsafe.Pointer(&sum)))
	}
}

// Elements of every type load exactly, and store with one rounding, at any
// stride.
func TestLoadAndStore(t *testing.T) {
	t.Run("f32", func(t *testing.T) { testLoadAndStore[float32](t) })
	t.Run("f64", func(t *testing.T) { testLoadAndStore[float64](t) })
}

func testLoadAndStore[C cpu.Compute](t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16, tensor.S8, tensor.U8, tensor.I32, tensor.I64} {
		values := []float64{0, 1, 2, 100, 3, 127, 7}
		if dtype != tensor.U8 {
			values = append(values, -1, -100, -128)
		}
		for _, stride := range []int64{1, 2, 3, -1} {
			size := dtype.Size()
			memory := tensor.New(dtype, 64)
			s := cpu.Span{P: memory.Data, Stride: stride * size, DType: dtype}
			if stride < 0 {
				s.P = unsafe.Add(s.P, 20*size)
			}
			src, dst := make([]C, len(values)), make([]C, len(values))
			for i, v := range values {
				src[i] = C(v)
			}
			cpu.Store(s, src)
			cpu.Load(dst, s)
			require.Equal(t, src, dst, "%s, stride %d", dtype, stride)
			for i, v := range values {
				at := unsafe.Slice((*byte)(s.At(int64(i)).P), size)
				require.Equal(t, testcase.Encode(nil, dtype, v), at)
			}
		}
		one := make([]C, 5)
		p := tensor.New(dtype, 1)
		cpu.Store(cpu.Span{P: p.Data, DType: dtype}, []C{3})
		cpu.Load(one, cpu.Span{P: p.Data, DType: dtype})
		require.Equal(t, []C{3, 3, 3, 3, 3}, one, "stride 0")
	}
	absent := []C{1, 2}
	cpu.Load(absent, cpu.Span{})
	require.Equal(t, []C{0, 0}, absent)
	cpu.Store(cpu.Span{}, absent)
}
