package tests

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
)

// The kernels of ../cuda, compiled for the CPU into a program that runs
// launches (../cuda/shim), behind the interface of a CUDA driver: plans with
// device=cuda:0 run on it, and nothing but PTX and a GPU's arithmetic differs
// from the real thing.

// shim is a cuda.Driver that notes launches, and the program that runs them.
type shim struct {
	names    []string
	launched map[string]bool
	launches bytes.Buffer
	count    uint64
	command  *exec.Cmd
	in       *bufio.Writer
	out      *bufio.Reader
	errors   bytes.Buffer
}

func startShim(t *testing.T, program string) *shim {
	s := &shim{launched: map[string]bool{}, command: exec.Command(program)}
	in, err := s.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.command.Stderr = &s.errors
	s.in, s.out = bufio.NewWriterSize(in, 1<<20), bufio.NewReaderSize(out, 1<<20)
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		s.command.Wait()
	})
	return s
}

func (s *shim) Available() error          { return nil }
func (s *shim) Enter(int) (func(), error) { return func() {}, nil }

func (s *shim) Load(_ int, kernels []string) (functions []cuda.Function, err error) {
	for _, name := range kernels {
		i := slices.Index(s.names, name)
		if name == "" { // a kernel that never runs
			functions = append(functions, 0)
			continue
		}
		if i < 0 {
			i = len(s.names)
			s.names = append(s.names, name)
		}
		functions = append(functions, cuda.Function(i+1))
	}
	return functions, nil
}

func (s *shim) Launch(f cuda.Function, _ uintptr, grid, block [3]uint32, args unsafe.Pointer, size uintptr) error {
	if f == 0 {
		return errors.New("a kernel is launched that was not loaded")
	}
	name := s.names[f-1]
	s.launched[name] = true
	put(&s.launches, uint64(len(name)))
	s.launches.WriteString(name)
	put(&s.launches, [2][3]uint32{grid, block})
	put(&s.launches, uint64(size))
	s.launches.Write(unsafe.Slice((*byte)(args), size))
	s.count++
	return nil
}

func put(w io.Writer, v any) { binary.Write(w, binary.LittleEndian, v) }

// deviceBuffer is memory that the program maps at an address.
type deviceBuffer struct {
	address uint64
	data    []byte
}

// errTrap says that a kernel stopped the run.
var errTrap = errors.New("a kernel trapped")

// execute runs the launches noted since the last call and updates the buffers.
func (s *shim) execute(buffers []deviceBuffer, descending bool) error {
	order := uint64(0)
	if descending {
		order = 1
	}
	put(s.in, order)
	put(s.in, uint64(len(buffers)))
	for _, b := range buffers {
		put(s.in, b.address)
		put(s.in, uint64(len(b.data)))
		s.in.Write(b.data)
	}
	put(s.in, s.count)
	s.in.Write(s.launches.Bytes())
	s.launches.Reset()
	s.count = 0
	if err := s.in.Flush(); err != nil {
		return s.died(err)
	}
	var status uint64
	if err := binary.Read(s.out, binary.LittleEndian, &status); err != nil {
		return s.died(err)
	}
	for _, b := range buffers {
		if _, err := io.ReadFull(s.out, b.data); err != nil {
			return s.died(err)
		}
	}
	if status != 0 {
		return errTrap
	}
	return nil
}

func (s *shim) died(err error) error {
	return fmt.Errorf("the program died: %w, %v\n%s", err, s.command.Wait(), s.errors.String())
}
