package cpu

// Args are the operands of one run of an elementwise kernel. Which operand
// stands where is said by the kernel's table of rows.
type Args struct {
	In      [MaxInputs]Span
	Out     [MaxOutputs]Span
	Lo, Hi  float64 // quant_min, quant_max
	Attrs   Attrs
	Scratch *Scratch // of the calling worker
	// Ready says that scale and zero point are as loadParams makes them: present, in the
	// compute type, and either one for all elements or contiguous, one for each.
	Ready bool
	// Stream asks for stores around the caches: the output does not fit them.
	// They need a StoreFence before other threads may read.
	Stream bool
	// Ahead is the prefetch distance in bytes: what lies so far after an element of a
	// data input is soon needed. 0: unknown.
	Ahead int
	// Wide says that a striped kernel adds the terms of element i to Sums[0][i]
	// and Sums[1][i], not to the lanes of the scratch. (Runs may fold to Sums, too.)
	Wide bool
	Sums [2]Span // of the compute type
	Runs Runs
	// Repeats says that further calls with these Args differ only in addresses and in
	// the values there: a kernel may keep its kernelCall for them.
	Repeats bool
	call    kernelCall
}

// Runs says that a kernel takes many runs of n elements: Strands strands of Steps runs
// each. 0 Steps mean a single run.
//   - Step is how many bytes lie between a run and the next of its strand, Apart between
//     a run and the same one of the next strand: of each input, then of each output.
//   - If Rounds is more than 1, all these runs come so often, with the same parameters,
//     each time Round bytes further on.
//   - Parameters are the same all along a run or, where they are Ready, one for each
//     element and the same in all runs.
//   - A striped kernel takes one round and one strand, of MaxGroupRuns runs at most. Each
//     run is a group, and leaves its sums in LanesOfGroup.
//   - Where it is to Fold, it leaves what these fold to in Sums, one of each run, which lie one
//     after the other. Of runs that do not Keep sums it takes any number then.
type Runs struct {
	Steps, Strands, Rounds int
	Step, Apart, Round     [MaxInputs + MaxOutputs]int64
	Keep                   bool // a striped kernel adds to the sums in LanesOfGroup, which it else clears
	Turn                   int  // it leaves the lanes there turned, so that this one comes first
	Fold                   bool
	lane                   int // of a run's first element
}

// At returns the arguments that start i elements further on.
func (a *Args) At(i int64) Args {
	b := *a
	for k := range b.In {
		b.In[k] = a.In[k].At(i)
	}
	for k := range b.Out {
		b.Out[k] = a.Out[k].At(i)
	}
	return b
}

// Elementwise is a kernel that maps n elements of its inputs to n elements of
// its outputs, each on its own.
type Elementwise func(n int, a *Args)

// operands are one block of every operand in the compute type.
type operands[C Compute] struct {
	in  [MaxInputs][]C
	out [MaxOutputs][]C
}

// forBlocks runs body over the elements block by block: inputs are loaded
// before, outputs stored after. zeroPoint is the number of the input that
// holds zero points, which are rounded and clamped where they are learned
// (of a float type), or -1.
func forBlocks[C Compute](n int, a *Args, zeroPoint int, body func(b *operands[C])) {
	b := ofCompute[C, operands[C]](&a.Scratch.operands32, &a.Scratch.operands64)
	for at := 0; at < n; at += Block {
		m := min(Block, n-at)
		for k := range b.in {
			b.in[k] = BlockOf[C](a.Scratch, k, m)
			Load(b.in[k], a.In[k].At(int64(at)))
		}
		if zeroPoint >= 0 && !a.Ready && a.In[zeroPoint].DType.IsFloat() {
			for i, z := range b.in[zeroPoint] {
				b.in[zeroPoint][i] = roundZeroPoint(z, C(a.Lo), C(a.Hi))
			}
		}
		for k := range b.out {
			b.out[k] = BlockOf[C](a.Scratch, len(b.in)+k, m)
		}
		body(b)
		for k := range b.out {
			Store(a.Out[k].At(int64(at)), b.out[k])
		}
	}
}
