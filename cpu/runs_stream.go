package cpu

import (
	"unsafe"

	"github.com/isobit-ml/isobit/tensor"
)

// How the results of many runs are stored around the caches. Those of short ones that follow one another are made in memory
// that stays in the first cache, from where whole lines are stored, or joined in registers: runs that end within a line each
// take up to twice as long. So do, up to four times as long, results in the place of elements, wherever they are stored: a
// load waits for a masked store that could reach it.

const (
	// longHeads is the shortest run, in bytes, that kernels store around the caches although it has a head. longSums
	// is the shortest run of sums that has a call of its own for that: with many in a call none may have a head.
	longHeads, longSums = 1 << 11, 1 << 14
	// shortShared is the shortest run, in bytes, that they store so if runs share lines. With masks that is a line, and
	// longShared the longest run, in elements.
	shortShared, longShared = 1 << 8, 640
	// asideRun is the longest run of results of 8 and 16 bits, in elements, that is made elsewhere, asideLong the longest of
	// others, in bytes; beside two inputs it is half as long around the caches. asideBytes is how many bytes are made there at a time.
	asideRun, asideLong, asideBytes = 127, 255, 1 << 13
)

// streams reports whether runs are stored around the caches, whether each has a head, which is stored as usual, and
// whether such runs follow one another, so that kernels store around the caches what two of them have of a line, too
// (internal/gen/shared_lines.go, masked_run.go). Strands must begin alike.
func (k *kernel) streams(n int, a *Args) (stream, heads, shares bool) {
	out := len(a.In)
	if !a.Stream || !k.writes(a) || (a.Runs.Apart[out]|a.Runs.Round[out])%streamAlignment != 0 {
		return false, false, false
	}
	bytes := n * int(k.out.Size())
	heads = misaligned(a.Out[0].P, k.out) != 0 || a.Runs.Step[out]%streamAlignment != 0 || n%k.step != 0
	one := a.Runs.Strands == 1 && !k.chooses
	shares = heads && k.heads && one && a.Runs.Step[out] == int64(bytes)
	var short bool // they are stored so only if they share lines
	if k.repeats {
		short, shares = bytes < longHeads, shares && bytes >= shortShared
	} else {
		short = one && n <= longShared
		shares = shares && short && bytes >= streamAlignment
	}
	if heads && (!k.heads || short && !shares || k.repeats && !k.mayRepeatRuns(n, a)) {
		return false, false, false
	}
	return true, heads, shares
}

// joins reports whether lines that runs of n elements share are put together in registers (internal/gen/joined_lines.go):
// where a vector of results is a line, and runs are so short that they would be made elsewhere otherwise.
func (k *kernel) joins(n int, a *Args) bool {
	return a.call.shares && k.needs == AVX512 && k.out.Size() == k.compute.Size() && n*int(k.out.Size()) <= asideLong
}

// before returns how many runs of n elements are stored as usual before others are joined: so many that the line in which
// the next one begins is theirs.
func (k *kernel) before(n int, a *Args) int {
	if misaligned(a.Out[0].P, k.out) == 0 {
		return 0
	}
	return (streamAlignment/int(k.out.Size()) + n - 1) / n
}

// writes reports whether there is an output of elements.
func (k *kernel) writes(a *Args) bool { return k.out != tensor.None && a.Out[0].P != nil }

// goesAside reports whether runs of n elements are taken so.
func (k *kernel) goesAside(n int, a *Args) bool {
	r, c, bytes, long := &a.Runs, &a.call, n*int(k.out.Size()), asideLong
	if a.Stream && k.in[1] != tensor.None {
		long /= 2
	}
	switch {
	case k.needs != AVX512 || !k.writes(a) || k.chooses || c.sum0 != nil || r.Strands > 1 || r.Rounds > 1 || r.Step[len(a.In)] != int64(bytes):
		return false
	case n > asideRun || k.out.Size() > 2 && bytes > long:
		return false
	case a.Stream:
		return !c.stream || c.heads && !k.joins(n, a) // otherwise kernels store whole lines
	}
	return n%16 != 0 && !k.mayRepeatRuns(n, a)
}

// runAside takes such runs.
func (k *kernel) runAside(n, data int, a *Args) {
	c, steps, bytes := &a.call, a.Runs.Steps, n*int(k.out.Size())
	c.stream, c.heads, c.shares = false, false, false
	to := unsafe.Slice((*byte)(a.Out[0].P), steps*bytes)
	room := unsafe.Slice((*byte)(unsafe.Pointer(&a.Scratch.unused)), unsafe.Sizeof(a.Scratch.unused))
	room = room[-uintptr(unsafe.Pointer(&room[0]))%streamAlignment:]
	begin := int(uintptr(a.Out[0].P) % streamAlignment) // results lie among lines as they will in the end
	end, most := begin, min(maxRuns, asideBytes/bytes)
	for step := 0; step < steps; step += most {
		m := min(most, steps-step)
		k.loadRuns(a, n, data, step, m)
		k.operands(a, 0, step, 0, n)
		c.out = unsafe.Pointer(&room[end])
		k.run(n, c)
		end += m * bytes
		if within := begin % streamAlignment; within > 0 { // what comes before is others'
			first := copy(to, room[begin:min(begin-within+streamAlignment, end)])
			to, begin = to[first:], begin+first
		}
		if lines := (end - begin) &^ (streamAlignment - 1); lines > 0 {
			if a.Stream {
				storeLines(unsafe.Pointer(&to[0]), unsafe.Pointer(&room[begin]), lines)
			} else {
				copy(to, room[begin:][:lines])
			}
			to, begin = to[lines:], begin+lines
		}
		within := begin % streamAlignment
		begin, end = within, within+copy(room[within:], room[begin:end])
	}
	copy(to, room[begin:end])
}
