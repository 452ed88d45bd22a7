#!/bin/sh
# capi/build.sh OUTPUT: builds the shared library. The one place that knows how;
# build.sh, the Python package and the tests call it. It takes GO (default go),
# CC and Go's other variables from the environment, and
#   ISOBIT_CUDA  0 builds without CUDA, 1 fails where it cannot be had; by default
#                a machine that cannot get CUDA's headers builds without, and says so
#   PYTHON       which fetches those headers (default python3)
set -eu
out=$1
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"
here=$PWD
stop() { printf 'capi/build.sh: %s\n' "$*" >&2; exit 1; }
go=${GO:-go}
command -v "$go" >/dev/null || stop "Go 1.26 or later is missing: https://go.dev/dl"
os=$("$go" env GOOS)
[ "$os" = linux ] || stop "the C library is for Linux; this is $os"
case $here in
*[[:space:]\'\"]*) # which would end a flag for the linker: a link to the folder has none
  links=$(mktemp -d)
  trap 'rm -rf "$links"' EXIT
  trap 'exit 1' HUP INT TERM # not every shell ends by the line above otherwise
  ln -s "${here%/*}" "$links/isobit"
  cd "$links/isobit/capi"
  here=$PWD
  ;;
esac

tags=
cuda=${ISOBIT_CUDA:-auto}
if [ "$cuda" != 0 ] && [ "$(uname -s)" = Linux ]; then
  # cuda.h, once, and an empty libcuda.a; the driver is opened at run time.
  if settings=$(sh ../cuda/setup.sh ../build/cuda); then
    CGO_CFLAGS=$(printf '%s\n' "$settings" | sed -n 's/^CGO_CFLAGS=//p')
    CGO_LDFLAGS=$(printf '%s\n' "$settings" | sed -n 's/^CGO_LDFLAGS=//p')
    export CGO_CFLAGS CGO_LDFLAGS
    # gorgonia.org/cu names folders of the system that zig must not see.
    [ -z "${CC:-}" ] || { CC="sh $here/../cuda/cc.sh $CC"; export CC; }
    tags=cuda
  elif [ "$cuda" = 1 ]; then
    stop "CUDA's headers are missing (above); ISOBIT_CUDA=0 builds without"
  else
    echo "capi/build.sh: WARNING: CUDA's headers are missing (above): this library is built WITHOUT CUDA" >&2
  fi
fi
# -s -w: no debug sections.
CGO_ENABLED=1 "$go" build -tags "$tags" -buildmode=c-shared -trimpath \
  -ldflags "-s -w -extldflags '-Wl,-soname,libisobit.so.1 -Wl,--version-script=$here/isobit.map'" \
  -o "$out.new" .
# cgo writes a header of its own beside it; the library's is include/isobit.h.
rm -f "$out.h"
# Moved, not written over: a process that has the old one loaded keeps it.
mv -f "$out.new" "$out"
