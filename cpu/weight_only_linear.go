package cpu

import "unsafe"

// WeightTile is a part of a linear layer whose weight is stored as codes:
// rows [M0, M1) of the M rows of x against rows [N0, N1) of weight.
type WeightTile struct {
	X, Y Rows
	WeightRows
	Bias              Span
	M, M0, M1, N0, N1 int64
	K                 int64
	Packed            unsafe.Pointer // what a layer's Pack made
	Numbers           []int32        // what its Numbers returned
	Scratch           *Scratch
}

// WeightRows are rows of weights that are stored as codes, in groups along a row.
type WeightRows struct {
	Weight      Rows // codes, packed ones as bytes
	Scale, Zero Rows // one element per group of a row; Zero may be absent
	GroupSize   int64
	Rows        int64
	Ready       [2]Rows // of bags: parameters that were made ready before, or none
}

// WeightLayer is a way to run the layer.
type WeightLayer struct {
	Run  func(*WeightTile)
	Rows int64 // how many rows of x Run takes at most
	// Pack copies the tile's rows of x to where Run reads them; nil: Run reads x itself.
	Pack   func(t *WeightTile)
	Packed func(m, k int64) int64 // how many bytes m such rows have
	// Numbers returns what Run needs to know about groups of a size, of rows of x of a number and length; or it is nil.
	Numbers func(m, k, group int64) []int32
}

// packedSize is how many bytes m packed rows of x have in f32.
func packedSize(m, k int64) int64 {
	width := roundUp(k, Lanes) + ceilDiv(k, weightLeastDepth)*weightSlack
	if m <= weightFewRows {
		width = max(width, packedWidth(k))
	}
	return m * width * 4
}

// weightFewRows is how many rows of x are packed one by one at most.
const weightFewRows = 4

// packedWidth is the distance of such rows: far from a power of two, so that they
// do not meet in a cache.
func packedWidth(k int64) int64 { return roundUp(k, Lanes) + 144 }

// WeightOnlyLinear computes y[m,n] = sum over k of x[m,k] * w[n,k], then +
// bias[n], where w = (q - z) * s is rounded and the sum is in Stripe order. A
// learned z is rounded and clamped to all codes of the weight's type.
var WeightOnlyLinear = withDefinition(weightTable(), byCompute(
	WeightLayer{Run: weightOnlyLinear[float32], Rows: weightTreeRows},
	WeightLayer{Run: weightOnlyLinear[float64], Rows: weightTreeRows},
))

// weightTreeRows is for how many rows of x a scratch has trees.
const weightTreeRows = 16

func weightOnlyLinear[C Compute](t *WeightTile) {
	s := t.Scratch
	bias, y := BlockOf[C](s, 0, 1), BlockOf[C](s, 1, 1)
	for n := t.N0; n < t.N1; n++ {
		Load(bias, t.Bias.At(n))
		var trees [weightTreeRows]*Tree[C]
		for m := t.M0; m < t.M1; m++ {
			trees[m-t.M0] = TreeOf[C](s, int(m-t.M0))
		}
		for k := int64(0); k < t.K; k += StripeBlock {
			sumBlock[C](t, n, k, min(k+StripeBlock, t.K))
			for i := range t.M1 - t.M0 {
				trees[i].Push(foldLanes(lanesOf[C](s, int(i))))
			}
		}
		for m := t.M0; m < t.M1; m++ {
			y[0] = trees[m-t.M0].Sum()
			if t.Bias.P != nil {
				y[0] += bias[0]
			}
			Store(t.Y.Row(m, n), y)
		}
	}
}

// sumBlock adds the terms of positions [begin, end) of weight row n to the
// lanes of each row of x.
func sumBlock[C Compute](t *WeightTile, n, begin, end int64) {
	s := t.Scratch
	for i := range t.M1 - t.M0 {
		clear(lanesOf[C](s, int(i))[:])
	}
	for k := begin; k < end; k += Block {
		size := int(min(Block, end-k))
		w, x := BlockOf[C](s, 2, size), BlockOf[C](s, 3, size)
		loadWeights(&t.WeightRows, s, w, n, k)
		for m := t.M0; m < t.M1; m++ {
			Load(x, t.X.Row(m, k))
			for i := range x {
				x[i] *= w[i]
			}
			addStripe(lanesOf[C](s, int(m-t.M0)), k-begin, x)
		}
	}
}

// loadWeights fills w with the weights of row n from position k on.
func loadWeights[C Compute](t *WeightRows, s *Scratch, w []C, n, k int64) {
	loadCodes(t, s, w, n, k)
	scale, zero := BlockOf[C](s, weightBlocks+1, 1), BlockOf[C](s, weightBlocks+2, 1)
	for at := 0; at < len(w); {
		group := (k + int64(at)) / t.GroupSize
		stop := int(min(int64(len(w)), (group+1)*t.GroupSize-k))
		Load(scale, t.Scale.Row(n, group))
		zero[0] = 0
		if t.Zero.P != nil {
			Load(zero, t.Zero.Row(n, group))
			if t.Zero.DType.IsFloat() {
				lo, hi := t.Weight.DType.WholeRange()
				zero[0] = roundZeroPoint(zero[0], C(lo), C(hi))
			}
		}
		for i := range w[at:stop] {
			w[at+i] = (w[at+i] - zero[0]) * scale[0]
		}
		at = stop
	}
}

// loadCodes fills w with the codes of row n from position k on.
func loadCodes[C Compute](t *WeightRows, s *Scratch, w []C, n, k int64) {
	d := t.Weight.DType
	if !d.Packed() {
		Load(w, t.Weight.Row(n, k))
		return
	}
	codes := unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(BlockOf[C](s, weightBlocks, len(w))))), len(w))
	unpack(codes, t.Weight.Row(n, 0).P, k, 1, d)
	for i, q := range codes {
		w[i] = C(q)
	}
}
