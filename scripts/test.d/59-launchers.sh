# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 15 s
#
# Programs that have not initialized MPI: SCR_Init refuses them with one line for all processes.
. "$(dirname "$0")/lib.bash"

is "launched.c builds" "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$BUILD" -o "$WORK/launched" \
    "$ROOT/scripts/test.d/launched.c" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "two nodes" "$TESTBED" up 2 8
prefix=$WORK/prefix
# started RANKS MPI COMMAND...: leaves the status in $status, and what is printed in $WORK/out
started() {
    local ranks=$1 mpi=$2
    shift 2
    rm -rf "$prefix" && mkdir "$prefix" && "$TESTBED" wipe
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$mpi" --timeout 60 --env SCR_PREFIX="$prefix" -- "$@") >"$WORK/out" 2>&1 </dev/null
    status=$?
}
says() { # STATUS LINES TEXT: the status, and how many lines of the library have the text
    if [ "$status" != "$1" ] || [ "$(grep -c "^SCR: .*$3" "$WORK/out")" != "$2" ]; then echo "status $status"; cat "$WORK/out"; return 1; fi
}
started 3 "$MPI" "$WORK/launched" early
is "MPI is not initialized: one line says what to call" says 3 1 'SCR_Init: MPI is not initialized, .* call MPI_Init or MPI_Init_thread'
