//go:build !amd64

package cpu

var expandRows []Row[Expand]

var foldRows []Row[Fold[float32]]

var minMaxFoldRows []Row[MinMaxFold[float32]]

var packingRows []Row[Packing]

// StoreFence orders stores around the caches, of which there are none.
func StoreFence() {}
