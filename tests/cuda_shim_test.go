package tests

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/isobit-ml/isobit/cuda"
	"github.com/isobit-ml/isobit/plans"
)

// The kernels of ../cuda, compiled for the CPU into a program that runs
// launches (../cuda/shim), behind the interface of a CUDA driver: plans with
// device=cuda:0 run on it, and nothing but PTX and a GPU's arithmetic differs
// from the real thing.

// buildShim compiles the kernels into a program and a stand-in for libcuda.so.1
// beside it. They are kept in build/ under the hash of what they were made from.
func buildShim(t *testing.T) string {
	compiler, sources, hash := shimSources(t)
	kept, err := filepath.Abs("../build/cuda-shim")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(kept, hash)
	if program := filepath.Join(folder, "kernels"); exists(program) {
		return program
	}
	os.RemoveAll(kept)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return compileShim(t, append([]string{compiler}, shimFlags...), folder, sources)
}

// buildMutant compiles those kernels of some files that include the file edited,
// and links them with what was compiled beside the program whole.
func buildMutant(t *testing.T, whole, edited string, edit func(name, text string) string, units []string) string {
	compiler, sources, _ := shimSources(t)
	kept := filepath.Dir(whole)
	objects := []string{filepath.Join(kept, "run.o"), filepath.Join(kept, "fibers.o")}
	for name, text := range sources {
		unit, isKernel := strings.CutSuffix(name, ".cu")
		switch {
		case strings.HasSuffix(name, ".cc") || isKernel && !slices.Contains(units, unit):
			delete(sources, name)
		case isKernel && !includes(t, filepath.Join(kept, unit+".d"), edited):
			objects = append(objects, filepath.Join(kept, unit+".o"))
			delete(sources, name)
		default:
			sources[name] = edit(name, text)
		}
	}
	command := append(append([]string{compiler}, shimFlags...), "-O0") // compiles in a fraction of the time
	return compileShim(t, command, t.TempDir(), sources, objects...)
}

// includes reports whether a file is among what the compiler's list names.
func includes(t *testing.T, list, file string) bool {
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Fields(string(text)), file)
}

// shimSources returns the C++ compiler, the sources by name and their hash.
func shimSources(t *testing.T) (compiler string, sources map[string]string, digest string) {
	if compiler = os.Getenv("CXX"); compiler == "" {
		compiler = "g++"
	}
	if _, err := exec.LookPath(compiler); err != nil || runtime.GOOS != "linux" {
		t.Skipf("the CUDA kernels run on the CPU with g++ on Linux: %v", err)
	}
	sources = map[string]string{}
	hash := sha256.New()
	fmt.Fprintln(hash, shimFlags, compiler)
	for _, pattern := range []string{"../cuda/kernels/*.cu", "../cuda/kernels/*.cuh", "../cuda/shim/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources[filepath.Base(path)] = string(text)
			fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(path), len(text), text)
		}
	}
	return compiler, sources, hex.EncodeToString(hash.Sum(nil))[:16]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The last two end the program where a GPU would fail (access off an
// alignment) or give other bits (a float that its integer cannot hold).
var shimFlags = append([]string{
	"-O1", "-MMD", "-std=c++17", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-fPIC",
	"-fsanitize=alignment,float-cast-overflow,shift,signed-integer-overflow", "-fsanitize-undefined-trap-on-error",
}, fusedSteps()...)

// fusedSteps has fma be an instruction rather than a call, where there is one.
func fusedSteps() []string {
	if runtime.GOARCH == "amd64" && plans.ISA() != "go" {
		return []string{"-mfma"}
	}
	return nil
}

// compileShim compiles the sources into folder, links them with objects and
// returns the program.
func compileShim(t *testing.T, command []string, folder string, sources map[string]string, objects ...string) string {
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var units []string
	for name, text := range sources {
		save(name, text)
		unit, isKernel := strings.CutSuffix(name, ".cu")
		if isKernel {
			save(unit+".cc", fmt.Sprintf("#include \"shim.h\"\nnamespace {\n#include %q\n}\n", name))
		}
		if unit, isUnit := strings.CutSuffix(unit, ".cc"); isKernel || isUnit {
			units = append(units, unit)
		}
	}
	compile := func(args ...string) error {
		c := exec.Command(command[0], slices.Concat(command[1:], args)...)
		c.Dir = folder
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s\n%s", c, out)
		}
		return nil
	}
	var wg sync.WaitGroup
	failed := make([]error, len(units))
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, unit := range units {
		wg.Go(func() {
			places <- struct{}{}
			failed[i] = compile("-c", unit+".cc", "-o", unit+".o")
			<-places
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	driver, executable := []string{"-shared", "-o", "libcuda.so.1"}, append([]string{"-o", "kernels.new"}, objects...)
	for _, unit := range units {
		if unit != "run" {
			driver = append(driver, unit+".o")
		}
		if unit != "driver" {
			executable = append(executable, unit+".o")
		}
	}
	if slices.Contains(units, "driver") {
		if err := compile(driver...); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(folder, "kernels")
	if err := errors.Join(compile(executable...), os.Rename(program+".new", program)); err != nil {
		t.Fatal(err)
	}
	return program
}

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
