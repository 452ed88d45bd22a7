package autodiff

import (
	"slices"
)

// Recurrent holds the parameters of a layer of an LSTM or a GRU: weights [gates*hidden, in] and
// [gates*hidden, hidden], the gates below each other, and the biases of both, which may be absent.
type Recurrent[B Backend] struct{ InWeight, HiddenWeight, InBias, HiddenBias Float[B] }

// LSTM goes through the sequence x [l, ..., in] from the states h and c [..., hidden], which are zeros where
// they are absent. It returns h at each step, [l, ..., hidden], and the last h and c. The gates lie as in
// PyTorch: input, forget, cell, output. The other direction of a bidirectional layer is that of x.Flip(0), whose y is
// flipped back and joined with this one's by Cat.
func (x Float[B]) LSTM(p Recurrent[B], h, c Float[B]) (y, lastH, lastC Float[B]) {
	steps := x.sequence("lstm", 4, p, &h, &c)
	var made temporaries[B]
	keep := made.add
	for i, in := range steps {
		keep(in)
		gates := keep(Float[B]{keep(in.Add(keep(h.Linear(p.HiddenWeight, p.HiddenBias)))).run(OpLSTMGates, nil)})
		if i > 0 {
			keep(c)
		}
		h, c = gates.cell(c)
		steps[i] = h
		made.release()
	}
	return stacked(steps), h, c
}

// cell returns the next h and c of an LSTM, given its gates. Types of 16 bits round after each step.
func (x Float[B]) cell(c Float[B]) (h, next Float[B]) {
	if x.DType().Size() != 2 {
		next = Float[B]{x.run(OpLSTMCell, nil, c.Tensor)}
		return Float[B]{x.run(OpLSTMHidden, nil, next.Tensor)}, next
	}
	var made temporaries[B]
	defer made.release()
	keep := made.add
	gate := x.Chunk(-1, 4)
	made = append(made, gate...)
	next = keep(gate[1].Mul(c)).Add(keep(gate[0].Mul(gate[2])))
	return gate[3].Mul(keep(next.Tanh())), next
}

// GRU goes through the sequence x [l, ..., in] from the state h [..., hidden], which is zeros where it is
// absent. It returns h at each step, [l, ..., hidden], and the last one. The gates lie as in PyTorch: reset,
// update, new.
func (x Float[B]) GRU(p Recurrent[B], h Float[B]) (y, lastH Float[B]) {
	steps := x.sequence("gru", 3, p, &h)
	var made temporaries[B]
	keep := made.add
	for i, in := range steps {
		in, from := keep(in).Chunk(-1, 3), keep(h.Linear(p.HiddenWeight, p.HiddenBias)).Chunk(-1, 3)
		made = append(append(made, in...), from...)
		reset, update := keep(keep(in[0].Add(from[0])).Sigmoid()), keep(keep(in[1].Add(from[1])).Sigmoid())
		next := keep(keep(in[2].Add(keep(reset.Mul(from[2])))).Tanh())
		h = next.Add(keep(update.Mul(keep(h.Sub(next)))))
		steps[i] = h
		made.release()
	}
	return stacked(steps), h
}

// stacked joins the states, of which nobody else has any but the last.
func stacked[B Backend](steps []Float[B]) Float[B] {
	last := len(steps) - 1
	made := temporaries[B](steps[:last])
	defer made.release()
	return Stack(0, steps[0], steps[1:]...)
}

// sequence checks what a recurrent layer is given, fills in the states, and returns the part of the gates
// that comes from x, of each step. After an error that is all there is: one step, and states, that hold it.
func (x Float[B]) sequence(name string, gates int, p Recurrent[B], states ...*Float[B]) []Float[B] {
	fail := func(y Float[B]) []Float[B] {
		for _, s := range states {
			*s = y
		}
		return []Float[B]{y}
	}
	hidden := p.HiddenWeight.extent(-1)
	switch {
	case x.Err() != nil:
		return fail(x)
	case p.HiddenWeight.Err() != nil:
		return fail(Float[B]{failed(x.be, "%s: HiddenWeight: %w", name, p.HiddenWeight.Err())})
	case x.Rank() < 2 || x.extent(0) < 1 || x.extent(0) > maxParts:
		return fail(Float[B]{failed(x.be, "%s: x is %v; want [l, ..., in], with 1 to %d steps", name, x, maxParts)})
	case !slices.Equal(p.HiddenWeight.Shape(), []int{gates * hidden, hidden}):
		return fail(Float[B]{failed(x.be, "%s: HiddenWeight is %v; want [%d*hidden, hidden]", name, p.HiddenWeight, gates)})
	case p.InWeight.Err() == nil && !slices.Equal(p.InWeight.Shape(), []int{gates * hidden, x.extent(-1)}):
		return fail(Float[B]{failed(x.be, "%s: InWeight is %v; want shape [%d, %d], to go with HiddenWeight of %v and x of %v", name, p.InWeight, gates*hidden, x.extent(-1), p.HiddenWeight, x)})
	}
	want := Info{x.DType(), slices.Clone(x.v.Shape()[1:])}
	want.Shape[len(want.Shape)-1] = int64(hidden)
	for i, s := range states {
		switch {
		case !s.Present():
			*s = Float[B]{fill(x.be, want.DType, 0, want.Shape)}
		case s.Err() != nil:
			return fail(*s)
		case s.DType() != want.DType || !slices.Equal(s.v.Shape(), want.Shape):
			return fail(Float[B]{failed(x.be, "%s: the state %s is %v; want %v, to go with x of %v", name, "hc"[i:i+1], *s, want, x)})
		}
	}
	all := x.Linear(p.InWeight, p.InBias)
	if all.Err() != nil {
		return fail(all)
	}
	defer all.Release()
	return all.unbind(nil)
}

// unbind appends the parts of the first axis, one by one. It is cut in 16, and those again: where a gradient is
// differentiated, that of a cut has the size of what was cut, so that l cuts of the whole would take l*l steps.
func (x Float[B]) unbind(parts []Float[B]) []Float[B] {
	n := x.extent(0)
	if n <= 1 {
		return append(parts, x.Squeeze(0))
	}
	pieces := min(n, 16)
	for i := range pieces {
		piece := x.Slice(0, i*n/pieces, (i+1)*n/pieces)
		parts = piece.unbind(parts)
		piece.Release()
	}
	return parts
}
