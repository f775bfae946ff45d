#!/bin/sh
# Puts the stand-in together under the names that programs load: assemble.sh LIBSIMCUDA.so OUT_FOLDER
#
#   OUT_FOLDER/libcuda.so.1         the library itself (its SONAME says so: see build.rs)
#   OUT_FOLDER/libcuda.so           an empty library that needs libcuda.so.1: cudarc looks for this name first, and the
#   OUT_FOLDER/libnvidia-ml.so.1    loader finds a loaded library by its SONAME only, so a link would not do; likewise NVML
#
# Needs a C compiler (CC, else cc). Nothing is replaced until all three are made.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 LIBSIMCUDA.so OUT_FOLDER" >&2; exit 2; }
library=$1
out=$2
mkdir -p "$out"
work=$(mktemp -d "$out/.assemble.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$library" "$work/libcuda.so.1"
for name in libcuda.so libnvidia-ml.so.1; do
    # The origin is the linker's word, not the shell's.
    # shellcheck disable=SC2016
    "${CC:-cc}" -shared -nostdlib -x c /dev/null -x none -o "$work/$name" -Wl,-soname,"$name" \
        -Wl,--no-as-needed "$work/libcuda.so.1" -Wl,-rpath,'$ORIGIN'
done
mv -f "$work/libcuda.so.1" "$work/libcuda.so" "$work/libnvidia-ml.so.1" "$out/"
