#!/bin/sh
# cuda/setup.sh FOLDER: puts into FOLDER what a build with -tags cuda needs of
# CUDA, unless it is there, and prints the settings for Go as lines NAME=VALUE:
#   CGO_CFLAGS   where cuda.h is, from NVIDIA's package on PyPI
#   CGO_LDFLAGS  where an empty libcuda.a is, for the -lcuda of gorgonia.org/cu;
#                the library opens libcuda.so.1 when it is first used
# It takes PYTHON (default python3) with pip, uv, or the package itself.
set -eu
package=nvidia-cuda-runtime-cu12==12.0.107
python=${PYTHON:-python3}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
headers=$folder/${package##*==}
include=$headers/nvidia/cuda_runtime/include

# The package that this Python has, if it is of that version: a wheel's build environment does.
installed() {
  "$python" -c '
import sys
from importlib.metadata import distribution
name, version = sys.argv[1].split("==")
found = distribution(name)
found.version == version or sys.exit(1)
print(found.locate_file("nvidia/cuda_runtime/include"))' "$package" 2>/dev/null
}

# Headers are the same for every processor, and not every release is made for every one.
download() {
  new=$headers.$$ # another build may do the same
  uv_for="--python-platform x86_64-unknown-linux-gnu --python"
  # shellcheck disable=SC2086 # these are several words
  if try "$python" -m pip install --disable-pip-version-check --retries 2 --platform manylinux1_x86_64 ||
    try "${UV:-uv}" pip install $uv_for "$python" || try "$python" -m uv pip install $uv_for "$python"; then
    mv "$new" "$headers" 2>/dev/null || rm -rf "$new"
    return
  fi
  cat "$folder/log" >&2
  echo "cuda/setup.sh: cannot install $package" >&2
  exit 1
}

# Runs an installer.
try() {
  rm -rf "$new"
  "$@" -q --no-deps --only-binary=:all: --target "$new" "$package" >>"$folder/log" 2>&1
}

if [ ! -e "$include/cuda.h" ]; then
  : >"$folder/log"
  include=$(installed) || { include=$headers/nvidia/cuda_runtime/include && download; }
fi
case $include in
*[[:space:]]*) # of a Python whose path has blanks, which are between flags
  ln -sfn "$include" "$folder/include"
  include=$folder/include
  ;;
esac
[ -e "$folder/libcuda.a" ] || printf '!<arch>\n' >"$folder/libcuda.a"
# These replace Go's own -g -O2.
echo "CGO_CFLAGS=-O2 -I$include"
echo "CGO_LDFLAGS=-O2 -L$folder"
