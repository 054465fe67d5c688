# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 15 s
#
# Programs that are started by the mpirun of another MPI, or that have not initialized MPI: SCR_Init
# refuses them with one line for all processes. Programs for which a world of one rank is right are not refused.
. "$(dirname "$0")/lib.bash"

is "launched.c builds" "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$BUILD" -o "$WORK/launched" \
    "$ROOT/test/scripts/launched.c" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "two nodes" "$TESTBED" up 2 8
prefix=$WORK/prefix
# started RANKS MPI COMMAND...: leaves the status in $status, and what is printed in $WORK/out
started() {
    local ranks=$1 mpi=$2
    shift 2
    rm -rf "$prefix" && mkdir "$prefix" && "$TESTBED" wipe
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$mpi" --timeout 120 --env SCR_PREFIX="$prefix" -- "$@") >"$WORK/out" 2>&1 </dev/null &
    until seen "$ranks" || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
    : >"$prefix/seen"
    wait $!
    status=$?
}
seen() { # RANKS: so many have been refused, and the library has said why
    [ "$(grep -o refused: "$WORK/out" | wc -l)" -ge "$1" ] && grep -q '^SCR: ' "$WORK/out"
}
says() { # STATUS LINES TEXT: the status, and how many lines of the library have the text
    if [ "$status" != "$1" ] || [ "$(grep -c "^SCR: .*$3" "$WORK/out")" != "$2" ]; then echo "status $status"; cat "$WORK/out"; return 1; fi
}
begun() { # PROCESSES: so many have begun, without a warning. A launcher may put what two print into one line.
    if [ "$status" != 0 ] || [ "$(grep -o begun "$WORK/out" | wc -l)" != "$1" ] || grep '^SCR: .*launcher' "$WORK/out"; then
        echo "status $status"
        cat "$WORK/out"
        return 1
    fi
}

started 3 "$MPI" "$WORK/launched" early
is "MPI is not initialized: one line says what to call" says 3 1 'SCR_Init: MPI is not initialized, .* call MPI_Init or MPI_Init_thread'
started 2 "$MPI" "$WORK/launched"
is "its own launcher" begun 2
started 1 "$MPI" "$WORK/launched"
is "... with one process" begun 1
started 2 "$MPI" "$WORK/launched" comm
is "... and a job of one rank for each" begun 2
# What follows is outside of a node, with the /dev/shm of the machine.
export SCR_CNTL_BASE=$WORK/cntl SCR_CACHE_BASE=$WORK/cache
if [ "$MPI" = openmpi ]; then # Debian's MPICH cannot spawn
    TESTBED_OMPI_BTL=self,tcp started 2 "$MPI" "$WORK/launched" spawns # shared memory does not connect jobs
    is "... and a process that MPI_Comm_spawn has started" begun 1
fi
is "without a launcher" bash -c 'cd "$1" && "$2" >"$1/out" 2>&1 && grep -q "^begun" "$1/out" || { cat "$1/out"; false; }' - "$WORK" "$WORK/launched"
is "... as in a batch script of Slurm" bash -c 'cd "$1" && SLURM_NTASKS=4 SLURM_PROCID=0 "$2" >"$1/out" 2>&1 && grep -q "^begun" "$1/out" || { cat "$1/out"; false; }' - "$WORK" "$WORK/launched"

unset SCR_CNTL_BASE SCR_CACHE_BASE

declare -A others=([openmpi]=mpich [mpich]=openmpi)
other=${others[$MPI]}
command -v "mpirun.$other" >/dev/null || { echo "ok without mpirun.$other there is no wrong launcher here"; exit; }
started 3 "$other" "$WORK/launched"
is "the launcher of another MPI: one line says so, and what to do" says 3 1 'SCR_Init: the launcher has started 3 processes .* single rank: .* Start the program with the mpirun'
is "... no process has begun" bash -c '! grep "^begun" "$1"' - "$WORK/out"
started 3 "$other" "$WORK/launched" comm
is "... also with SCR_Init_comm" says 3 1 'SCR_Init_comm: the launcher has started 3 processes'
started 1 "$other" "$WORK/launched"
is "... which has started one process only" begun 1
variable=PMI_SIZE
[ "$other" = mpich ] || variable=OMPI_COMM_WORLD_SIZE
started 2 "$other" sh -c 'mkdir -p "dir.$$" && cd "dir.$$" && SCR_JOB_ID=$$ exec env -u SCR_PREFIX -u '$variable' "$1"' - "$WORK/launched"
is "... jobs of their own, as the line says" begun 2
