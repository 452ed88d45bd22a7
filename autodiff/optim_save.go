package autodiff

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isobit-ml/isobit/tensor"
)

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

func (s *state) save(path string, p Parameters, of memories) error {
	var tensors []NamedView
	err := tracked(p, func(name string, x *variable) error {
		mine, err := s.find(p, name, x)
		if err != nil {
			return err
		}
		if mine == nil || mine.steps == 0 {
			return nil
		}
		tensors = append(tensors, NamedView{name + ".step", tensor.Of([]int64{int64(mine.steps)}, []int64{}...)})
		for i, v := range mine.values {
			if v == nil {
				continue
			}
			view, err := x.e.inner.View(v)
			if err != nil {
				return fmt.Errorf("autodiff: the parameter %q: %w", name, err)
			}
			tensors = append(tensors, NamedView{name + "." + of.names[i], view})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return SaveSafetensors(path, tensors, nil)
}

// memory is what a file has of parameters that have not asked for it.
type memory struct {
	memories
	path string
	left map[string]tensor.View
}

// check reads how many steps a parameter took, which is all that it must have besides the required names.
func (m *memory) check(name string) (steps int, err error) {
	count := m.left[name+".step"]
	if count.DType != tensor.I64 || len(count.Shape) != 0 || tensor.Slice[int64](count)[0] < 0 {
		return 0, fmt.Errorf("%q is %v; want an i64 of 0 or more", name+".step", &count)
	}
	for _, of := range m.names[:m.required] {
		if _, ok := m.left[name+"."+of]; !ok {
			return 0, fmt.Errorf("has no %q", name+"."+of)
		}
	}
	return int(tensor.Slice[int64](count)[0]), nil
}

// take takes out what is of one parameter, nil where there is nothing. After an error it stays.
func (m *memory) take(name string, x *variable) (*paramState, error) {
	if _, ok := m.left[name+".step"]; !ok {
		return nil, nil
	}
	steps, err := m.check(name)
	if err != nil {
		return nil, err
	}
	mine := &paramState{steps: steps}
	for _, of := range m.names {
		var value Value
		v, ok := m.left[name+"."+of]
		if !ok {
			mine.values = append(mine.values, nil)
			continue
		}
		if v.DType != x.info.DType || !slices.Equal(v.Shape, x.info.Shape) {
			err = fmt.Errorf("want %v, as the parameter is", x.info)
		} else {
			value, err = x.e.inner.FromView(v)
		}
		if err != nil {
			mine.release()
			return nil, fmt.Errorf("%q is %v; %w", name+"."+of, &v, err)
		}
		mine.values = append(mine.values, value)
	}
	delete(m.left, name+".step")
	for _, of := range m.names {
		delete(m.left, name+"."+of)
	}
	return mine, nil
}

// rest checks what is left: parameters to come have all that this optimizer remembers, and nothing else.
func (m *memory) rest() error {
	for _, key := range slices.Sorted(maps.Keys(m.left)) {
		at := strings.LastIndexByte(key, '.') + 1
		name := key[:max(at-1, 0)]
		_, counted := m.left[name+".step"]
		if !counted || key[at:] != "step" && !slices.Contains(m.names, key[at:]) {
			return fmt.Errorf("%q is of another optimizer", key)
		}
		if _, err := m.check(name); err != nil {
			return err
		}
	}
	return nil
}

// find returns what is remembered of a parameter, which may have waited for it; nil where there is nothing.
func (s *state) find(p Parameters, name string, x *variable) (*paramState, error) {
	id, waiting := x.node.id, s.waiting[p]
	if mine := s.of[id]; mine != nil || waiting == nil {
		return mine, nil
	}
	mine, err := waiting.take(name, x)
	if err != nil {
		return nil, fmt.Errorf("autodiff: %s: %w", waiting.path, err)
	}
	if mine != nil {
		s.put(id, mine)
	}
	return mine, nil
}

func (s *state) put(id uint64, mine *paramState) *paramState {
	if s.of == nil {
		s.of = map[uint64]*paramState{}
	}
	s.of[id] = mine
	return mine
}

// load reads for each parameter that has a number of steps the tensors that are remembered.
func (s *state) load(path string, p Parameters, of memories) error {
	left, err := loadByName(path)
	if err != nil {
		return err
	}
	m, ids, read := &memory{of, path, left}, []uint64{}, map[uint64]*paramState{}
	err = tracked(p, func(name string, x *variable) error {
		ids = append(ids, x.node.id)
		mine, err := m.take(name, x)
		if mine != nil {
			read[x.node.id] = mine
		}
		return err
	})
	if err == nil {
		err = m.rest()
	}
	if err != nil {
		for _, mine := range read {
			mine.release()
		}
		return fmt.Errorf("autodiff: %s: %w", path, err)
	}
	for _, id := range ids { // what is remembered of other parameters stays
		if old := s.of[id]; old != nil {
			old.release()
			delete(s.of, id)
		}
		if mine := read[id]; mine != nil {
			s.put(id, mine)
		}
	}
	if s.waiting == nil {
		s.waiting = map[Parameters]*memory{}
	}
	s.waiting[p] = m
	return nil
}

func (p *paramState) release() {
	for _, v := range p.values {
		if v != nil {
			v.Release()
		}
	}
}
