package autodiff

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/isobit-ml/isobit/tensor"
)

// What an optimizer remembers of a parameter is a number of steps and some tensors, which
// have PyTorch's names: a file has name.step, name.exp_avg and so on.
var (
	sgdNames  = []string{"momentum_buffer"}
	adamNames = []string{"exp_avg", "exp_avg_sq"}
)

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *SGD) Save(path string, p Parameters) error { return o.state.save(path, p, sgdNames) }

// Load reads what Save wrote; see Optimizer.
func (o *SGD) Load(path string, p Parameters) error { return o.state.load(path, p, sgdNames, 0) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *Adam) Save(path string, p Parameters) error { return o.state.save(path, p, adamNames) }

// Load reads what Save wrote; see Optimizer.
func (o *Adam) Load(path string, p Parameters) error { return o.state.load(path, p, adamNames, 2) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *AdamW) Save(path string, p Parameters) error { return o.state.save(path, p, adamNames) }

// Load reads what Save wrote; see Optimizer.
func (o *AdamW) Load(path string, p Parameters) error { return o.state.load(path, p, adamNames, 2) }

var errNoParameters = errors.New("autodiff: the parameters are nil; want those that NewParams makes")

// tracked goes through the parameters, which must have gradients.
func tracked(p Parameters, f func(name string, x *variable) error) error {
	if isNil(p) {
		return errNoParameters
	}
	return p.each(func(name string, v Value) error {
		x, ok := v.(*variable)
		if !ok || x.node == nil {
			return fmt.Errorf("autodiff: the parameter %q is not tracked: its backend %s has no gradients", name, p.runner().Name())
		}
		return f(name, x)
	})
}

func (s state) save(path string, p Parameters, names []string) error {
	var tensors []NamedView
	err := tracked(p, func(name string, x *variable) error {
		mine := s[x.node.id]
		if mine == nil || mine.steps == 0 {
			return nil
		}
		tensors = append(tensors, NamedView{name + ".step", tensor.Of([]int64{int64(mine.steps)}, []int64{}...)})
		for i, v := range mine.values {
			view, err := x.e.inner.View(v)
			if err != nil {
				return fmt.Errorf("autodiff: the parameter %q: %w", name, err)
			}
			tensors = append(tensors, NamedView{name + "." + names[i], view})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return SaveSafetensors(path, tensors, nil)
}

// load reads for each parameter that has a number of steps the named tensors, of which
// the first few must be there.
func (s *state) load(path string, p Parameters, names []string, required int) error {
	left, err := loadByName(path)
	if err != nil {
		return err
	}
	read, old := state{}, state{}
	err = tracked(p, func(name string, x *variable) error {
		if mine := (*s)[x.node.id]; mine != nil {
			old[x.node.id] = mine
		}
		count, ok := left[name+".step"]
		if !ok {
			return nil
		}
		delete(left, name+".step")
		if count.DType != tensor.I64 || len(count.Shape) != 0 || tensor.Slice[int64](count)[0] < 0 {
			return fmt.Errorf("%q is %v; want an i64 of 0 or more", name+".step", &count)
		}
		mine := &paramState{steps: int(tensor.Slice[int64](count)[0])}
		read[x.node.id] = mine
		for i, of := range names {
			of = name + "." + of
			v, ok := left[of]
			switch {
			case !ok && i < required:
				return fmt.Errorf("has no %q", of)
			case !ok:
				return nil
			case v.DType != x.info.DType || !slices.Equal(v.Shape, x.info.Shape):
				return fmt.Errorf("%q is %v; want %v, as the parameter is", of, &v, x.info)
			}
			delete(left, of)
			value, err := x.e.inner.FromView(v)
			if err != nil {
				return err
			}
			mine.values = append(mine.values, value)
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%q is of another optimizer, or of a parameter that there is not (yet)", slices.Min(slices.Collect(maps.Keys(left))))
	}
	if err != nil {
		read.release()
		return fmt.Errorf("autodiff: %s: %w", path, err)
	}
	if *s == nil {
		*s = state{}
	}
	for id := range old {
		delete(*s, id)
	}
	maps.Copy(*s, read) // what is remembered of other parameters stays
	old.release()
	return nil
}

func (s state) release() {
	for _, mine := range s {
		for _, v := range mine.values {
			v.Release()
		}
	}
}
