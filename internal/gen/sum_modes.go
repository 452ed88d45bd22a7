package main

// The bits of the mode of an embedding's sums: package cpu has a copy of this file.
const (
	sumAccumulate = 1 << iota
	sumDivide
	sumStream      // store around the caches: to is at a multiple of a register
	sumWide        // store in the compute type
	sumLong        // also more rows than a chunk, one after the other
	sumWideFactors // factors are of the compute type
	sumBF16        // of rows of f32: store in another type
	sumF16
	sumCentred    // of rows of codes: no zero points
	sumWholeZeros // of rows of codes: zero points are i32, else f32
	sumGrouped    // of rows of codes: columns have parameters of several groups
	sumNegative   // of rows of codes: begin with -0, so that the sum of one row is that row

	sumFinish = sumAccumulate | sumDivide | sumWide | sumBF16 | sumF16 // what sums are stored by
)

// columnNumbers is how many columns' groups are listed: a block's.
const columnNumbers = 256
