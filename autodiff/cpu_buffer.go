package autodiff

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

// buffer is memory that handles share. It goes back to its pool with the last
// of them; one that is forgotten is left to the garbage collector.
type buffer struct {
	mem     []byte
	holders atomic.Int32
	version atomic.Int64
	pool    *pool
	class   int
}

// pool keeps released buffers by size. Reusing memory matters more than the
// arithmetic: the first touch of a fresh page costs more than computing on it.
type pool struct {
	mu   sync.Mutex
	free [classes][]*buffer
	// Statistics, in bytes: made new, and lying here unused.
	made, idle int64
	// poison fills what get returns with bytes that are NaNs: for tests.
	poison bool
}

// Sizes are rounded up to 4, 5, 6 or 7 times a power of two.
const classes = 4 * 48

// sizeClass returns the class of a size and the bytes that it gets.
func sizeClass(n int) (class, size int) {
	n = max(n, 64)
	shift := bits.Len(uint(n-1)) - 3
	quarter := (n + 1<<shift - 1) >> shift // 4 to 8
	if quarter == 8 {
		shift, quarter = shift+1, 4
	}
	return shift*4 + quarter - 4, quarter << shift
}

// get returns a buffer of at least n bytes, with arbitrary content.
func (p *pool) get(n int) *buffer {
	b := p.take(n)
	if p.poison {
		for i := range b.mem {
			b.mem[i] = 0xff
		}
	}
	return b
}

func (p *pool) take(n int) *buffer {
	class, size := sizeClass(n)
	free := &p.free[class]
	p.mu.Lock()
	if list := *free; len(list) > 0 {
		b := list[len(list)-1]
		list[len(list)-1] = nil
		*free = list[:len(list)-1]
		p.idle -= int64(size)
		p.mu.Unlock()
		b.holders.Store(1)
		return b
	}
	p.made += int64(size)
	p.mu.Unlock()
	// Rows of kernels are fastest on whole cache lines.
	mem := make([]byte, size+63)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & 63)
	b := &buffer{mem: mem[off : off+size : off+size], pool: p, class: class}
	b.holders.Store(1)
	return b
}

func (b *buffer) release() {
	if b.holders.Add(-1) > 0 {
		return
	}
	p := b.pool
	p.mu.Lock()
	p.free[b.class] = append(p.free[b.class], b)
	p.idle += int64(len(b.mem))
	p.mu.Unlock()
}

// trim drops the unused buffers.
func (p *pool) trim() {
	p.mu.Lock()
	clear(p.free[:])
	p.idle = 0
	p.mu.Unlock()
}
