package plans

import (
	"bytes"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/isobit-ml/isobit/cpu"
)

// SetBeforeJob sets what is called before every job, and returns a function
// that ends it.
func SetBeforeJob(f func(worker int)) (restore func()) {
	beforeJob = f
	return func() { beforeJob = nil }
}

// SetBeforeAgain sets what is called before every run on tensors that lie as the
// last ones, and returns a function that ends it.
func SetBeforeAgain(f func()) (restore func()) {
	beforeAgain = f
	return func() { beforeAgain = nil }
}

// SetOneByOne has groups taken one after the other, and returns a function
// that ends it.
func SetOneByOne() (restore func()) {
	oneByOne = true
	return func() { oneByOne = false }
}

// SetParallelCost sets the cost from which a second thread is used, and
// returns a function that restores it.
func SetParallelCost(cost int64) (restore func()) {
	own, host := parallelCost, hostParallelCost
	parallelCost, hostParallelCost = cost, cost
	return func() { parallelCost, hostParallelCost = own, host }
}

// SetReadyRows sets of how many rows of a table of codes parameters are converted for each row that is named, and returns a
// function that restores it.
func SetReadyRows(n float64) (restore func()) {
	one, shared := readyRows, sharedReadyRows
	readyRows, sharedReadyRows = n, n
	return func() { readyRows, sharedReadyRows = one, shared }
}

// SetDecodedRows sets how many rows a table of codes has at most that is decoded before the bags, for each that is named, and
// returns a function that restores it.
func SetDecodedRows(n float64) (restore func()) {
	sums, maxima := decodedRows, decodedMaxima
	decodedRows, decodedMaxima = n, n
	return func() { decodedRows, decodedMaxima = sums, maxima }
}

// SetStreamFrom sets the size from which outputs are stored around the caches,
// and returns a function that restores it.
func SetStreamFrom(bytes int64) (restore func()) {
	before := streamFrom
	streamFrom = bytes
	return func() { streamFrom = before }
}

// SetReadsStrands has memory read in strands or not, and returns a function that
// restores what is faster.
func SetReadsStrands(on bool) (restore func()) {
	before := readsStrands
	readsStrands = on
	return func() { readsStrands = before }
}

// workers are the latest ones made.
var workers []*worker

func init() {
	var mu sync.Mutex
	workerPool.New = func() any {
		w := newWorker()
		mu.Lock()
		defer mu.Unlock()
		workers = append(workers[max(0, len(workers)-3):], w)
		return w
	}
}

var poison = bytes.Repeat([]byte{0x41}, 1<<17) // 12.1 as f32

// PoisonWorkers makes the next runs start with workers whose memory of
// parameters holds numbers that no run put there. Nothing may run meanwhile.
func PoisonWorkers() {
	for _, w := range workers {
		scratch := reflect.ValueOf(&w.scratch).Elem()
		for _, name := range []string{"Tile", "params"} {
			field := scratch.FieldByName(name)
			copy(unsafe.Slice((*byte)(unsafe.Pointer(field.UnsafeAddr())), field.Type().Size()), poison)
		}
	}
}

// HeldFrom returns the fields of pooled memory, of a call of the plan's and of a
// worker, that hold an address from begin to before end.
func HeldFrom(p Plan, begin, end uintptr) (fields []string) {
	pl := p.(*plan)
	c, w := pl.getCall(), workerPool.Get().(*worker)
	for name, v := range map[string]reflect.Value{"call": reflect.ValueOf(c).Elem(), "worker": reflect.ValueOf(w).Elem()} {
		fields = append(fields, heldIn(name, v, begin, end)...)
	}
	c.plan = pl
	putCall(c)
	putWorker(w)
	return fields
}

// IsOneKernelCall reports whether a plan's last run was one call of a kernel, which the next one repeats as it was.
func IsOneKernelCall(p Plan) bool {
	pl := p.(*plan)
	c := pl.getCall()
	is := c.seen.known && c.seen.elements > 0 && c.seen.kernel.Repeats
	c.plan = pl
	putCall(c)
	return is
}

// EachLongArray calls f with the name and the address of every long array of a worker's copies and of its scratch.
func EachLongArray(f func(name string, at uintptr)) {
	w := newWorker()
	eachLong("copied", reflect.TypeFor[copied](), uintptr(unsafe.Pointer(&w.copied)), f)
	eachLong("scratch", reflect.TypeFor[cpu.Scratch](), uintptr(unsafe.Pointer(&w.scratch)), f)
	runtime.KeepAlive(w)
}

func eachLong(name string, t reflect.Type, at uintptr, f func(name string, at uintptr)) {
	const long = 8192 // bytes
	if t.Size() < long {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			eachLong(name+"."+field.Name, field.Type, at+field.Offset, f)
		}
	case reflect.Array:
		f(name, at)
		eachLong(name+"[0]", t.Elem(), at, f)
		eachLong(name+"[1]", t.Elem(), at+t.Elem().Size(), f)
	}
}

func heldIn(name string, v reflect.Value, begin, end uintptr) (fields []string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fields = append(fields, heldIn(name+"."+v.Type().Field(i).Name, v.Field(i), begin, end)...)
		}
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice {
			if p := v.Pointer(); p >= begin && p < end {
				fields = append(fields, name)
			}
			v = v.Slice(0, v.Cap())
		}
		switch v.Type().Elem().Kind() {
		case reflect.Struct, reflect.Array, reflect.Slice, reflect.Pointer, reflect.UnsafePointer:
			for i := range v.Len() {
				fields = append(fields, heldIn(name, v.Index(i), begin, end)...)
			}
		}
	case reflect.Pointer, reflect.UnsafePointer:
		if p := v.Pointer(); p >= begin && p < end {
			fields = append(fields, name)
		}
		switch part := v.Type(); part {
		case reflect.TypeFor[*mapping](), reflect.TypeFor[*reducing](), reflect.TypeFor[*pieces](), reflect.TypeFor[*compaction](),
			reflect.TypeFor[*rowSumsCall](), reflect.TypeFor[*sides](), reflect.TypeFor[*layout](), reflect.TypeFor[*cpu.Args]():
			if !v.IsNil() { // memory of the call's own
				fields = append(fields, heldIn(name, v.Elem(), begin, end)...)
			}
		}
	}
	return fields
}
