package cuda

import "github.com/isobit-ml/isobit/tensor"

type gridDoubleArgs struct {
	sampler           samplerArgs
	channels          int64
	inputTangent      imageArg
	gridTangent, out  gridArg
	hasInput, hasGrid int32
}

// The places of grid_sample_double_backward's arguments; the first three are
// as in grid_sample_backward. Kernels call the first two of these tangents.
const (
	doubleGradGradInput = backwardGrid + 1 + iota
	doubleGradGradGrid
	doubleGradGradOutput
	doubleGradInput
	doubleGradGrid
)

// buildGridSampleDoubleBackward makes the gradients of grad_output, of the grid
// and of the input, each if it is wanted.
func buildGridSampleDoubleBackward(p *Problem, prog *Program) error {
	prog.Compute = p.Types[backwardInput].Compute()
	prog.Accumulator = prog.Compute
	s, dims, err := samplerOf(p, backwardInput, backwardGrid)
	if err != nil {
		return err
	}
	a := gridDoubleArgs{sampler: s, channels: s.channelsOfThread()}
	a.hasInput, a.hasGrid = boolArg(p.Types[doubleGradGradInput] != tensor.None), boolArg(p.Types[doubleGradGradGrid] != tensor.None)
	if p.Types[doubleGradGradOutput] != tensor.None {
		k := s.kernel(prog, "grid_double_output", flatOutputs, dims, p.Types[backwardInput], p.Types[backwardGrid])
		prog.then(func(r *run) {
			if s.positions() > 0 && s.channels > 0 {
				a := a.bound(r, doubleGradGradOutput)
				g := a.sampler.eachChannel(a.channels)
				launch(r, a.pick(k, g, ceilDiv(s.channels, a.channels)), g, &a)
			}
		})
	}
	if p.Types[doubleGradGrid] != tensor.None {
		k := s.kernel(prog, "grid_double", flatSums, dims, p.Types[backwardInput], p.Types[backwardGrid])
		prog.then(func(r *run) {
			if s.positions() > 0 {
				a := a.bound(r, backwardGradOutput)
				a.out = gridOf(&r.args[doubleGradGrid])
				g := a.sampler.groups()
				launch(r, a.pick(k, g, 1, a.out), g, &a)
			}
		})
	}
	if p.Types[doubleGradInput] != tensor.None {
		return inputGradient{out: doubleGradInput, tangent: doubleGradGradGrid, second: true}.build(p, prog)
	}
	return nil
}

// bound returns the arguments with the tensors of a run; output is the place
// of the one that is like grad_output.
func (a gridDoubleArgs) bound(r *run, output int) gridDoubleArgs {
	a.sampler.bind(r, backwardInput, backwardGrid, output)
	if a.hasInput != 0 {
		a.inputTangent = imageOf(&r.args[doubleGradGradInput])
	}
	if a.hasGrid != 0 {
		a.gridTangent = gridOf(&r.args[doubleGradGradGrid])
	}
	return a
}

// pick is the kernel for what is bound, with more grids.
func (a *gridDoubleArgs) pick(k samplerKernel, g geometry, groups int64, grids ...gridArg) int {
	images, grids := []imageArg{a.sampler.input}, append(grids, a.sampler.grid)
	if a.hasInput != 0 {
		images = append(images, a.inputTangent)
	}
	if a.hasGrid != 0 {
		grids = append(grids, a.gridTangent)
	}
	return k.pick(&a.sampler, g, groups, images, grids)
}
