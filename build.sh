#!/usr/bin/env bash
# One entry for everything. Each verb first does what it depends on, and skips
# what is up to date.
#
#   ./build.sh demo       set everything up, then train and serve examples/digits
#   ./build.sh test       every check and every test
#   ./build.sh lib        build/: the C library and the Python extension; .venv with isobit
#   ./build.sh wheel      dist/: a wheel for every Linux with glibc 2.28 or later
#   ./build.sh bench      measure beside PyTorch (bench/)
#   ./build.sh format     gofmt, ruff and clang-format, in place
#   ./build.sh gen        write the generated files again
#   ./build.sh ptx        compile the CUDA kernels to PTX again (no GPU or toolkit needed)
#   ./build.sh emulate    compare bits on other processors: arm64, or the ones named, or all (needs qemu-user)
#   ./build.sh gpu-check  compare a GPU's results with the definitions (needs Python, PyTorch, build/)
#   ./build.sh clean      remove what was built (.venv stays: remove it by hand)
#
# Needs Go 1.26, a C and C++ compiler and Python 3.11 or later.
set -euo pipefail
cd "$(dirname "$0")"

python=.venv/bin/python
uv=.venv/bin/uv
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

step() { printf '== %s\n' "$*"; }
stop() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || stop "$1 is missing: $2"; }

# Whether the second and later files are all older than the first.
fresh() {
  local out=$1 file
  shift
  [ -e "$out" ] || return 1
  for file; do [ "$file" -nt "$out" ] && return 1; done
  return 0
}

venv() {
  if [ ! -x $python ]; then
    local base
    for base in python3 python3.13 python3.12 python3.11; do
      "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    done || stop "Python 3.11 or later is missing: https://www.python.org"
    step "venv: creating .venv with $("$base" --version)"
    "$base" -m venv .venv || stop "python -m venv failed (Debian and Ubuntu: apt install python3-venv)"
  fi
  if fresh .venv/.installed python/requirements.txt; then
    step "venv: up to date"
    return
  fi
  step "venv: installing python/requirements.txt (the first time: PyTorch, 2-3 GB)"
  [ -x $uv ] || $python -m pip install -q --disable-pip-version-check "$(grep '^uv==' python/requirements.txt)"
  $uv pip install -q -p $python -r python/requirements.txt
  touch .venv/.installed
}

lib() {
  need go "Go 1.26 or later, https://go.dev/dl"
  need "${CC:-cc}" "a C compiler (Debian and Ubuntu: apt install build-essential)"
  venv
  step "lib: building build/libisobit.so.1 and build/_C.abi3.so"
  $python python/build_native.py
  if ! fresh .venv/.linked pyproject.toml; then
    step "lib: installing isobit into .venv, editable"
    $uv pip install -q -p $python --no-deps --no-build-isolation -e .
    touch .venv/.linked
  fi
}

demo() {
  lib
  step "demo: examples/digits"
  $python examples/digits/run.py "$@"
}

# The sources that clang-format and ruff look at: those that git knows or would take.
sources() { git ls-files --cached --others --exclude-standard -- "$@"; }
c_sources() { sources '*.c' '*.h' '*.hpp' '*.cpp' '*.cu' '*.cuh'; }

# Runs a command with what Go needs for -tags cuda; with ISOBIT_CUDA=0 it does not.
with_cuda() {
  [ "${ISOBIT_CUDA:-1}" != 0 ] || return 0
  local settings
  settings=$(PYTHON=$python sh cuda/setup.sh build/cuda) || stop "ISOBIT_CUDA=0 leaves CUDA out"
  (while IFS= read -r line; do export "${line?}"; done <<<"$settings" && "$@")
}

# Warns where a disk is nearly full: compilers, linkers and staticcheck then fail with words that do not say so.
room() {
  local folder free
  for folder; do
    free=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge 4096 ] || step "warning: $folder has $free MiB left, and a first run of all tests writes about 4 GiB"
  done
}

# Runs functions side by side, since many tests keep one core busy. What they
# print appears when all are over.
together() {
  local name pid pids=() failed=
  mkdir -p build/log
  trap 'kill 0' INT # which does not reach what runs in the background
  for name; do
    "$name" >"build/log/$name" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=yes; done
  trap - INT
  for name; do cat "build/log/$name"; done
  [ -z "$failed" ] || stop "a test failed (above)"
}

# Folders that are Go modules of their own, so that users do not get their dependencies.
inner_modules() { sources '*/go.mod' | xargs -r dirname; }

go_checks() {
  step "check: gofmt"
  local unformatted
  unformatted=$(sources '*.go' | xargs gofmt -l)
  [ -z "$unformatted" ] || stop "run ./build.sh format for: $unformatted"
  step "check: go vet (for other targets: tests/targets_test.go)"
  go vet ./...
  step "check: staticcheck"
  go run $staticcheck ./...
  step "check: go vet, staticcheck with CUDA, where files ask for it"
  local packages
  mapfile -t packages < <(sources '*.go' | xargs grep -l '^//go:build .*\bcuda\b' | xargs dirname | sort -u | sed 's|^|./|')
  with_cuda go vet -tags cuda "${packages[@]}"
  with_cuda go run $staticcheck -tags cuda "${packages[@]}"
  local module
  for module in $(inner_modules); do
    step "check: go vet, staticcheck in $module"
    (cd "$module" && go vet ./... && go run $staticcheck ./...)
  done
}

other_checks() {
  step "check: ruff"
  .venv/bin/ruff check -q .
  .venv/bin/ruff format -q --check . || stop "run ./build.sh format"
  step "check: mypy"
  .venv/bin/mypy
  step "check: clang-format"
  c_sources | xargs -r .venv/bin/clang-format --dry-run -Werror || stop "run ./build.sh format"
}

# Go stops a package's tests after 10 minutes; on a slow machine, beside what else runs, some need more.
patient=-timeout=30m

go_tests() {
  step "test: go, with cgo, and the C and C++ consumers"
  ISOBIT_BUILD_DIR=$PWD/build go test -vet=off $patient ./...
  step "test: go, CUDA's driver (one that runs kernels on the CPU stands in)"
  with_cuda go test -vet=off $patient -tags cuda ./cuda ./tests -run 'CUDA|Symbols|Handles|Arguments' -skip 'CUDA(Mutants|Random|Kernels|Bounds|Offsets)'
  local module
  for module in $(inner_modules); do
    step "test: go, in $module"
    (cd "$module" && go test -vet=off $patient ./...)
  done
}

# Tests of other builds. Each waits for one package at a time.
go_variants() {
  step "test: go, every pointer checked that is made (tensors lie in Go's heap; all values of a type, and what takes long: above)"
  go test -vet=off $patient -short -tags heap -gcflags="$(go list -m)/...=-d=checkptr" -skip 'Every|AllHalves|BesideTies' ./tensor ./cpu ./plans ./capi ./internal/testcase ./autodiff/...
  step "test: go, races (under whose detector pools forget, so that runs allocate; what one goroutine computes: above)"
  go test -vet=off $patient -race -short ./plans -run 'Threads|Parallel|Concurrent|Panic|Edges|Empty|Compact|CopiedGradients' -skip Exhaustive
  go test -vet=off $patient -race ./autodiff -skip 'SampleTwice|SecondDerivatives|CatOfManyInputs|PlansOfManyShapes|DeepGraph'
}

python_tests() {
  # Compiled modules are kept even where the environment says otherwise: each process would compile all of PyTorch's again.
  export PYTHONDONTWRITEBYTECODE='' PYTHONPYCACHEPREFIX=$PWD/build/pycache
  # Inductor takes the instruction sets that the processor names, without a C++ program that tries each.
  export TORCHINDUCTOR_VEC_ISA_OK=1
  # Threads that wait sleep: beside Go's tests their spinning takes a tenth of the time.
  export OMP_WAIT_POLICY=PASSIVE
  step "test: python"
  $python -m pytest tests/python tests/reference examples
  local rows
  for rows in go avx2; do
    step "test: python, with ISOBIT_ROWS=$rows"
    ISOBIT_ROWS=$rows $python -m pytest tests/python/test_{values,embedding,grid_sample,gradients}.py
  done
}

tests() {
  lib
  room . "${TMPDIR:-/tmp}" "$(go env GOCACHE)"
  step "check: everything that needs no test (what is printed: below, when all is over)"
  together go_checks other_checks # these vet; the tests need not
  step "test: go and python, side by side (what they print: below, when all are over)"
  together go_tests go_variants python_tests
  step "test: everything passed"
}

wheel() {
  venv
  step "wheel: building dist/"
  ISOBIT_PORTABLE=1 ISOBIT_CUDA=${ISOBIT_CUDA:-1} $uv build --wheel -o dist -p $python
  ls dist/*.whl
}

# Runs a script that one part of the project keeps for itself.
part() {
  local script=$1
  shift
  [ -e "$script" ] || stop "$script does not exist in this tree"
  case $script in
  *.py) $python "$script" "$@" ;;
  *) bash "$script" "$@" ;;
  esac
}

format() {
  venv
  step "format: gofmt, ruff, clang-format"
  sources '*.go' | xargs gofmt -w
  .venv/bin/ruff check -q --fix --exit-zero .
  .venv/bin/ruff format -q .
  c_sources | xargs -r .venv/bin/clang-format -i
}

gen() {
  step "gen: go generate"
  go generate ./...
}

clean() {
  step "clean: removing build/, dist/ and the links in python/isobit/"
  rm -rf build dist python/isobit/lib python/isobit/include python/isobit/_C.abi3.so .venv/.linked
}

usage() { sed -n '2,/^# Needs/s/^# \{0,1\}//p' build.sh; }

verb=${1:-help}
[ $# -eq 0 ] || shift
case $verb in
demo) demo "$@" ;;
test) tests ;;
lib) lib ;;
wheel) wheel ;;
bench) lib; part bench/run.py "$@" ;;
format) format ;;
gen) gen ;;
ptx) venv; part cuda/ptx.sh "$@" ;;
emulate) part tests/emulate.sh "$@" ;;
gpu-check) [ -e build/libisobit.so.1 ] || lib; part cuda/gpu-check.sh "$@" ;;
clean) clean ;;
help) usage ;;
*)
  usage >&2
  stop "no such command: $verb"
  ;;
esac
