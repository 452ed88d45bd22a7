#!/bin/sh
# capi/build.sh OUTPUT: builds the shared library. The one place that knows how;
# build.sh, the Python package and the tests call it. It takes GO (default go),
# CC and Go's other variables from the environment.
set -eu
out=$1
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"
here=$PWD
case $here in *[[:space:]\'\"]*) echo "capi/build.sh: no blanks or quotes in the path: $here" >&2; exit 1 ;; esac
# -s -w: no debug sections.
CGO_ENABLED=1 "${GO:-go}" build -buildmode=c-shared -trimpath \
  -ldflags "-s -w -extldflags '-Wl,-soname,libisobit.so.1 -Wl,--version-script=$here/isobit.map'" \
  -o "$out.new" .
# cgo writes a header of its own beside it; the library's is include/isobit.h.
rm -f "$out.h" "${out%.*}.h"
# Moved, not written over: a process that has the old one loaded keeps it.
mv -f "$out.new" "$out"
