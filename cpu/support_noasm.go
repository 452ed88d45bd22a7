//go:build !amd64

package cpu

var expandRows []Row[Expand]

// StoreFence orders stores around the caches, of which there are none.
func StoreFence() {}
