package cuda

import "fmt"

// patch is Patch (kernels/links.cuh), and how many channels a thread takes at once.
type patch struct {
	gather                       string // its kernels
	channels, width, height, log int64
}

// patchOf is the patch for a gradient of an order, "gradient" or "double".
func patchOf(s *samplerArgs, order string) patch {
	if s.mode == modeNearest {
		return patch{"input_gather_nearest", 4, 1, 1, 5}
	}
	channels := int64(8)
	if s.channels <= 4 {
		channels = max(3, s.channels)
	}
	return patch{fmt.Sprintf("input_gather%d_%s", channels, order), channels, 2, 2, 5}
}

// linkArgs is struct Links.
type linkArgs struct {
	heads, next, spots uint64
	cells, sources     int64
	pitch, logRow      int32
}

// fewPositions is how many positions a pixel may have for links to be worth their
// while: where an output is magnified, tiles read a position for many pixels.
const fewPositions = 3

// linksOf describes links, or reports that there are none: where pixels have many
// positions, 32-bit numbers do not name all that is linked, or f32 does not tell
// all pixels, and those behind the last, from each other.
func linksOf(s *samplerArgs, positions int64) (l linkArgs, ok bool) {
	l.logRow = logOf(s.out[0])
	sources, pitch, rows := s.out[1]<<l.logRow, (s.size[0]+3)&^3+4, s.size[1]+2
	if positions >= fewPositions*s.size[0]*s.size[1] && positions > 0 || max(s.size[0], s.size[1]) > maxFlat ||
		sources > 1<<30-1 || pitch > 1<<31/rows {
		return l, false
	}
	l.sources, l.cells, l.pitch = sources, pitch*rows, int32(pitch)
	return l, true
}

// near reports whether 32-bit numbers of bytes lead to all positions of an image.
func near(s *samplerArgs, m *imageArg, size int64) bool {
	x, y := m.axis[0]*size, m.axis[1]*size
	return x >= 0 && y >= 0 && x <= limit32 && y <= limit32 && (s.out[0]-1)*x+(s.out[1]-1)*y <= limit32
}

// maxLogGroups leaves as many blocks as an axis has for one patch's groups of channels.
const maxLogGroups = 15

// share lets threads share the channels of a patch where there are few patches.
func (p patch) share(s *samplerArgs) (channels, logGroups int32) {
	patches := s.images * ceilDiv(s.size[0], p.width) * ceilDiv(s.size[1], p.height)
	for logGroups < maxLogGroups && patches<<logGroups < enough && s.channels>>logGroups > 4*p.channels {
		logGroups++
	}
	each := (s.channels + 1<<logGroups - 1) >> logGroups
	return int32(ceilDiv(each, p.channels) * p.channels), logGroups
}

// packs reports whether a patch's pixels in a row lie together, aligned.
func (p patch) packs(m *imageArg, size int64) bool {
	strides := uint64(m.image|m.channel|m.axis[1]) * uint64(size)
	return m.axis[0] == 1 && (m.data|strides)%uint64(min(p.width*size, packBytes)) == 0
}

func (p patch) cover(s *samplerArgs, logGroups int32) geometry {
	columns := ceilDiv(s.size[0], p.width<<p.log)
	height := p.height * (tileThreads >> p.log)
	rows := min(ceilDiv(s.size[1], height), 1<<(maxLogGroups-logGroups)) << logGroups
	return geometry{grid: [3]uint32{uint32(columns), uint32(rows), uint32(min(s.images, gridYZ))}}.of(tileThreads)
}
