package plans

import (
	"sync"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// worker is one thread's part of a run: its number and its private memory, which begins at a multiple of a page. So
// the memory of kernels, which comes first, begins at multiples of a cache line: see cpu.Scratch.
type worker struct {
	copied  copied
	codes   [feedSize]int8                   // unpacked 4-bit codes
	sides   [sideCount][cpu.TileSize]float64 // of groups, one after the other
	scratch cpu.Scratch
	number  int
	args    cpu.Args
	cursors [cursorCount]cursor
	bases   cpu.AffineBases
	own     ownArgs
	usesOwn bool // own holds pointers
}

// The cursors of a worker, by what they go through.
const (
	ofElements = iota // all elements, or all groups
	ofMembers         // the elements of a group
	ofSides
	ofCopies
	cursorCount
)

// ownArgs are the arguments of kernels that are neither Elementwise nor Striped, a field for each kind of op.
type ownArgs struct {
	embedding cpu.EmbeddingSums
	pairs     cpu.RowPairs
	copies    cpu.RowCopies
	grid      gridBlock
	scatter32 cpu.GridScatter[float32]
	scatter64 cpu.GridScatter[float64]
	affine    cpu.AffineRun
	linear    cpu.LinearTile
	groups    cpu.GroupLinearTile
	weights   cpu.WeightTile
	matmul    cpu.MatmulTile
	products  cpu.MatmulBatch
}

// ownArgs returns w.own, and notes its use, so that putWorker clears it.
func (w *worker) ownArgs() *ownArgs {
	w.usesOwn = true
	return &w.own
}

func newWorker() *worker {
	w := new(worker)
	w.args.Scratch = &w.scratch
	return w
}

var workerPool = sync.Pool{New: func() any { return newWorker() }}

// putWorker gives a worker back, without pointers of the caller's: see putCall.
func putWorker(w *worker) {
	cpu.StoreFence() // before any thread learns that the run is over: stores around the caches are not ordered
	for i := range w.cursors {
		w.cursors[i].at = [maxOperands]unsafe.Pointer{}
	}
	w.args = cpu.Args{Scratch: &w.scratch}
	if w.usesOwn {
		w.own, w.usesOwn = ownArgs{}, false
	}
	workerPool.Put(w)
}
