#!/usr/bin/env bash
# Compiles kernels/*.cu to PTX and writes kernels.zip and kernels.sum. Needs
# neither a GPU nor a toolkit: the compiler, NVRTC, comes from PyPI into .venv/
# (build/ stays small, since it goes to machines with a GPU).
#
#   cuda/ptx.sh               compile
#   cuda/ptx.sh assemble [PART]   then assemble (kernels with PART in their names) for several
#                             GPUs, and list registers and spills
set -euo pipefail
shopt -s inherit_errexit # what was not fetched is not noted as done
cd "$(dirname "$0")/.."

# The oldest release with a compiler for every GPU from compute capability 7.5
# on: the older the PTX, the older the drivers that load it.
nvrtc=nvidia-cuda-nvrtc-cu12==12.0.76
nvcc=nvidia-cuda-nvcc-cu12==12.9.86 # for ptxas only
tools=.venv/cuda-tools

fetch() { # a package into a folder of its own
  local folder=$tools/${1//[^A-Za-z0-9.]/-}
  if [ ! -e "$folder/.done" ]; then
    mkdir -p "$folder"
    if [ -x .venv/bin/uv ]; then
      .venv/bin/uv pip install -q -p .venv/bin/python --no-deps --target "$folder" "$1"
    else
      .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$folder" "$1"
    fi
    touch "$folder/.done"
  fi
  echo "$folder"
}

# The compiler does not name registers alike twice: what is current stays as it is.
if .venv/bin/python -c 'import sys; sys.path.insert(0, "cuda"); import ptx
sys.exit(ptx.digest() != open("cuda/kernels.sum").read().strip())'; then
  [ "${1:-}" = assemble ] || { echo "cuda/kernels.zip is current"; exit; }
else
  .venv/bin/python cuda/ptx.py "$(fetch $nvrtc)/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" "$tools/ptx"
fi
if [ "${1:-}" = assemble ]; then
  .venv/bin/python cuda/ptx.py --assemble "$(fetch $nvcc)/nvidia/cuda_nvcc/bin/ptxas" "${2:-}"
fi
