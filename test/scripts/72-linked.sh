# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 40 s
#
# Programs that were linked with the libraries of SCR 3.1 run with goscr's, without being
# linked again.  Where 3.1 is not installed, libraries with the same sonames and names
# (linked/library.c) stand for its own while a program is linked, and are removed before
# it is run.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts/linked
old=$WORK/3.1
lib=$old/lib
mkdir -p "$lib" "$WORK/obj"
names() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort; }

is "libscr.so of 3.1" "$MPICC" -std=c99 -Wall -Wextra -Werror -shared -fPIC -I"$here" -Wl,-soname,libscr.so -o "$lib/libscr.so" "$here/library.c"
is "libscrf.so of 3.1, which has all of libscr.so" "$MPICC" -std=c99 -Wall -Wextra -Werror -DFORTRAN -shared -fPIC -I"$here" \
    -Wl,-soname,libscrf.so -o "$lib/libscrf.so" "$here/library.c"
for name in libscr.so libscrf.so; do
    is "$name has the soname of 3.1" same "$(readelf -d "$lib/$name" | grep -o 'SONAME.*')" "$(readelf -d "$BUILD/$name" | grep -o 'SONAME.*')"
    is "... and every name of 3.1's interface" same "" "$(comm -23 <(names "$lib/$name") <(names "$BUILD/$name"))"
    is "... without versions" bash -c '! nm -D --defined-only "$1" | grep @' - "$BUILD/$name"
done
is "3.1 has 18 calls in C and 16 in Fortran" same "18 34" "$(names "$lib/libscr.so" | grep -c '^[Ss][Cc][Rr]_') $(names "$lib/libscrf.so" | grep -c '^[Ss][Cc][Rr]_')"

# PROGRAM LANGUAGE LIBRARIES NEEDED: each as a program would be linked with 3.1
programs='c            c    -lscr         libscr.so
c-both       c    -lscr,-lscrf  libscr.so,libscrf.so
c-both-2     c    -lscrf,-lscr  libscrf.so,libscr.so
c-fortran    c    -lscrf        libscrf.so
cpp          cpp  -lscr         libscr.so
cpp-fortran  cpp  -lscrf        libscrf.so
f77          f77  -lscrf        libscrf.so
f77-both     f77  -lscrf,-lscr  libscrf.so,libscr.so
f90-and-c    f90  -lscrf        libscrf.so
f90-and-c-2  f90  -lscr,-lscrf  libscr.so,libscrf.so'
build() { # PROGRAM LANGUAGE DIRECTORY OPTION...: links with the libraries in a directory
    local program=$1 language=$2 lib=$3
    shift 3
    case $language in
    c)   "$MPICC" -std=c99 -I"$here" -o "$WORK/$program" "$here/program.c" -L"$lib" "$@" ;;
    cpp) "mpicxx.$MPI" -x c++ -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I"$here" -o "$WORK/$program" "$here/program.c" -x none -L"$lib" "$@" ;;
    f77) "mpifort.$MPI" -std=legacy -I"$here" -o "$WORK/$program" "$here/program.f" -L"$lib" "$@" ;;
    f90) "$MPICC" -std=c99 -DPART -I"$here" -c -o "$WORK/obj/$program.o" "$here/program.c" &&
            "mpifort.$MPI" -o "$WORK/$program" "$here/program.f90" "$WORK/obj/$program.o" -L"$lib" "$@" ;;
    esac
}
while read -r program language libraries needed; do
    # shellcheck disable=SC2086
    is "$program is linked with 3.1" build "$program" "$language" "$lib" -Wl,--no-as-needed ${libraries//,/ } -Wl,-rpath,"$lib"
    is "... and needs $needed" same "$needed" \
        "$(readelf -d "$WORK/$program" | sed -n 's/.*NEEDED.*\[\(libscrf\?\.so\)\]/\1/p' | paste -sd ,)"
done <<<"$programs"
is "a program that names the library's directory first of all" build rpath c "$lib" -lscr -Wl,--disable-new-dtags -Wl,-rpath,"$lib"
is "... has an RPATH" grep -q '(RPATH)' <(readelf -d "$WORK/rpath")
is "... so has one in Fortran" build rpath-f f77 "$lib" -lscrf -Wl,--disable-new-dtags -Wl,-rpath,"$lib"

is "two nodes" "$TESTBED" up 2 2
# twice NAME [VARIABLE=VALUE]... PROGRAM...: the second run restarts
twice() {
    local name=$1 time
    shift
    "$TESTBED" wipe
    mkdir "$WORK/prefix-$name"
    for time in first second; do
        (cd "$WORK/prefix-$name" && exec "$TESTBED" run -n 2 --per-node 1 --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$PWD" \
            -- env "$@") >"$WORK/out" 2>"$WORK/err" </dev/null || { echo "$time run:"; cat "$WORK/out" "$WORK/err"; return 1; }
        grep -qx end "$WORK/out" || { echo "$time run has no end:"; cat "$WORK/out" "$WORK/err"; return 1; }
    done
    grep -qx "restarted both" "$WORK/out" || { cat "$WORK/out" "$WORK/err"; return 1; }
}
# A copy: the build's own libraries could be found by other ways.
mkdir "$WORK/ours"
cp "$BUILD/libscr.so" "$BUILD/libscrf.so" "$WORK/ours/"
aborts() { ! twice "$@" && ! grep -x end "$WORK/out"; }
is "with 3.1 in its place it runs with that" aborts in-place "$WORK/c"
mv "$lib" "$WORK/obj/lib.3.1"
while read -r program _; do
    is "$program runs with goscr, all names resolved at its start" \
        twice "$program" LD_BIND_NOW=1 LD_LIBRARY_PATH="$WORK/ours" "$WORK/$program"
    is "... which ends with its output in the prefix directory" same "last 0" "$(cat "$WORK/prefix-$program/last/rank_0" | tr -s ' ')"
done <<<"$programs"
is "no library of 3.1 is needed, none is found elsewhere" bash -c '! LD_LIBRARY_PATH=$1 ldd "$2" | grep -e "not found" -e "$3"' \
    - "$WORK/ours" "$WORK/f90-and-c" "$lib"
mv "$WORK/obj/lib.3.1" "$lib"
is "LD_LIBRARY_PATH does not change where an RPATH leads" grep -q "$lib" <(LD_LIBRARY_PATH="$WORK/ours" ldd "$WORK/rpath")
is "... LD_PRELOAD does" twice preload LD_PRELOAD="$WORK/ours/libscr.so" "$WORK/rpath"
is "... also in Fortran" twice preload-f LD_PRELOAD="$WORK/ours/libscrf.so" "$WORK/rpath-f"
rm -r "$lib"

# Python: what finds libscr.so by its name finds ours; modules are in 70-bindings.
is "Python loads libscr.so by its name" env LD_LIBRARY_PATH="$WORK/ours" python3 -c '
import ctypes
lib = ctypes.CDLL("libscr.so")
lib.SCR_Get_version.restype = ctypes.c_char_p
assert lib.SCR_Get_version() == b"v3.1.0", lib.SCR_Get_version()
both = ctypes.CDLL("libscrf.so")
both.SCR_Get_version.restype = ctypes.c_char_p
assert both.SCR_Get_version() == b"v3.1.0" and both.scr_init_'

# A program is linked with goscr's in each way in which it is linked with 3.1.
while read -r program language libraries _; do
    # shellcheck disable=SC2086
    is "$program is linked with goscr" build "new-$program" "$language" "$BUILD" ${libraries//,/ } -Wl,-rpath,"$BUILD"
done <<<"$programs"
is "... and runs" twice new "$WORK/new-f90-and-c"
