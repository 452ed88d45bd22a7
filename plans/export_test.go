package plans

// SetBeforeJob sets what is called before every job, and returns a function
// that ends it.
func SetBeforeJob(f func(worker int)) (restore func()) {
	beforeJob = f
	return func() { beforeJob = nil }
}

// SetParallelCost sets the cost from which a second thread is used, and
// returns a function that restores it.
func SetParallelCost(cost int64) (restore func()) {
	own, host := parallelCost, hostParallelCost
	parallelCost, hostParallelCost = cost, cost
	return func() { parallelCost, hostParallelCost = own, host }
}

// SetStreamFrom sets the size from which outputs are stored around the caches,
// and returns a function that restores it.
func SetStreamFrom(bytes int64) (restore func()) {
	before := streamFrom
	streamFrom = bytes
	return func() { streamFrom = before }
}
