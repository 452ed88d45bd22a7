package cpu

// Sums in a frame, by the number of channels: from 2 in quads, from 1 in planes; from 1
// where pixels may have chunks.
var (
	gridFramedQuads = []framedQuad{gridFramedQuad2, gridFramedQuad3, gridFramedQuad4}
	gridFramedAdds  = []framedAdd{gridFramedAdd1, gridFramedAdd2, gridFramedAdd3, gridFramedAdd4}
	gridFramedRuns  = []framedRuns{gridFramedRuns1, gridFramedRuns2, gridFramedRuns3, gridFramedRuns4}
)
