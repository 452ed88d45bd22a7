//go:build !amd64

package cpu

// linearRows are the rows of QuantizedLinear before the definition: none here.
var linearRows []Row[LinearLayer]
