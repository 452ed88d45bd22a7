package cuda

import "github.com/isobit-ml/isobit/tensor"

// choice is an op that chooses the parameters of the groups of its first argument, and may
// quantize with them in the same pass.
type choice struct {
	q           quantArgs
	longest     int64 // elements of the longest group
	size        int64 // elements of a pack
	scale, zero int   // places of arguments
	codes       int   // of those that it quantizes to; 0 where it only chooses
	symmetric   bool
	eps         float64
}

// The places of choose_qparams' arguments.
const (
	chooseX = iota
	chooseScale
	chooseZero
)

// The places of dynamic_quantize's.
const (
	dynamicX = iota
	dynamicCodes
	dynamicScale
	dynamicZero
)

func choiceOf(p *Problem, scale, zero int) choice {
	q := grouped(p)
	return choice{
		q: q, longest: q.longest(p.Shapes[chooseX], p.Block), size: packSize(p.Types[chooseX]),
		scale: scale, zero: zero, symmetric: p.Bool("symmetric"), eps: p.Float("eps"),
	}
}

// follow reports whether groups are runs of whole packs that follow one another.
func (c *choice) follow() bool {
	q := &c.q
	return q.n > 0 && q.params < 1<<31 && q.moves(c.size) && q.inner*q.rows == q.n && q.inner%q.group == 0
}

// columns reports whether groups have an element each of every row of memory, whose rows are
// of whole packs.
func (c *choice) columns() bool {
	q := &c.q
	return q.dims == 0 && q.group == 1 && q.n > q.params && q.params < 1<<31 && q.params%c.size == 0
}

// instead adds a step that runs kernels which want packs, in the place of what the program has
// so far where that has packs only; s describes the groups' pieces.
func (c choice) instead(prog *Program, s stripeArgs, partial int64, step func(r *run, a *quantSumArgs)) {
	before := prog.run
	prog.run = func(r *run) {
		a := quantSumArgs{q: c.q, stripe: s, symmetric: boolArg(c.symmetric), factor: c.eps}
		a.x, a.ds, a.dz = r.tensor(chooseX), r.tensor(c.scale), r.tensor(c.zero)
		if c.codes > 0 {
			a.dx = r.tensor(c.codes)
		}
		if a.x.rank != 0 || a.dx.rank != 0 {
			before(r)
			return
		}
		a.stripe.locate(r, partial)
		step(r, &a)
	}
}

// whole describes groups that are not cut into pieces.
func (c *choice) whole() stripeArgs {
	return stripeArgs{reductions: c.q.params, longest: c.longest, block: c.longest, blocks: 1, logThreads: logWarp}
}

// cut describes groups in pieces of so many elements and reserves what those need.
func (c *choice) cut(prog *Program, piece int64) (s stripeArgs, partial int64) {
	s = c.whole()
	if piece < c.longest {
		s.block, s.blocks = piece, ceilDiv(c.longest, piece)
		partial = prog.reserve(2 * s.reductions * s.blocks * prog.Compute.Size())
	}
	return s, partial
}

// Groups of so many packs share warps, those of up to the second two by two.
const shortGroup, pairGroup = 32, 128

// launchShared runs a kernel of groups that share warps.
func (c *choice) launchShared(r *run, kernel int, a *quantSumArgs) {
	turns := int64(2) // groups that a lane has packs of, as in the kernels
	if packs := c.longest / c.size; packs <= shortGroup {
		turns, a.stripe.logThreads = 4, max(2, logOf(packs))
	}
	warps := ceilDiv(c.q.params<<a.stripe.logThreads, turns<<logWarp)
	launch(r, kernel, blocks(ceilDiv(warps<<logWarp, rowThreads), gridX).of(rowThreads), a)
}

func buildChooseQParams(p *Problem, prog *Program) error {
	chooseQParams(p, prog, choiceOf(p, chooseScale, chooseZero))
	return nil
}

func chooseQParams(p *Problem, prog *Program, c choice) {
	prog.Compute = p.Types[chooseX].Compute()
	name := "choose_qparams" + typeNames(p.Types[chooseX])
	s := summing{
		q: c.q, dy: -1, x: chooseX, scale: -1, zero: -1, dx: -1, ds: c.scale, dz: c.zero,
		symmetric: c.symmetric, factor: c.eps, row: c.size, column: 1,
	}
	s.build(p, prog, p.Shapes[chooseX], name, columnKernels)
	switch packs := c.longest / c.size; {
	case c.follow() && packs <= pairGroup:
		suffix := "_short"
		if packs > shortGroup {
			suffix = "_pair"
		}
		shared := prog.kernel("%s%s", name, suffix)
		c.instead(prog, c.whole(), 0, func(r *run, a *quantSumArgs) { c.launchShared(r, shared, a) })
	case c.follow():
		s, partial := c.cut(prog, c.size*pieceOf(packs, c.q.params, 2048, 1024))
		pieces, fold := prog.kernel("%s_pieces", name), prog.kernelIf(s.blocks > 1, "%s_fold", name)
		threads := min(ceilDiv(packs, pairGroup)<<logWarp, blockThreads)
		c.instead(prog, s, partial, func(r *run, a *quantSumArgs) {
			launch(r, pieces, blocks(c.q.params*s.blocks, gridX).of(threads), a)
			launchFold(r, fold, &a.stripe, a)
		})
	case c.columns():
		tiles := (c.q.params/c.size + 31) / 32
		s, partial := c.cut(prog, pieceOf(c.longest, tiles, 512, 32))
		packed, fold := prog.kernel("%s_columns", name), prog.kernelIf(s.blocks > 1, "%s_columns_fold", name)
		c.instead(prog, s, partial, func(r *run, a *quantSumArgs) {
			launch(r, packed, blocks(tiles*s.blocks, gridX), a)
			if s.blocks > 1 {
				launch(r, fold, blocks(ceilDiv(4*c.q.params, rowThreads), gridX).of(rowThreads), a)
			}
		})
	}
}

// pieceOf says how long the pieces are of each of count groups: whole units, and up to many
// pieces in all where groups are fewer, which fill a GPU and fold in one go.
func pieceOf(longest, count, many, unit int64) int64 {
	pieces := max(1, many/count)
	return ceilDiv(ceilDiv(longest, pieces), unit) * unit
}

// buildDynamicQuantize chooses parameters, then quantizes with them: at once where a
// block's registers hold a group.
func buildDynamicQuantize(p *Problem, prog *Program) error {
	c := choiceOf(p, dynamicScale, dynamicZero)
	chooseQParams(p, prog, c)
	quantize(p, prog, mapping{q: c.q, in: dynamicX, x: -1, scale: dynamicScale, zero: dynamicZero, out: dynamicCodes, quick: true})
	_, bits := p.Types[dynamicCodes].DLPack()
	kind, threads := groupKind(c.longest / c.size)
	dtype, shape := p.Types[dynamicX], p.Shapes[dynamicX]
	if kind == "" || bits > 8 || dtype == tensor.F64 || !c.follow() {
		return nil
	}
	if bits < 8 && shape[len(shape)-1]%2 != 0 { // rows of codes do not follow one another
		return nil
	}
	k := prog.kernel("quantize_dynamic_%s%s_%d", kind, typeNames(dtype), bits)
	c.codes = dynamicCodes
	c.instead(prog, c.whole(), 0, func(r *run, a *quantSumArgs) {
		if c.longest/c.size <= pairGroup {
			c.launchShared(r, k, a)
		} else {
			launch(r, k, blocks(c.q.params, gridX).of(threads), a)
		}
	})
	return nil
}

// groupKinds are the kernels of quantize_dynamic.cu: a thread's packs, and the most threads.
var groupKinds = []struct {
	name          string
	each, threads int64
}{{"short", 1, shortGroup}, {"pair", 4, pairGroup / 4}, {"few", 4, 256}, {"many", 16, 256}, {"long", 16, 512}}

// groupKind is the kernel that quantizes groups of some packs, if there is one, and its
// threads.
func groupKind(packs int64) (name string, threads int64) {
	for _, k := range groupKinds {
		if packs <= k.each*k.threads {
			return k.name, ceilDiv(packs, k.each<<logWarp) << logWarp
		}
	}
	return "", 0
}

// dynamicKernels lists what quantizes in the same pass.
func dynamicKernels() (names []string) {
	for _, k := range groupKinds {
		names = append(names, forTypes("quantize_dynamic_"+k.name, []tensor.DType{tensor.F32, tensor.F16, tensor.BF16})...)
	}
	return withSuffixes(names, []string{"_4", "_8"})
}

// choosing lists the kernels of choose_qparams.
func choosing() []string {
	names := forTypes("choose_qparams", floats)
	return append(columnNames(names), withSuffixes(names, []string{"_pair", "_pieces", "_columns_fold"})...)
}
