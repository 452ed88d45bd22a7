package cuda

import (
	"sync"
	"unsafe"
)

// Function is a kernel loaded on a device.
type Function uintptr

// Driver is what runs kernels: the CUDA driver, or in tests something else.
type Driver interface {
	// Available says why there is nothing to run kernels on, or nil.
	Available() error
	// Load makes kernels ready on a device and returns them in order: 0 for
	// one that the device is too old for, and for one without a name.
	Load(device int, kernels []string) ([]Function, error)
	// Enter makes the device's context current in this thread; leave restores
	// what was.
	Enter(device int) (leave func(), err error)
	// Launch puts a kernel on a stream.
	Launch(f Function, stream uintptr, grid, block [3]uint32, args unsafe.Pointer, size uintptr) error
}

var driver Driver = newDriver()

// Available says why this process cannot run CUDA kernels; nil if it can.
func Available() error { return driver.Available() }

var driverLock sync.Mutex

// ReplaceDriver puts another driver in the place of CUDA's until restore is called.
// It is for tests; programs made before keep the functions they have loaded.
func ReplaceDriver(in Driver) (restore func()) {
	driverLock.Lock()
	old := driver
	driver = in
	return func() {
		driver = old
		driverLock.Unlock()
	}
}
