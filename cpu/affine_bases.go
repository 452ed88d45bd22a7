package cpu

import "unsafe"

// affineSlack is how many bytes behind the base coordinates may be read: more
// than a register has less an element. What is written to planes reaches as far
// past their ends.
const affineSlack = 64

// affineKept is how many chunks' planes are kept.
const affineKept = 4

// AffineBases keeps base coordinates from one run to the next, since all images of a batch have
// the same: planes of some chunks, and those along an axis, each for every coordinate of a position.
type AffineBases struct {
	axis   basesKept
	memory [2048*3 + affineSlack/8]float64
	chunks [affineKept]struct {
		kept   planesKept
		planes [3 * (3*affineChunk + affineSlack/4)]float64
	}
}

// affineGeometry is what base coordinates depend on.
type affineGeometry struct {
	size         [3]int64
	dims, bytes  int
	alignCorners bool
}

// basesKept says which are kept of an axis: a number of them from first on.
type basesKept struct {
	affineGeometry
	axis, first, count int64
}

// planesKept says which positions a chunk's planes are of.
type planesKept struct {
	affineGeometry
	pos, stop int64
}

func geometryOf[C Compute](r *AffineRun) affineGeometry {
	return affineGeometry{r.Size, r.Dims, int(unsafe.Sizeof(C(0))), r.AlignCorners}
}

// basesFrom returns n base coordinates along an axis from number i on, n being a chunk's at most.
func basesFrom[C Compute](r *AffineRun, axis, i, n int64) []C {
	b, size := r.Bases, r.Size[axis]
	want := basesKept{affineGeometry: geometryOf[C](r), axis: axis}
	memory := unsafe.Slice((*C)(unsafe.Pointer(&b.memory)), (len(b.memory)*8-affineSlack)/want.bytes)
	want.first, want.count = b.axis.first, b.axis.count
	if b.axis != want || i < want.first || i+n > want.first+want.count {
		most := int64(len(memory) / r.Dims)
		if want.first = i; size <= most {
			want.first = 0
		}
		want.count = min(most, size-want.first)
		for i := range want.count {
			fill(memory[i*int64(r.Dims):][:r.Dims], baseCoordinate[C](want.first+i, size, r.AlignCorners))
		}
		b.axis = want
	}
	return memory[(i-want.first)*int64(r.Dims):][:n*int64(r.Dims)]
}

// planes returns the base coordinates of positions from pos up to stop, a chunk's at most, and
// zeros to the end of the last stripe. A plane begins apart bytes after the one before it.
func (k affineRows[C]) planes(r *AffineRun, pos, stop int64) (planes []C, apart int) {
	want := planesKept{geometryOf[C](r), pos, stop}
	chunk := &r.Bases.chunks[pos/affineChunk%affineKept]
	d := r.Dims
	apart = d*affineChunk + affineSlack/want.bytes
	planes = unsafe.Slice((*C)(unsafe.Pointer(&chunk.planes)), d*apart)
	if chunk.kept != want {
		k.fillPlanes(r, planes, apart, pos, stop)
		chunk.kept = want
	}
	return planes, apart * want.bytes
}

// fillPlanes makes them, a row of positions at a time, or a column where there is only one.
func (k affineRows[C]) fillPlanes(r *AffineRun, planes []C, apart int, pos, stop int64) {
	d, rest := r.Dims, BlockOf[C](r.Scratch, 0, 2)
	x, y, z := pos%r.Size[0], pos/r.Size[0]%r.Size[1], pos/(r.Size[0]*r.Size[1])
	column := r.Size[0] == 1
	if column {
		fill(planes[:int(stop-pos)*d], baseCoordinate[C](0, 1, r.AlignCorners))
	}
	at := 0
	for pos < stop {
		if d == 3 {
			rest[1] = baseCoordinate[C](z, r.Size[2], r.AlignCorners)
		}
		var n int64
		if column {
			n = min(r.Size[1]-y, stop-pos)
			copy(planes[apart+at:], basesFrom[C](r, 1, y, n))
			if d == 3 {
				fill(planes[2*apart+at:][:int(n)*d], rest[1])
			}
			y += n
		} else {
			n = min(r.Size[0]-x, stop-pos)
			rest[0] = baseCoordinate[C](y, r.Size[1], r.AlignCorners)
			k.plain.spread[d-2](bytesOf(planes[at:]), apart*int(unsafe.Sizeof(C(0))), int(n)*d, bytesOf(basesFrom[C](r, 0, x, n)), bytesOf(rest))
			x, y = 0, y+1
		}
		at, pos = at+int(n)*d, pos+n
		if y == r.Size[1] {
			y, z = 0, z+1
		}
	}
	for axis := range d {
		clear(planes[axis*apart:][at:roundUp(at, d*Lanes)])
	}
}

func fill[C Compute](x []C, v C) {
	for i := range x {
		x[i] = v
	}
}
