package autodiff_test

import (
	"fmt"

	"github.com/isobit-ml/isobit/autodiff"
)

// Labels of padding do not count, classes weigh differently, the rate falls and gradients are clipped.
func ExampleFloat_CrossEntropy() {
	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	params := autodiff.NewParams(ad, 1)
	table := params.Embedding("words", 5, 8, 0) // 0 is padding
	w, b := params.Linear("out", 8, 3)
	words := autodiff.Ints(ad, []int64{1, 2, 3, 4, 2, 0}, 2, 3)
	labels := autodiff.Ints(ad, []int64{0, 1, 2, 2, 1, -100}, 2, 3)
	rare := autodiff.WithWeight(autodiff.Floats(ad, []float32{3, 1, 1}))

	optimizer := autodiff.AdamW{}
	const steps = 50
	for step := range steps {
		optimizer.Rate = autodiff.CosineAnnealingLR(step, steps, 0.1, 0)
		logits := ad.Keep(table.Embedding(words, autodiff.WithPaddingIdx(0)).Linear(w, b)) // [2, 3, classes]
		grads, err := ad.Backward(logits.Transpose(1, 2).CrossEntropy(labels, 0, rare))
		if err == nil {
			_, err = grads.ClipNorm(1)
		}
		if err == nil {
			err = optimizer.Step(params, grads)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if step == steps-1 {
			best, _ := logits.ArgMax(-1).Int64s()
			fmt.Println(best[:5])
		}
	}
	// Output:
	// [0 1 2 2 1]
}

// A penalty on the gradient by the input trains the same parameters as the loss: an Autodiff over another.
func ExampleNewParams_gradientPenalty() {
	inner := autodiff.New(autodiff.NewCPU(), autodiff.None{})
	outer := autodiff.New(inner, autodiff.None{})
	params := autodiff.NewParams(outer, 1)
	w := params.Add("w", autodiff.Floats(outer, []float64{2}))
	x := outer.Track(autodiff.Floats(outer, []float64{3}))

	y := w.Mul(x).PowScalar(2).Sum() // w²x²
	loss := outer.Inner(y)
	grads, err := outer.Backward(y)
	if err != nil {
		fmt.Println(err)
		return
	}
	slope, _ := outer.Grad(x, grads) // 2w²x
	total, err := inner.Backward(loss.Add(slope.PowScalar(2).Sum()))
	if err != nil {
		fmt.Println(err)
		return
	}
	dw, _ := inner.Grad(outer.Inner(w), total) // 2wx² + 16w³x²
	fmt.Println(dw.Float64s())
	optimizer := autodiff.SGD{Rate: 0.001}
	fmt.Println(optimizer.Step(params, total))
	fmt.Println(w.Float64s())
	// Output:
	// [1188] <nil>
	// <nil>
	// [0.812] <nil>
}
