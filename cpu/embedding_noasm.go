//go:build !amd64

package cpu

// rowSums are the generated sums of rows: none here.
var rowSums []rowSum

// StoreFence has nothing to do where no kernel stores around the caches.
func StoreFence() {}
