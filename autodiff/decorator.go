package autodiff

import "github.com/isobit-ml/isobit/tensor"

// An Autodiff as a Backend, also one that is nil or that New did not make.

// made returns the engine, nil where New did not make a.
func (a *Autodiff[B, C]) made() *engine {
	if a == nil {
		return nil
	}
	return a.engine
}

// unmade reports whether New did not make a.
func (a *Autodiff[B, C]) unmade() bool { return a.made() == nil }

// InnerBackend returns the backend that is decorated.
func (a *Autodiff[B, C]) InnerBackend() (b B) {
	if a != nil {
		b = a.b
	}
	return b
}

// Name returns "autodiff" and the inner backend's name.
func (a *Autodiff[B, C]) Name() string { return a.made().Name() }

// Owns reports whether v is a float tensor of this backend, or any other
// tensor of the inner one.
func (a *Autodiff[B, C]) Owns(v Value) bool { return a.made().Owns(v) }

// FromView copies a tensor from host memory, untracked.
func (a *Autodiff[B, C]) FromView(v tensor.View) (Value, error) { return a.made().FromView(v) }

// View shows a tensor in host memory. What has been seen is not set aside.
func (a *Autodiff[B, C]) View(v Value) (tensor.View, error) { return a.made().View(v) }

// Run applies an operation on the inner backend, and records it if an input
// is tracked.
func (a *Autodiff[B, C]) Run(op Op, at *Attr, in ...Value) (Outputs, error) {
	return a.made().Run(op, at, in...)
}

// Strategy says what the graph keeps.
func (a *Autodiff[B, C]) Strategy() string { return a.made().orAbsent().keep.strategy.String() }

// Device says where the tensors lie.
func (a *Autodiff[B, C]) Device() tensor.Device { return a.made().Device() }
