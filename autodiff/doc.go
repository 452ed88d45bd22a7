// Package autodiff trains networks in Go, without Python or cgo: tensors,
// gradients, optimizers, and a backend that computes on the CPU.
//
//	ad := autodiff.New(autodiff.NewCPU(), autodiff.None{})
//	w := ad.Track(autodiff.Floats(ad, []float32{1, 2, 3}))
//	loss := w.Mul(w).Sum()
//	grads, err := ad.Backward(loss)
//	dw, ok := ad.Grad(w, grads) // 2, 4, 6
//
// # Backends
//
// A Backend runs operations; CPU is one. Autodiff decorates any backend B with
// gradients and is a Backend itself, so a network that is written once for any
// Backend is trained on Autodiff and served without it:
//
//	func forward[B autodiff.Backend](x, w, b autodiff.Float[B]) autodiff.Float[B]
//
// Tensors are Float[B], Int[B], Bool[B] and Quantized[B]. Only float tensors
// carry gradients; codes of a Quantized pass them on by the straight-through
// estimate. Tensors never change; only an Optimizer, Params.Set, Params.Load and the
// training of BatchNorm change parameters, in place, and with a parameter what shares its elements: its
// Inner, Detach, Track, Reshape, Unsqueeze and Cast to its own type. A graph that
// saw other elements says so.
//
// # Layers
//
// A layer is a method of Float with its parameters as arguments, and Params makes those under a name:
//
//	w, b := p.Conv2d("conv", 3, 16, 3)
//	gain, shift := p.Norm("norm", 16)
//	h := x.Conv2d(w, b, autodiff.Window{}).GroupNorm(4, gain, shift, 1e-5).Silu()
//	h = h.Interpolate(64, 64, autodiff.SampleMode{})
//
// Attention, of one sequence or of two, LSTM and GRU, convolutions of sequences, images and volumes and their transposes, LayerNorm
// and RMSNorm, pooling, Embedding and EmbeddingBag, and Dropout are others. Options that few networks have come last, such as
// WithPaddingIdx. (WithMaxNorm changes a weight in place, as an Optimizer does.) What differs
// between training and serving, such as Dropout, is an argument of the network. BatchNorm has one for it; its
// running statistics are a Buffer of Params, which is saved with the parameters, and which no optimizer changes.
//
// # Losses
//
// So is a loss, and options say the rest, under PyTorch's names. It is a mean, unless WithReduction says otherwise:
//
//	loss := logits.CrossEntropy(labels, 0.1, autodiff.WithWeight(rare), autodiff.WithIgnoreIndex(padding))
//
// CosineAnnealingLR, OneCycle and their like give the Rate of an Optimizer for a step; Gradients.ClipNorm and ClipValue come
// before it.
//
// # Errors
//
// Operations return tensors alone. One that fails returns a tensor that holds
// the error; operations on it pass the error on, and Backward, Item, View and
// the like return it. Nothing panics because of what a caller passed. A panic of
// a Backend or a Strategy of the caller's own goes through, and leaves graphs as an error does.
//
// # The graph
//
// Every tracked result points to what it was computed from. There is no list
// of graphs and no global state: a graph that nobody holds any more is garbage
// like any other value, and separate goroutines may build and differentiate
// graphs at once, over shared parameters too. Nothing is recorded for results
// that no tracked leaf goes into.
//
// Backward consumes the graph: it gives the memory of the results between the
// leaves and the root back while it goes. Whatever would go through that
// history again is an error that names the tensor; KeepGraph and Keep say
// otherwise. Gradients is a value apart from the graph.
//
// A Strategy says which results the graph keeps: None everything, Balanced
// what is expensive, Budget what fits into a number of bytes. What is not kept
// is computed again when it is needed, and comes out as the same bits.
//
// # Memory
//
// The CPU backend uses the memory of released tensors again. Layers release what
// they make on the way, and Backward what it consumes; Gradients.Release, and
// Tensor.Release of the loss, do the rest, and then a training step allocates a few
// kilobytes for each operation of the graph and no elements. Tensors that are simply dropped are left to the garbage
// collector, which is always right and somewhat slower.
//
// # Going on later
//
// Params.Save writes parameters and Optimizer.Save what an optimizer remembers of them,
// both as safetensors. A program that loads the two goes on with the same bits;
// what it reads of parameters that there are not waits until they are made.
//
// # Same bits
//
// A result does not depend on the number of threads, on the strategy, on the
// run, or on what else the machine does. Elementwise arithmetic, sums (in the
// orders of the project's numeric contract), exp, log, sin, tanh and their like
// (plain Go, no fused operations), random numbers and this project's own
// operations (embedding, grid_sample, affine_grid, the quantize family, run
// through package plans) give the same bits on every machine, and so do matrix
// products and convolutions: a chain of fused steps over k in ascending order
// for every element (NUMERICS.md, sections 8 and 9).
//
// # Conventions
//
// The gradient of Relu and Abs at 0 is 0, Clamp passes it at its bounds, and
// of equals Maximum and Minimum give it to the first argument, and Max, Min
// and MaxPool2d to the first element. Rounding functions have gradient 0, and
// so have powers at 0 where the exponent is 0. (PyTorch halves the gradient
// between equals of Maximum and Minimum, shares it among those of MaxAll and
// MinAll, and stops Clamp's at the bounds.) A query that looks at no key gets zeros.
// Inputs of one operation have one float type: nothing is promoted silently.
package autodiff
