package autodiff_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/isobit-ml/isobit/autodiff"
)

// A network of two layers learns exclusive or.
func Example() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	params := autodiff.NewParams(ad, 1)
	w1, b1 := params.Linear("hidden", 2, 16)
	w2, b2 := params.Linear("out", 16, 2)

	x := autodiff.Floats(ad, []float32{0, 0, 0, 1, 1, 0, 1, 1}, 4, 2)
	labels := autodiff.Ints(ad, []int64{0, 1, 1, 0})
	optimizer := autodiff.Adam{Rate: 0.05}
	for step := range 200 {
		logits := ad.Keep(x.Linear(w1, b1).Tanh().Linear(w2, b2))
		grads, err := ad.Backward(logits.CrossEntropy(labels, 0))
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := optimizer.Step(params, grads); err != nil {
			fmt.Println(err)
			return
		}
		if step%100 == 99 {
			fmt.Println(logits.ArgMax(1).Int64s())
		}
	}
	// Output:
	// [0 1 1 0] <nil>
	// [0 1 1 0] <nil>
}

// A network that is written for any backend: trained on one with gradients,
// served on one without.
func ExampleInnerParams() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.Balanced{})
	params := autodiff.NewParams(ad, 1)
	trained := newLine(params)
	x := autodiff.Floats(ad, []float64{0, 1, 2, 3}, 4, 1).Cast(trained.weight.DType())
	y := x.MulScalar(3).AddScalar(-1)
	optimizer := autodiff.SGD{Rate: 0.1}
	for range 500 {
		grads, err := ad.Backward(trained.forward(x).MSE(y))
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := optimizer.Step(params, grads); err != nil {
			fmt.Println(err)
			return
		}
	}
	served := newLine(autodiff.InnerParams(params))
	at10 := served.forward(autodiff.Floats(ad.InnerBackend(), []float32{10}, 1, 1))
	v, err := at10.Item()
	fmt.Printf("%.2f %v\n", v, err)
	// Output: 29.00 <nil>
}

type line[B autodiff.Backend] struct{ weight, bias autodiff.Float[B] }

func newLine[B autodiff.Backend](p *autodiff.Params[B]) line[B] {
	w, b := p.Linear("line", 1, 1)
	return line[B]{w, b}
}

func (l line[B]) forward(x autodiff.Float[B]) autodiff.Float[B] { return x.Linear(l.weight, l.bias) }

func ExampleAutodiff_Backward() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	x := ad.Track(autodiff.Floats(ad, []float64{1, 2, 3}))
	h := ad.Label(x.Exp(), "h")
	grads, err := ad.Backward(h.Log().Sum())
	if err != nil {
		fmt.Println(err)
		return
	}
	dx, _ := ad.Grad(x, grads)
	fmt.Println(dx.Float64s())
	// The graph is gone, and another pass through it says so.
	_, err = ad.Backward(h.Sum())
	fmt.Println(err != nil)
	// Output:
	// [1 1 1] <nil>
	// true
}

// Autodiff over Autodiff gives second derivatives.
func ExampleNew_twice() {
	first := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	second := autodiff.New(first, autodiff.None{})
	x := first.Track(autodiff.Scalar(first, 2.0))
	y := second.Track(second.FromInner(x))
	grads, err := second.Backward(y.PowScalar(3)) // x³
	if err != nil {
		fmt.Println(err)
		return
	}
	dx, _ := second.Grad(y, grads) // 3x², a tensor with a history of its own
	again, err := first.Backward(dx)
	if err != nil {
		fmt.Println(err)
		return
	}
	ddx, _ := first.Grad(x, again) // 6x
	fmt.Println(ddx.Item())
	// Output: 12 <nil>
}

// Gradients of several batches, or of several goroutines, are merged.
func ExampleGradients_Merge() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	w := ad.Track(autodiff.Floats(ad, []float64{1, 2}))
	total, err := ad.Backward(w.Sum())
	if err != nil {
		fmt.Println(err)
		return
	}
	more, err := ad.Backward(w.PowScalar(2).Sum())
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := total.Merge(more); err != nil {
		fmt.Println(err)
		return
	}
	dw, _ := ad.Grad(w, total)
	fmt.Println(dw.Float64s())
	// Output: [3 5] <nil>
}

// Quantization is differentiated by the straight-through estimate: the
// gradient passes where a code was not clamped.
func ExampleFloat_Quantize() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	x := ad.Track(autodiff.Floats(ad, []float32{0.2, -0.26, 100}))
	scale := autodiff.Scalar(ad, float32(0.5))
	q := x.Quantize(scale, autodiff.PerTensor(-8, 7))
	y := q.Dequantize(x.DType())
	fmt.Println(y.Float32s())
	grads, err := ad.Backward(y, autodiff.WithSum())
	if err != nil {
		fmt.Println(err)
		return
	}
	dx, _ := ad.Grad(x, grads)
	fmt.Println(dx.Float32s())
	// Output:
	// [0 -0.5 3.5] <nil>
	// [1 1 0] <nil>
}

func ExampleParams_Save() {
	dir, err := os.MkdirTemp("", "params")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "net.safetensors")

	cpu := autodiff.NewCPU()
	params := autodiff.NewParams(cpu, 1)
	params.Full("gain", 1.5, 2)
	fmt.Println(params.Save(path))

	loaded := autodiff.NewParams(cpu, 2)
	fmt.Println(loaded.Load(path))
	fmt.Println(loaded.Zeros("gain", 2).Float32s()) // the file's
	// Output:
	// <nil>
	// <nil>
	// [1.5 1.5] <nil>
}

// An operation that fails gives a tensor with the error, which passes on.
func ExampleTensor_Err() {
	cpu := autodiff.NewCPU()
	x := autodiff.Ones(cpu, 2, 3)
	y := x.MatMul(x).Relu().Sum()
	fmt.Println(y.Err())
	// Output: autodiff: matmul: shapes [2, 3] and [2, 3] do not fit: the inner extents are 3 and 2
}

// A gradient can be replaced, by one of the same type and shape.
func ExampleAutodiff_GradReplace() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	x := ad.Label(ad.Track(autodiff.Floats(ad, []float32{1, 2})), "x")
	grads, err := ad.Backward(x.Sum())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ad.GradReplace(x, grads, autodiff.Floats(ad.InnerBackend(), []float32{3})))
	fmt.Println(ad.GradReplace(x, grads, autodiff.Floats(ad.InnerBackend(), []float32{3, 4})))
	dx, _ := ad.GradRemove(x, grads)
	fmt.Println(dx.Float32s())
	_, ok := ad.Grad(x, grads)
	fmt.Println(ok)
	// Output:
	// autodiff: grad_replace: the gradient is f32[1]; want the type and shape of "x" f32[2]
	// <nil>
	// [3 4] <nil>
	// false
}

// A strategy decides what the graph keeps; the bits are the same.
func ExampleBudget() {
	fmt.Println(gradientUnder(autodiff.None{}))
	fmt.Println(gradientUnder(autodiff.Budget{Bytes: 16}))
	// Output:
	// [4 2] <nil>
	// [4 2] <nil>
}

func gradientUnder[C autodiff.Strategy](strategy C) ([]float32, error) {
	ad := autodiff.New(autodiff.NewCPU(), strategy)
	x := ad.Track(autodiff.Floats(ad, []float32{2, 1}))
	y := x
	for range 10 {
		y = y.Recip().Recip().Relu()
	}
	grads, err := ad.Backward(y.Mul(y).Sum())
	if err != nil {
		return nil, err
	}
	dx, _ := ad.Grad(x, grads)
	return dx.Float32s()
}
