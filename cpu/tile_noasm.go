//go:build !amd64

package cpu

var expandRows []Row[Expand]
