# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 40 s
#
# Tests scripts/peers and scripts/compare without SCR: what they say about archives and arguments, and
# the tables, for which a second goscr is in the place of SCR.
. "$(dirname "$0")/lib.bash"

root=$(cd "$(dirname "$0")/../.." && pwd)
refused() { # TEXT COMMAND...: fails, and says so
    local text=$1
    shift
    ! "$@" >"$WORK/out" 2>&1 || { echo "succeeds"; return 1; }
    grep -q -- "$text" "$WORK/out" || { cat "$WORK/out"; return 1; }
}

mkdir "$WORK/archives"
is "peers needs a directory" refused 'usage: peers DIR' "$root/scripts/peers"
is "peers names the archives that are missing" refused '^    kvtree-VERSION.tar.gz$' "$root/scripts/peers" "$WORK/archives" "$WORK/built"
is "... those of all components" same 10 "$(grep -c -- '-VERSION.tar.gz$' "$WORK/out")"
touch "$WORK/archives/kvtree-1.5.0.tar.gz" "$WORK/archives/kvtree-doc.tar.gz" "$WORK/archives/axl-doc.tar.gz"
is "... without one that is there" refused '^    axl-VERSION.tar.gz$' "$root/scripts/peers" "$WORK/archives" "$WORK/built"
is "... only" same 9 "$(grep -c -- '-VERSION.tar.gz$' "$WORK/out")"
is "... and builds nothing" [ ! -e "$WORK/built" ]

# A build whose peer is the same library.
mkdir -p "$WORK/build" "$WORK/peers/lib"
cp "$BUILD/libscr.so" "$WORK/build/"
cp "$BUILD/libscr.so" "$WORK/peers/lib/"
compare() { BUILD=$WORK/build PEERS_BUILD=$WORK/peers ROUNDS=1 RANKS=2 SCHEMES=${schemes:-} "$root/scripts/compare" "$@"; }
is "compare wants the program" refused 'bench is missing; run make compare' compare
bench() { # DIRECTORY: bench, linked with the libscr.so there
    "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -I"$BUILD" -o "$2" "$root/scripts/bench.c" -Wl,--export-dynamic -L"$1" -lscr -ldl -lpthread -Wl,-rpath,"$1"
}
is "the program of compare builds" bench "$WORK/build" "$WORK/build/bench"
cp "$WORK/build/bench" "$WORK/peers/bench"
is "compare does not take goscr's own program for that of SCR" refused 'is not linked with SCR' compare
is "... also not beside it" bench "$WORK/peers/lib" "$WORK/peers/bench"
for arguments in 0 x '1 --' '1 -- 0' '1 -- 2 3' 1234567; do
    # shellcheck disable=SC2086
    is "compare refuses $arguments" refused 'usage: compare' compare $arguments
done
schemes=XOR
measured() { compare 1 -- 1 >"$WORK/tables"; }
is "compare measures both by turns" measured
# Each row has a figure of both.
figures() { grep -c -E "^$1 +[0-9.]+ \([0-9.]+ to [0-9.]+\) +[0-9.]+ \([0-9.]+ to [0-9.]+\)\$" "$WORK/tables"; }
for text in "XOR: the program's own write" "XOR: SCR_Init after 1 lost" SCR_Init SCR_Start_output SCR_Complete_output 'SCR_Init that restarts'; do
    is "the tables have: $text" same 1 "$(figures "$text")"
done
is "... and Complete, of four ranks" same 1 "$(figures '\.\.\. SCR_Complete_output')"
