# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# What make install leaves behind, and programs built with it, by hand, with
# pkg-config and with CMake.
. "$(dirname "$0")/lib.bash"

stage=$WORK/stage
is "make install" make -s --no-print-directory -C "$ROOT" install BUILD="$BUILD" MPICC="$MPICC" \
    DESTDIR="$stage" PREFIX=/opt/scr
# Not where it was made for: what is installed knows no paths of its own.
tree=$WORK/moved
is "it can be moved" mv "$stage/opt/scr" "$tree"

functions=$(grep -o '^[a-z].*SCR_[A-Z][A-Za-z_]*(' "$BUILD/scr.h" | grep -o 'SCR_[A-Za-z_]*' | sort -u)
is "what is installed" same "$({
    "$BUILD/scr" links | xargs printf 'bin/%s\n' scr
    printf 'include/%s\n' scr.h scr.mod scrf.h
    printf 'lib/%s\n' cmake/scr/scrConfig.cmake cmake/scr/scrConfigVersion.cmake libscr.so libscrf.so \
        pkgconfig/scr.pc pkgconfig/scrf.pc python/scr.py
    echo share/goscr/scr.f90
    printf 'share/goscr/scripts/scr_%s.sh\n' {srun,mpirun,flux,jsrun,aprun}{,_loop}
} | LC_ALL=C sort)" "$(cd "$tree" && find bin include lib share/goscr ! -type d | LC_ALL=C sort)"
is "nothing in it names where it was built" bash -c '! grep -rlF -e "$1" -e /opt/scr "$2/lib/cmake" "$2/lib/pkgconfig" "$2/lib/python" "$2/include"' \
    - "$BUILD" "$tree"

# ------------------------------------------------------------------ man pages

is "a man page for each call, and for nothing else" same "$functions" \
    "$(cd "$tree/share/man/man3" && printf '%s\n' *.3 | sed 's/\.3$//' | sort)"
for name in $functions; do
    file=$tree/share/man/man3/$name.3
    is "$name(3) without a fault" bash -c 'out=$(mandoc -T lint -W warning "$1" 2>&1) && [ -z "$out" ] || { echo "$out"; false; }' - "$file"
    # In one line, as what the header says and what the page says.
    declared=$(tr '\n' ' ' <"$BUILD/scr.h" | grep -oE "[a-z][a-z ]*\*? ?$name\([^)]*\)" | tail -n 1)
    shown=$(mandoc -T ascii -O width=200 "$file" | sed 's/.\x08//g' | sed -n '/^SYNOPSIS/,/;/p' | sed '1d; /#include/d' | tr -s '\n ' ' ' | tr -d ';')
    is "... with the declaration of scr.h" same "$(tr -d ' ' <<<"$declared")" "$(tr -d ' ' <<<"$shown")"
    [ "$name" = SCR_Configf ] || is "... and the call of scrf.h" same \
        "$(grep -i "call $name(" "$BUILD/scrf.h" | sed 's/^! *//')" "$(grep -i "^call $name(" "$file")"
done
if command -v groff >/dev/null; then
    is "groff has no complaints" bash -c 'out=$(for f in "$1"/*.3; do groff -ww -mandoc -Tutf8 -z "$f" 2>&1; done); [ -z "$out" ] || { echo "$out"; false; }' \
        - "$tree/share/man/man3"
fi

# ------------------------------------------------------------------- programs

examples=$ROOT/examples
# Each link of a page that is not to the web leads to something.
leads() {
    local page link bad=0
    for page in "$tree"/share/doc/goscr/*.md "$tree"/share/doc/goscr/docs/*.md; do
        for link in $(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; /^http/d; s/#.*//; /^$/d'); do
            [ -e "${page%/*}/$link" ] || { echo "$page: $link"; bad=1; }
        done
    done
    return $bad
}
is "the links of the installed pages lead somewhere" leads
is "the examples are there" diff -r "$examples" "$tree/share/doc/goscr/examples" -x __pycache__
is "two nodes" "$TESTBED" up 2

# computes NAME PROGRAM...: a run with a checkpoint in it comes to its result,
# which is that of the other programs.
computes() {
    local dir=$WORK/run.$1
    shift
    "$TESTBED" wipe
    mkdir -p "$dir"
    (cd "$dir" && exec "$TESTBED" run -n 2 --per-node 1 --mpi "$MPI" --timeout 60 --env SCR_PREFIX="$dir" "${env[@]}" -- \
        "$@" -x 9 -y 9 -s 20 -c 10 -o "$dir/field") >"$dir/out" 2>&1 </dev/null || { cat "$dir/out"; return 1; }
    grep -q '^checkpoint heat.10 complete' "$dir/out" || { cat "$dir/out"; return 1; }
    [ -e "$WORK/field" ] || cp "$dir/field" "$WORK/field"
    cmp "$WORK/field" "$dir/field"
}
env=()

by_hand=(-I"$tree/include" -L"$tree/lib" "-Wl,-rpath,$tree/lib")
is "C, by hand" "$MPICC" -o "$WORK/heat" "$examples/heat/heat.c" "${by_hand[@]}" -lscr -lm
is "... runs" computes hand "$WORK/heat"
# Fortran of another compiler than ours, as it were: with the source of the module.
mkdir "$WORK/mod"
is "Fortran, by hand, with the module's source" "mpifort.$MPI" -J"$WORK/mod" -o "$WORK/heat-f" "$tree/share/goscr/scr.f90" \
    "$examples/heat-fortran/heat.f90" -L"$tree/lib" -lscrf "-Wl,-rpath,$tree/lib"
is "... runs" computes source "$WORK/heat-f"

env=(--env PYTHONPATH="$tree/lib/python" --env PYTHONDONTWRITEBYTECODE=1)
is "Python runs" computes python python3 "$tree/share/doc/goscr/examples/heat-python/heat.py"
env=()

# pkg-config ---------------------------------------------------------------

export PKG_CONFIG_PATH=$tree/lib/pkgconfig
version=$(sed -n 's/^#define SCR_VERSION "v\(.*\)"/\1/p' "$BUILD/scr.h")
for name in scr scrf; do
    is "$name.pc is well-formed" pkg-config --validate $name
    is "... of the version of scr.h" same "$version" "$(pkg-config --modversion $name)"
done
flags() { pkg-config --cflags --libs "$1"; }
# shellcheck disable=SC2046
{
    is "C, with pkg-config" "$MPICC" -o "$WORK/heat-pc" "$examples/heat/heat.c" $(flags scr) -lm
    is "C++, with pkg-config" "mpicxx.$MPI" -std=c++11 -o "$WORK/heat-pc-cpp" "$examples/heat-cpp/heat.cpp" $(flags scr)
    is "Fortran, with pkg-config" "mpifort.$MPI" -J"$WORK/mod" -o "$WORK/heat-pc-f" "$examples/heat-fortran/heat.f90" $(flags scrf)
}
env=(--env LD_LIBRARY_PATH="$tree/lib")
for name in heat-pc heat-pc-cpp heat-pc-f; do
    is "... $name runs" computes $name "$WORK/$name"
done
env=()

# What docs/bindings.md shows, as it stands there.
block() { # LANGUAGE: the first example in it
    awk -v begin="\`\`\`$1" '$0 == begin { on = 1; next } on && $0 == "```" { exit } on' "$ROOT/docs/bindings.md"
}
block c >"$WORK/app.c"
block fortran >"$WORK/app.f90"
block python >"$WORK/app.py"
# shellcheck disable=SC2046
{
    is "the example in C builds" "$MPICC" -std=c99 -Wall -Werror -o "$WORK/app-c" "$WORK/app.c" $(flags scr)
    is "... and in C++" "mpicxx.$MPI" -x c++ -o "$WORK/app-cpp" "$WORK/app.c" -x none $(flags scr)
    is "... and in Fortran" "mpifort.$MPI" -Wall -Werror -J"$WORK/mod" -I"$tree/include" -o "$WORK/app-f" "$WORK/app.f90" $(flags scrf)
}
writes() { # NAME PROGRAM...: the checkpoint, found in the prefix directory at the end
    local dir=$WORK/writes.$1
    shift
    "$TESTBED" wipe
    mkdir "$dir"
    (cd "$dir" && exec "$TESTBED" run -n 2 --per-node 1 --mpi "$MPI" --timeout 60 --env SCR_PREFIX="$dir" \
        --env LD_LIBRARY_PATH="$tree/lib" --env PYTHONPATH="$tree/lib/python" --env PYTHONDONTWRITEBYTECODE=1 -- "$@") \
        >"$dir/out" 2>&1 </dev/null || { cat "$dir/out"; return 1; }
    same "state of rank 0 state of rank 1" "$(cat "$dir"/ckpt.1/rank_* | paste -sd ' ')" || { cat "$dir/out"; return 1; }
}
for name in c cpp f; do
    is "... app-$name writes a checkpoint" writes $name "$WORK/app-$name"
done
is "the example in Python writes a checkpoint" writes py python3 "$WORK/app.py"

# A library for one MPI in a program for another ------------------------------

case $MPI in openmpi) other=mpich ;; *) other=openmpi ;; esac
if command -v "mpicc.$other" "mpirun.$other" >/dev/null; then
    # Its SCR_Init has to fail, and say why, where the MPI's calls would crash.
    is "a program for $other links with it" "mpicc.$other" -o "$WORK/app-$other" "$WORK/app.c" "${by_hand[@]}" -lscr
    # To a file, past the launcher: MPICH's may lose what a program says before it aborts.
    stranger() {
        ! "$TESTBED" run -n 2 --mpi "$other" --timeout 60 --env SCR_PREFIX="$WORK" -- \
            sh -c 'exec "$1" 2>"$2.$$"' - "$WORK/app-$other" "$WORK/stranger" >"$WORK/stranger" 2>&1 &&
            grep -h "SCR_Init: the program's MPI is .*, and goscr was built for another" "$WORK"/stranger.* ||
            { cat "$WORK"/stranger*; false; }
    }
    is "... and is told that it is for another MPI" stranger
    alone() { # a mistake of which only MPI could say more than that it is one
        "$TESTBED" wipe
        mkdir "$WORK/alone"
        "$TESTBED" run -n 2 --per-node 1 --mpi "$other" --timeout 60 --env SCR_PREFIX="$WORK/alone" --env LD_LIBRARY_PATH="$tree/lib" \
            -- "$WORK/app-c" >"$WORK/alone.out" 2>&1
        same 1 "$(grep -c 'SCR_Init: the launcher has started 2 processes' "$WORK/alone.out")" || { cat "$WORK/alone.out"; false; }
    }
    is "the launcher of $other with a program for $MPI" alone
fi

# CMake --------------------------------------------------------------------

cat >"$WORK/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(heat C CXX Fortran)
find_package(scr 3.1 REQUIRED CONFIG)
find_package(scr REQUIRED CONFIG) # once more, as by a library that the program uses
add_executable(heat-c $examples/heat/heat.c)
target_link_libraries(heat-c scr::scr m)
add_executable(heat-cpp $examples/heat-cpp/heat.cpp)
target_compile_features(heat-cpp PRIVATE cxx_std_11)
target_link_libraries(heat-cpp scr::scr)
add_executable(heat-f $examples/heat-fortran/heat.f90)
target_link_libraries(heat-f scr::scrf)
END
configure() { # DIRECTORY OPTION...
    CC=$MPICC CXX=mpicxx.$MPI FC=mpifort.$MPI cmake -S "$WORK" -B "$@"
}
is "CMake finds it" configure "$WORK/cmake" -DCMAKE_PREFIX_PATH="$tree"
is "... and builds with it" cmake --build "$WORK/cmake"
for name in heat-c heat-cpp heat-f; do
    is "... $name runs" computes "cmake-$name" "$WORK/cmake/$name"
done
for wrong in 2.0 3.2 4.0; do
    sed -i "s/find_package(scr [0-9.]* /find_package(scr $wrong /" "$WORK/CMakeLists.txt"
    is "CMake refuses it to who needs version $wrong" grep "requested version \"$wrong\"" <(configure "$WORK/cmake.$wrong" -DCMAKE_PREFIX_PATH="$tree" 2>&1)
done
sed -i "s/find_package(scr [0-9.]* /find_package(scr 3.0 /" "$WORK/CMakeLists.txt"
rm "$tree/lib/libscrf.so"
is "CMake says what is missing" grep "libscrf.so is missing" <(configure "$WORK/cmake.missing" -DCMAKE_PREFIX_PATH="$tree" 2>&1)
