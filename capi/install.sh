#!/bin/sh
# capi/install.sh PREFIX [LIBRARY]: what programs in C and C++ need, without Python:
# PREFIX/lib and PREFIX/include, for -lisobit, pkg-config and CMake's find_package.
# LIBRARY is one that was built before; otherwise capi/build.sh builds it, and takes
# its variables from the environment.
set -eu
[ $# = 1 ] || [ $# = 2 ] || { echo "usage: sh capi/install.sh PREFIX [LIBRARY]" >&2; exit 2; }
capi=$(dirname "$0")
lib=$1/lib include=$1/include
mkdir -p "$lib/pkgconfig" "$lib/cmake/isobit" "$include"
if [ $# = 2 ]; then
  install -m 755 "$2" "$lib/libisobit.so.1" # in place of the old one, which a process may have loaded
else
  sh "$capi/build.sh" "$lib/libisobit.so.1"
fi
ln -sf libisobit.so.1 "$lib/libisobit.so"
install -m 644 "$capi/../include/isobit.h" "$capi/../include/isobit.hpp" "$include"
install -m 644 "$capi"/package/*.cmake "$lib/cmake/isobit"
version=$(sed -n 's/^#define ISOBIT_VERSION "\(.*\)"$/\1/p' "$include/isobit.h")
sed "s/@VERSION@/$version/" "$capi/package/isobit.pc.in" >"$lib/pkgconfig/isobit.pc"
