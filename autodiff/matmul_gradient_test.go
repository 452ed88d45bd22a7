package autodiff

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/isobit-ml/isobit/plans"
	"github.com/isobit-ml/isobit/tensor"
)

// batch is a tensor of matrices whose elements are looked up one by one.
type batch struct {
	shape      []int
	x          []float64
	transposed bool
}

// at returns an element of the matrix that a position of the full batch meets.
func (b *batch) at(place []int, row, column int) float64 {
	r := len(b.shape) - 2
	if b.transposed {
		row, column = column, row
	}
	flat := 0
	for d, n := range b.shape[:r] {
		p := place[len(place)-r+d]
		flat = flat*n + min(p, n-1)
	}
	return b.x[(flat*b.shape[r]+row)*b.shape[r+1]+column]
}

// rows and columns are those of a matrix.
func (b *batch) size() (rows, columns int) {
	r := len(b.shape)
	if b.transposed {
		return b.shape[r-1], b.shape[r-2]
	}
	return b.shape[r-2], b.shape[r-1]
}

// indicesOf lists the positions of a batch in row-major order.
func indicesOf(shape []int) [][]int {
	all := [][]int{{}}
	for _, n := range shape {
		var next [][]int
		for _, p := range all {
			for i := range n {
				next = append(next, append(slices.Clone(p), i))
			}
		}
		all = next
	}
	return all
}

// planProduct multiplies two matrices by the plan that Python runs, in a type.
func planProduct(t *testing.T, d tensor.DType, m, k, n int, x, y []float64) []float64 {
	be := NewCPUThreads(1)
	a, b := Floats(be, x, m, k).Cast(d), Floats(be, y, k, n).Cast(d)
	problem, err := plans.Parse(fmt.Sprintf("matmul input=%v[%d,%d] other=%v[%d,%d] bias=none", d, m, k, d, k, n))
	require.NoError(t, err)
	plan, err := plans.Select(0, problem, plans.Preference{})
	require.NoError(t, err)
	av, err := a.View()
	require.NoError(t, err)
	bv, err := b.View()
	require.NoError(t, err)
	z := tensor.New(d, int64(m), int64(n))
	require.NoError(t, plan.Run(0, make([]byte, plan.WorkspaceSize()), []tensor.View{av, bv, {}, z}))
	return list(t, FloatView(be, z))
}

// folded is the gradient that section 8 of NUMERICS.md wants for a tensor of a shape:
// for each of its matrices one product of l and r over all those that it met.
func folded(t *testing.T, d tensor.DType, shape, full []int, l, r *batch) (grad []float64) {
	own := append(slices.Repeat([]int{1}, len(full)-(len(shape)-2)), shape[:len(shape)-2]...)
	m, k := l.size()
	_, n := r.size()
	for _, mine := range indicesOf(own) {
		var met [][]int
		for _, p := range indicesOf(full) {
			same := true
			for i := range p {
				same = same && (own[i] == 1 || p[i] == mine[i])
			}
			if same {
				met = append(met, p)
			}
		}
		inner := k * len(met)
		x, y := make([]float64, m*inner), make([]float64, inner*n)
		for at, p := range met {
			for j := range k {
				for i := range m {
					x[i*inner+at*k+j] = l.at(p, i, j)
				}
				for i := range n {
					y[(at*k+j)*n+i] = r.at(p, j, i)
				}
			}
		}
		grad = append(grad, planProduct(t, d, m, inner, n, x, y)...)
	}
	return grad
}

var floatTypes = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}

// randomOf makes elements of many magnitudes, so that sums in another order have other bits.
func randomOf(ad adf, seed uint64, d tensor.DType, shape ...int) Float[adf] {
	return Normal(ad, seed, 0, 1, shape...).Mul(Uniform(ad, seed+50, 0.01, 3, shape...)).Cast(d)
}

// The gradients of products are products: of a matrix that met several, one over all.
func TestGradientsOfBroadcastProducts(t *testing.T) {
	for _, c := range []struct{ x, y []int }{
		{[]int{5, 7}, []int{7, 3}},
		{[]int{4, 5, 7}, []int{7, 3}},
		{[]int{3, 4, 5, 7}, []int{1, 7, 3}},
		{[]int{5, 7}, []int{4, 7, 3}},
		{[]int{1, 5, 7}, []int{2, 4, 7, 3}},
		{[]int{3, 1, 5, 7}, []int{4, 7, 3}},
		{[]int{1, 4, 5, 7}, []int{3, 1, 7, 3}},
		{[]int{2, 1, 3, 5, 7}, []int{1, 4, 1, 7, 3}},
		{[]int{4, 5, 7}, []int{4, 7, 3}},
		{[]int{9, 1, 7}, []int{7, 1}},
		{[]int{1, 7}, []int{6, 7, 3}},
		{[]int{5, 1}, []int{40, 1, 3}},
		{[]int{0, 5, 7}, []int{7, 3}},
		{[]int{5, 0}, []int{2, 0, 3}},
	} {
		for _, d := range floatTypes {
			for transposed := range 4 {
				transposeX, transposeY := transposed&1 != 0, transposed&2 != 0
				t.Run(fmt.Sprint(c.x, c.y, d, transposeX, transposeY), func(t *testing.T) {
					ad := over(None{})
					make := func(seed uint64, shape []int, transpose bool) Float[adf] {
						shape = slices.Clone(shape)
						if r := len(shape); transpose {
							shape[r-2], shape[r-1] = shape[r-1], shape[r-2]
						}
						return ad.Track(randomOf(ad, seed, d, shape...))
					}
					x, y := make(1, c.x, transposeX), make(2, c.y, transposeY)
					z := x.matmul(y, transposeX, transposeY)
					dz := randomOf(ad, 3, d, z.Shape()...)
					require.NoError(t, z.Err())
					g, err := ad.Backward(z, WithSeed(ad.Inner(dz)))
					require.NoError(t, err)
					dx, _ := ad.Grad(x, g)
					dy, _ := ad.Grad(y, g)

					full := z.Shape()[:z.Rank()-2]
					of := func(x Float[adf], transposed bool) *batch { return &batch{x.Shape(), list(t, x), transposed} }
					wantX := folded(t, d, x.Shape(), full, of(dz, false), of(y, !transposeY))
					if transposeX {
						wantX = folded(t, d, x.Shape(), full, of(y, transposeY), of(dz, true))
					}
					wantY := folded(t, d, y.Shape(), full, of(x, !transposeX), of(dz, false))
					if transposeY {
						wantY = folded(t, d, y.Shape(), full, of(dz, true), of(x, transposeX))
					}
					require.Equal(t, wantX, list(t, dx), "dx")
					require.Equal(t, wantY, list(t, dy), "dy")
				})
			}
		}
	}
}

// A linear layer's gradients are three products over all rows, whatever the leading
// dimensions: dy * w, transposed dy * x, and a row of ones times dy. A quantized layer's
// are those at the values that its codes stand for, in the compute type.
func TestGradientsOfLinearLayers(t *testing.T) {
	for _, shape := range [][]int{{7}, {5, 7}, {200, 7}, {3, 70, 7}, {2, 3, 1, 50, 7}, {0, 7}} {
		for _, d := range floatTypes {
			for _, quantized := range []bool{false, true} {
				t.Run(fmt.Sprint(shape, d, quantized), func(t *testing.T) {
					ad := over(None{})
					x, w, b := ad.Track(randomOf(ad, 1, d, shape...)), ad.Track(randomOf(ad, 2, d, 3, 7)), ad.Track(randomOf(ad, 3, d, 3))
					compute, y := d, x.Linear(w, b)
					served := func(x Float[adf]) []float64 { return list(t, x) }
					if quantized {
						if y = x.QuantizedLinear(w, b); d.Size() == 2 {
							compute = tensor.F32
						}
						served = func(x Float[adf]) []float64 {
							return list(t, ad.Detach(x).QuantizeDynamic(PerToken(-127, 127)).Dequantize(compute))
						}
					}
					dy := randomOf(ad, 4, d, y.Shape()...)
					g, err := ad.Backward(y, WithSeed(ad.Inner(dy)))
					require.NoError(t, err)
					rows := dy.Len() / 3
					ones := slices.Repeat([]float64{1}, rows)
					transposed := list(t, dy.Reshape(rows, 3).Transpose(0, 1))
					for i, want := range [][]float64{
						planProduct(t, compute, rows, 3, 7, list(t, dy), served(w)),
						planProduct(t, compute, 3, rows, 7, transposed, served(x)),
						planProduct(t, compute, 1, rows, 3, ones, list(t, dy)),
					} {
						got, ok := ad.Grad([]Float[adf]{x, w, b}[i], g)
						require.True(t, ok)
						want = list(t, Floats(ad, want).Cast(d))
						require.Equal(t, want, list(t, got), "gradient %d", i)
					}
				})
			}
		}
	}
}
