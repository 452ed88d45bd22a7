package autodiff

// What an optimizer remembers of a parameter is a number of steps and some tensors, which
// have PyTorch's names: a file has name.step, name.exp_avg and so on. Some must be there.
type memories struct {
	names    []string
	required int
}

var (
	sgdMemories      = memories{[]string{"momentum_buffer"}, 0}
	adamMemories     = memories{[]string{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, 2}
	adagradMemories  = memories{[]string{"sum"}, 1}
	rmspropMemories  = memories{[]string{"square_avg", "momentum_buffer", "grad_avg"}, 1}
	adamaxMemories   = memories{[]string{"exp_avg", "exp_inf"}, 2}
	nadamMemories    = memories{[]string{"exp_avg", "exp_avg_sq"}, 2} // and RAdam's
	adadeltaMemories = memories{[]string{"square_avg", "acc_delta"}, 2}
	rpropMemories    = memories{[]string{"prev", "step_size"}, 2}
)

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *SGD) Save(path string, p Parameters) error { return o.state.save(path, p, sgdMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *SGD) Load(path string, p Parameters) error { return o.state.load(path, p, sgdMemories) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *Adam) Save(path string, p Parameters) error { return o.state.save(path, p, adamMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *Adam) Load(path string, p Parameters) error { return o.state.load(path, p, adamMemories) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *AdamW) Save(path string, p Parameters) error { return o.state.save(path, p, adamMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *AdamW) Load(path string, p Parameters) error { return o.state.load(path, p, adamMemories) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *Adagrad) Save(path string, p Parameters) error {
	return o.state.save(path, p, adagradMemories)
}

// Load reads what Save wrote; see Optimizer.
func (o *Adagrad) Load(path string, p Parameters) error {
	return o.state.load(path, p, adagradMemories)
}

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *RMSprop) Save(path string, p Parameters) error {
	return o.state.save(path, p, rmspropMemories)
}

// Load reads what Save wrote; see Optimizer.
func (o *RMSprop) Load(path string, p Parameters) error {
	return o.state.load(path, p, rmspropMemories)
}

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *Adamax) Save(path string, p Parameters) error { return o.state.save(path, p, adamaxMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *Adamax) Load(path string, p Parameters) error { return o.state.load(path, p, adamaxMemories) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *NAdam) Save(path string, p Parameters) error { return o.state.save(path, p, nadamMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *NAdam) Load(path string, p Parameters) error { return o.state.load(path, p, nadamMemories) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *RAdam) Save(path string, p Parameters) error { return o.state.save(path, p, nadamMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *RAdam) Load(path string, p Parameters) error { return o.state.load(path, p, nadamMemories) }

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *Adadelta) Save(path string, p Parameters) error {
	return o.state.save(path, p, adadeltaMemories)
}

// Load reads what Save wrote; see Optimizer.
func (o *Adadelta) Load(path string, p Parameters) error {
	return o.state.load(path, p, adadeltaMemories)
}

// Save writes what the optimizer remembers of the parameters; see Optimizer.
func (o *Rprop) Save(path string, p Parameters) error { return o.state.save(path, p, rpropMemories) }

// Load reads what Save wrote; see Optimizer.
func (o *Rprop) Load(path string, p Parameters) error { return o.state.load(path, p, rpropMemories) }
