package kernel

import (
	"sync"
	"sync/atomic"
)

// Threads is a number of goroutines that loops may be split over.
type Threads int

// MinPiece is how many elements of plain arithmetic are worth a second
// goroutine, which takes about 30 microseconds to get going. Tests lower it.
var MinPiece = 64 << 10

// For calls body for consecutive ranges that cover [0, n). cost is the work
// per index, in elements of plain arithmetic. Ranges start at multiples of
// align, so that body may work in blocks. The caller's goroutine takes part.
func (t Threads) For(n, cost, align int, body func(lo, hi int)) {
	if n == 0 {
		return
	}
	align = max(align, 1)
	blocks := (n + align - 1) / align
	pieces := min(int(t), blocks, max(1, n*max(cost, 1)/MinPiece))
	if pieces <= 1 {
		body(0, n)
		return
	}
	// Smaller pieces than goroutines even out the load.
	if blocks >= 4*pieces {
		pieces *= 4
	}
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= pieces {
				return
			}
			body(i*blocks/pieces*align, min((i+1)*blocks/pieces*align, n))
		}
	}
	var wg sync.WaitGroup
	for range min(int(t), pieces) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
