//go:build !cgo || !cuda || !linux

package cuda

import (
	"errors"
	"unsafe"
)

// none is the driver of a build without CUDA.
type none struct{}

var errNone = errors.New("this build has no CUDA; build with -tags cuda (./build.sh lib does)")

func newDriver() Driver { return none{} }

func (none) Available() error                       { return errNone }
func (none) Load(int, []string) ([]Function, error) { return nil, errNone }
func (none) Enter(int) (func(), error)              { return nil, errNone }
func (none) Launch(Function, uintptr, [3]uint32, [3]uint32, unsafe.Pointer, uintptr) error {
	return errNone
}
