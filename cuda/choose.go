package cuda

import "github.com/isobit-ml/isobit/tensor"

// choice is an op that chooses the parameters of groups and may quantize with them. The
// fields are numbers of arguments; codes is -1 where there are none.
type choice struct {
	x, codes, scale, zero int
}

// A group of so many packs, of packBytes of the floats, has lanes of a warp to itself.
const shortGroup = 32

// arguments are what the kernels of dynamic.cuh take, if groups lie as those want them: one
// after the other, of whole packs.
func (c choice) arguments(r *run, q quantArgs, symmetric bool, longest, size int64) (a quantSumArgs, fits bool) {
	a = quantSumArgs{q: q, symmetric: boolArg(symmetric)}
	a.x, a.ds = tensorOf(&r.args[c.x]), tensorOf(&r.args[c.scale])
	if r.args[c.zero].Present() {
		a.dz = tensorOf(&r.args[c.zero])
	}
	if c.codes >= 0 {
		a.dx = tensorOf(&r.args[c.codes])
	}
	a.stripe = stripeArgs{reductions: q.params, longest: longest, block: longest, blocks: 1, logThreads: logWarp}
	return a, a.x.rank == 0 && a.dx.rank == 0
}

// follow reports whether groups are runs of whole packs of size elements that follow one another.
func (q *quantArgs) follow(size int64) bool {
	return q.n > 0 && q.params < 1<<31 && q.moves(size) && q.inner*q.rows == q.n && q.inner%q.group == 0
}

// launchShortGroups runs a kernel of groups of packs packs.
func launchShortGroups(r *run, kernel int, a *quantSumArgs, packs int64) {
	const turns = 4 // as in dynamic.cuh
	a.stripe.logThreads = max(2, logOf(packs))
	warps := (a.stripe.reductions<<a.stripe.logThreads + turns<<logWarp - 1) / (turns << logWarp)
	launch(r, kernel, blocks((warps<<logWarp+blockThreads-1)/blockThreads, 1<<31-1), a)
}

// instead runs a step in the place of what a program has so far, if the step will.
func (to *Program) instead(step func(r *run) bool) {
	before := to.run
	to.run = func(r *run) {
		if !step(r) {
			before(r)
		}
	}
}

func buildChooseQParams(p *Problem, to *Program) error {
	chooseQParams(p, to, 1, 2)
	return nil
}

// chooseQParams chooses the parameters of the first argument's groups; scale and zero are the
// numbers of theirs.
func chooseQParams(p *Problem, to *Program, scale, zero int) {
	to.Compute = p.Types[0].Compute()
	q, size, symmetric := grouped(p), packSize(p.Types[0]), p.Bool("symmetric")
	s := summing{q: q, dy: -1, x: 0, scale: -1, zero: -1, dx: -1, ds: scale, dz: zero, symmetric: symmetric, row: size, column: size}
	name := "choose_qparams" + typeNames(p.Types[0])
	kernel := to.columnKernel(name)
	s.build(p, to, p.Shapes[0], kernel)
	if !q.follow(size) {
		return
	}
	longest := q.longest(p.Shapes[0], p.Block)
	stripe := piecesOf(q.params, longest, size)
	partial := to.reserve(0)
	if stripe.blocks > 1 {
		partial = to.reserve(2 * q.params * stripe.blocks * to.Compute.Size())
	}
	whole := to.kernel("%s_pieces", name)
	to.instead(func(r *run) bool {
		a, fits := choice{x: 0, codes: -1, scale: scale, zero: zero}.arguments(r, q, symmetric, longest, size)
		switch packs := longest / size; {
		case !fits:
			return false
		case packs <= shortGroup:
			launchShortGroups(r, kernel+shortRows, &a, packs)
		default:
			a.stripe = stripe
			a.stripe.locate(r, partial)
			g := blocks(q.params*stripe.blocks, 1<<31-1)
			if stripe.logThreads == logWarp {
				g = blocks((q.params+pieceWarps-1)/pieceWarps, 1<<31-1).of(pieceWarps << logWarp)
			}
			launch(r, whole, g, &a)
			launchFold(r, kernel+rowsFold, &a.stripe, &a)
		}
		return true
	})
}

// Pieces of groups: how many there are at most where groups are few, and the packs of the
// shortest; how many packs of a group, and how many groups, are for a warp and a block.
const (
	manyPieces = 2048
	leastPiece = 1024
	warpPiece  = 256
	pieceWarps = 8
)

// piecesOf deals out groups of some elements, size in a pack.
func piecesOf(groups, longest, size int64) stripeArgs {
	s := stripeArgs{reductions: groups, longest: longest, blocks: 1, block: longest}
	packs := longest / size
	piece := max((packs+max(1, manyPieces/groups)-1)/max(1, manyPieces/groups), leastPiece)
	if piece < packs {
		piece = (piece + leastPiece - 1) / leastPiece * leastPiece
		s.block, s.blocks = piece*size, (packs+piece-1)/piece
	}
	if packs <= warpPiece {
		s.logThreads = logWarp
	}
	return s
}

// buildDynamicQuantize chooses parameters, then quantizes with them: at once where a
// block's registers hold a group.
func buildDynamicQuantize(p *Problem, to *Program) error {
	chooseQParams(p, to, 2, 3)
	quantize(p, to, mapping{q: grouped(p), in: 0, x: -1, scale: 2, zero: 3, out: 1, quick: true})
	q, size, symmetric, codes := grouped(p), packSize(p.Types[0]), p.Bool("symmetric"), p.Types[1]
	longest := q.longest(p.Shapes[0], p.Block)
	_, bits := codes.DLPack()
	kind, threads := groupKind(longest / size)
	if p.Types[0] == tensor.F64 || bits > 8 || !q.follow(size) || kind == "" {
		return nil
	}
	columns := p.Shapes[0][len(p.Shapes[0])-1]
	if codes.Packed() && columns%2 != 0 { // rows of codes do not follow one another
		return nil
	}
	k := to.kernel("quantize_dynamic_%s%s_%d", kind, typeNames(p.Types[0]), bits)
	to.instead(func(r *run) bool {
		a, fits := choice{x: 0, codes: 1, scale: 2, zero: 3}.arguments(r, q, symmetric, longest, size)
		switch {
		case !fits:
		case kind == "short":
			launchShortGroups(r, k, &a, longest/size)
		case threads == 1<<logWarp:
			launch(r, k, blocks((q.params+pieceWarps-1)/pieceWarps, 1<<31-1), &a)
		default:
			launch(r, k, blocks(q.params, 1<<31-1).of(threads), &a)
		}
		return fits
	})
	return nil
}

// groupKinds are the kernels of quantize_dynamic.cu: a thread's packs, and the most threads.
var groupKinds = []struct {
	name          string
	each, threads int64
}{{"short", 1, shortGroup}, {"few", 4, 256}, {"many", 16, 256}, {"long", 16, 512}}

// groupKind is the kernel that quantizes groups of some packs, if there is one, and its
// threads.
func groupKind(packs int64) (name string, threads int64) {
	for _, k := range groupKinds {
		if packs <= k.each*k.threads {
			return k.name, (packs + k.each<<logWarp - 1) / (k.each << logWarp) << logWarp
		}
	}
	return "", 0
}

// dynamicKernels lists what quantizes in the same pass.
func dynamicKernels() (names []string) {
	for _, k := range groupKinds {
		for _, name := range forTypes("quantize_dynamic_"+k.name, []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}) {
			names = append(names, name+"_4", name+"_8")
		}
	}
	return names
}

// choosing lists the kernels of choose_qparams.
func choosing() []string {
	names := forTypes("choose_qparams", floats)
	return append(columnNames(names), withSuffixes(names, []string{"_pieces"})...)
}
