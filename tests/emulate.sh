#!/usr/bin/env bash
# tests/emulate.sh [ARCH]... (default arm64; all: every one below): builds the
# tests that compare bits for another processor and runs them, mostly under
# qemu-user. On all of them the Go compiler fuses x*y + z where the source lets it,
# but on 386 and wasm; s390x is big-endian, 386 has 32 bits.
#
# What runs: the goldens; tensor and cpu; of plans what compares rows, views, sums
# and every value of a type; autodiff with digests of training that were taken on
# amd64. For arm64 the C library, too, with its C and C++ consumers. What measures
# time or memory is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

stop() { printf 'emulate: %s\n' "$*" >&2; exit 1; }
step() { printf '== %s\n' "$*"; }

# What Go calls a processor, and what qemu does.
declare -A qemu=([arm64]=aarch64 [riscv64]=riscv64 [ppc64le]=ppc64le [s390x]=s390x [loong64]=loongarch64)
# What this machine runs itself, or node: the settings for Go.
declare -A native=([386]="GOARCH=386" [amd64-v3]="GOARCH=amd64 GOAMD64=v3" [wasm]="GOOS=js GOARCH=wasm")
gnu=aarch64-linux-gnu

# Prints the program that runs another machine's.
emulator() {
  command -v "qemu-$1-static" || command -v "qemu-$1" ||
    stop "qemu-$1 is missing (Debian and Ubuntu: apt install qemu-user-static)"
}

# Runs what compares bits, with settings for Go, under a program if one is named.
compare() {
  local test=(env CGO_ENABLED=0 "${@:2}" go test -short -timeout 60m)
  [ -z "$1" ] || test+=(-exec "$1")
  "${test[@]}" ./tests -run '^TestGolden$'
  "${test[@]}" ./tensor ./cpu ./autodiff/internal/...
  "${test[@]}" ./autodiff -skip 'Allocate|Memory|Goroutines'
  "${test[@]}" ./plans -run 'Rows|Views|Every|Sums|Exact|Float8|Packed|Gradients|Strides|Absent|WeightOnly|Bag|Bicubic|Chosen|Named|Pairs'
}

# Builds the C library for arm64 and runs its consumers.
consumers() {
  local folder=$PWD/build/emulate/arm64
  mkdir -p "$folder"
  step "arm64: the C library"
  GOOS=linux GOARCH=arm64 CC=$gnu-gcc ISOBIT_CUDA=0 sh capi/build.sh "$folder/libisobit.so.1"
  ln -sf libisobit.so.1 "$folder/libisobit.so"
  go test -count=1 -exec "env 'ISOBIT_BUILD_DIR=$folder' CC=$gnu-gcc CXX=$gnu-g++ QEMU_LD_PREFIX=/usr/$gnu ISOBIT_EMULATOR=$1" \
    ./tests -run 'TestConsumers|TestReadmeCpp|TestDLPackHeader|TestEnvironment|TestLibraryFile' \
    -skip 'TestConsumers/c/overhead' # which measures
}

[ $# -gt 0 ] || set -- arm64
[ "$*" != all ] || set -- "${!qemu[@]}" "${!native[@]}"
for arch; do
  if [ -n "${qemu[$arch]:-}" ]; then
    program=$(emulator "${qemu[$arch]}")
    [ "$arch" != arm64 ] || command -v $gnu-g++ >/dev/null ||
      stop "$gnu-g++ is missing (Debian and Ubuntu: apt install g++-$gnu)"
    step "$arch, under $("$program" --version | head -1)"
    compare "$program" GOOS=linux "GOARCH=$arch"
    [ "$arch" != arm64 ] || consumers "$program"
  elif [ -n "${native[$arch]:-}" ]; then
    program=
    [ "$arch" = wasm ] || [ "$(uname -m)" = x86_64 ] || stop "$arch: this machine is no x86-64"
    if [ "$arch" = wasm ]; then
      command -v node >/dev/null || stop "node is missing (Debian and Ubuntu: apt install nodejs)"
      program=$(go env GOROOT)/lib/wasm/go_js_wasm_exec
    fi
    step "$arch"
    # shellcheck disable=SC2086 # these are several words
    compare "$program" ${native[$arch]}
  else
    stop "no such processor: $arch; want all, or some of ${!qemu[*]} ${!native[*]}"
  fi
done
step "the same bits: $*"
