package cpu

import "sync/atomic"

var (
	best    = Best()
	lowered atomic.Int64 // how far the cap lies below the largest instruction set
)

// Limit caps what Allowed returns.
func Limit(to ISA) { lowered.Store(int64(largestISA - to)) }

// Allowed returns the largest instruction set that this machine has and Limit allows.
func Allowed() ISA { return min(best, largestISA-ISA(lowered.Load())) }
