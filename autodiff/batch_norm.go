package autodiff

import "fmt"

// BatchNorm holds the parameters of a BatchNorm, and the running statistics that its training changes in
// place, each [c]. Any of them may be absent; serving needs the statistics.
type BatchNorm[B Backend] struct{ Weight, Bias, RunningMean, RunningVar Float[B] }

// BatchNorm normalises each channel of x [n, c, ...], then multiplies by the weight and adds the
// bias of the channel. With train it takes the mean and the variance of x, and moves the running
// statistics by a share of momentum towards that mean and the unbiased variance; else it takes the
// running statistics. A momentum of 1/k in the k-th step averages over all steps, as PyTorch's None
// does.
func (x Float[B]) BatchNorm(p BatchNorm[B], train bool, momentum, eps float64) Float[B] {
	err := x.checkNormalized("batch_norm", "[n, c, ...]", 2, 1, eps, p.Weight, p.Bias, p.RunningMean, p.RunningVar)
	switch {
	case err != nil:
	case !(momentum >= 0 && momentum <= 1):
		err = fmt.Errorf("autodiff: batch_norm: the momentum is %g; want a share, from 0 to 1", momentum)
	case train && x.Len()/2 < x.extent(1):
		err = fmt.Errorf("autodiff: batch_norm: x is %v; want two elements of each channel at least, to train", x)
	case !train && !(p.RunningMean.Present() && p.RunningVar.Present()):
		err = fmt.Errorf("autodiff: batch_norm: the running mean or variance is absent; want both, unless to train")
	}
	if err != nil {
		return Float[B]{Tensor[B]{be: x.be, err: err}}
	}
	if !train {
		return x.inFloat32(p.Weight, p.Bias, func(x, weight, bias Float[B]) Float[B] {
			// Two passes over x, whatever is absent.
			rank, d := x.Rank(), x.DType()
			scale := p.RunningVar.Cast(d).AddScalar(eps).Sqrt().Recip()
			if weight.Present() {
				scale = scale.Mul(weight)
			}
			shift := p.RunningMean.Cast(d).Mul(scale).Neg()
			if bias.Present() {
				shift = shift.Add(bias)
			}
			return x.scaled(scale.perChannel(rank), shift.perChannel(rank))
		})
	}
	return x.inFloat32(p.Weight, p.Bias, func(x, weight, bias Float[B]) Float[B] {
		var made temporaries[B]
		defer made.release()
		by, rank := made.add(x.Transpose(0, 1)), x.Rank()
		rows := made.add(by.Reshape(x.extent(1), x.Len()/max(x.extent(1), 1)))
		normal := made.add(made.add(rows.normalize(eps, aroundMean)).Reshape(by.Shape()...))
		y := normal.Transpose(0, 1).intoScaled(weight.perChannel(rank), bias.perChannel(rank))
		if err := y.Err(); err != nil {
			return y
		}
		if err := p.follow(rows, momentum); err != nil {
			return Float[B]{Tensor[B]{be: x.be, err: fmt.Errorf("autodiff: batch_norm: %w", err)}}
		}
		return y
	})
}

// follow moves the running statistics towards those of rows, the elements of each channel.
func (p BatchNorm[B]) follow(rows Float[B], momentum float64) error {
	var made temporaries[B]
	defer made.release()
	if t, ok := any(rows.be).(tracker); ok { // no graph grows with the steps
		if rows.v, rows.err = t.constant(rows.v); rows.err != nil {
			return rows.err
		}
		made.add(rows)
	}
	mean := made.add(rows.MeanKeep(1))
	var next [2]Float[B]
	running := [2]Float[B]{p.RunningMean, p.RunningVar}
	for i, of := range running {
		if !of.Present() {
			continue
		}
		now := mean.Reshape(of.Len())
		if i == 1 {
			now = made.add(made.add(rows.Sub(mean)).PowScalar(2)).Sum(1).DivScalar(float64(rows.extent(1) - 1))
		}
		next[i] = made.add(of.Cast(rows.DType()).MulScalar(1 - momentum).Add(now.MulScalar(momentum)).Cast(of.DType()))
		if err := next[i].Err(); err != nil {
			return err
		}
	}
	for i, of := range running {
		if !of.Present() {
			continue
		}
		if _, err := of.be.Run(OpCopyInPlace, &Attr{}, of.v, next[i].v); err != nil {
			return err
		}
	}
	return nil
}
