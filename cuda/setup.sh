#!/bin/sh
# cuda/setup.sh FOLDER: puts into FOLDER what a build with -tags cuda needs of
# CUDA, and prints the settings for Go as lines NAME=VALUE:
#   CGO_CFLAGS   where cuda.h is, from NVIDIA's package on PyPI
#   CGO_LDFLAGS  where an empty libcuda.a is, for the -lcuda of gorgonia.org/cu;
#                the library opens libcuda.so.1 when it is first used
# It takes PYTHON (default python3), with pip or uv.
set -eu
package=nvidia-cuda-runtime-cu12==12.0.107
python=${PYTHON:-python3}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
include=$folder/nvidia/cuda_runtime/include
if [ ! -e "$include/cuda.h" ]; then
  for installer in "$python -m pip install --disable-pip-version-check" "$python -m uv pip install --python $python" "uv pip install --python $python"; do
    if $installer -q --no-deps --target "$folder" "$package" >"$folder/log" 2>&1; then break; fi
  done
  [ -e "$include/cuda.h" ] || { cat "$folder/log" >&2; echo "cuda/setup.sh: cannot install $package" >&2; exit 1; }
fi
[ -e "$folder/libcuda.a" ] || printf '!<arch>\n' >"$folder/libcuda.a"
# These replace Go's own -g -O2.
echo "CGO_CFLAGS=-O2 -I$include"
echo "CGO_LDFLAGS=-O2 -L$folder"
