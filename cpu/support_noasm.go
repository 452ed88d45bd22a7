//go:build !amd64

package cpu

var expandRows []Row[Expand]

var packingRows []Row[Packing]

// StoreFence orders stores around the caches, of which there are none.
func StoreFence() {}
