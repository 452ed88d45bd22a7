//go:build !amd64

package cpu

// The kernels of frames: none here.
var (
	gridFramedAdds  []framedAdd
	gridFramedQuads []framedQuad
	gridFramedRuns  []framedRuns
)

func gridFramedCount(*byte, int, *uint8) int { panic("no kernels") }

func gridFramedTranspose(*float32, int, *float32, int, int) { panic("no kernels") }
