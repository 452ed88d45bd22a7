//go:build !amd64

package cpu

// groupLinearRows are the rows of QuantizedLinearPerGroup before the definition: none here.
var groupLinearRows []Row[GroupLinearLayer]

// groupRun is a tile under way.
type groupRun struct{}
