package cpu

// PackAlways has rows packed for few rows of weights, too, until the function that it returns is called.
func PackAlways() (restore func()) {
	panel, winograd := leastForPanel, leastForWinograd
	leastForPanel, leastForWinograd = func(_, _ int64) int64 { return linearPanelColumns }, 1
	return func() { leastForPanel, leastForWinograd = panel, winograd }
}

// For tests that lie outside, where package testcase can be imported.

func LanesOf[C Compute](s *Scratch, number int) *[Lanes]C { return lanesOf[C](s, number) }

func AddStripe[C Compute](lanes *[Lanes]C, pos int64, terms []C) { addStripe(lanes, pos, terms) }

func FoldLanes[C Compute](lanes *[Lanes]C) C { return foldLanes(lanes) }

func LoadParams[C Compute](v []C, s Span, zeroPoints bool, lo, hi float64) {
	loadParams(v, s, zeroPoints, lo, hi)
}
