#!/usr/bin/env bash
# Runs cuda/check/gpu_check.py on a machine with Python, torch and a GPU,
# from build/libisobit.so.1 and build/_C.abi3.so as ./build.sh lib left them.
#
#   cuda/gpu-check.sh [OUT.json] [--device cuda:0] [--only values,times] [--match TEXT] [--jobs 12]
# PYTHON names the Python to use.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build/gpu-check.json
case ${1:--} in -*) ;; *) out=$1 && shift ;; esac
python=${PYTHON:-python3}
[ -n "${PYTHON:-}" ] || [ ! -x .venv/bin/python ] || python=.venv/bin/python
for file in build/libisobit.so.1 build/_C.abi3.so; do
  [ -e "$file" ] || { echo "gpu-check: $file is missing: ./build.sh lib makes it, on any machine of this kind" >&2; exit 1; }
done
# The package as a wheel has it, whatever links the checkout has.
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
mkdir -p "$package/isobit/lib"
(cd python/isobit && find . -name '*.py' -exec cp --parents {} "$package/isobit/" \;)
cp build/_C.abi3.so "$package/isobit/"
cp build/libisobit.so.1 "$package/isobit/lib/"
PYTHONPATH=$package:$PWD/cuda/check${PYTHONPATH:+:$PYTHONPATH} "$python" -P -m gpu_check cuda/cases.txt "$out" "$@"
