#!/bin/sh
# cuda/cc.sh COMPILER ARG...: runs a C compiler without the system's folders
# that gorgonia.org/cu names in its flags. A compiler for an older system (zig)
# must not see those; every compiler knows its own. It is for CC:
#   CC="sh /path/cuda/cc.sh zig cc -target x86_64-linux-gnu.2.28"
count=$#
while [ "$count" -gt 0 ]; do
  count=$((count - 1))
  arg=$1
  shift
  case $arg in
  -I/usr/include | -L/usr/lib/x86_64-linux-gnu | -L/usr/lib/x86_64-linux-gnu/) ;;
  -I/usr/local/cuda* | -L/usr/local/cuda* | -I/opt/cuda* | -L/opt/cuda*) ;;
  *) set -- "$@" "$arg" ;;
  esac
done
exec "$@"
