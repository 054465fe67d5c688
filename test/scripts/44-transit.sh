# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2054
# Test: both MPIs, 60 s
#
# Programs that only have the three functions, and are saved within a call of MPI: each message is received once.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
is "transit.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$here/transit.c" -o "$WORK/transit" -rdynamic -L"$BUILD" \
    -lscr_cr -lscr -lpthread -Wl,-rpath,"$BUILD"

is "onethread.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -shared -fPIC "$here/onethread.c" -o "$WORK/onethread.so"

prefix=$WORK/prefix
ranks=3
"$TESTBED" up "$ranks"
checks=0
run() { # THREAD KIND; a THREAD of MPI: one for one thread
    local vars=(--env SCR_CR_THREAD="$1")
    [ "$1" != MPI ] || vars=(--env SCR_CR_THREAD=0 --env LD_PRELOAD="$WORK/onethread.so")
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout "$(scaled 60)" -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR \
        --env SCR_CHECK_IN_FLIGHT="$checks" "${vars[@]}" --env SCR_CR_LIMIT_SECONDS=50 --env MARK="$WORK/mark" -- "$WORK/transit" "$2") \
        </dev/null >"$WORK/out" 2>"$WORK/err"
}
begun() { # JOB: it has begun, or has ended
    grep -q "the program has begun" "$WORK/err" || ! kill -0 "$1" 2>/dev/null
}
saved() { # THREAD KIND [TEXT]: while the program runs, which ends then; TEXT: why a request before fails, until MARK is there
    local job failed=0 text=${3-}
    "$TESTBED" wipe
    rm -rf "$prefix" "$WORK/mark" && mkdir "$prefix"
    : >"$WORK/err"
    run "$1" "$2" &
    job=$!
    within 300 begun $job
    if [ -n "$text" ]; then
        ! timeout 400 "$BUILD/scr" checkpoint -p "$prefix" >"$WORK/asked" 2>&1 && grep -- "$text" "$WORK/asked" || failed=1
        touch "$WORK/mark"
    fi
    [ $failed = 1 ] || timeout 400 "$BUILD/scr" checkpoint --term -p "$prefix" >"$WORK/asked" 2>&1 || failed=1
    wait $job
    [ $failed = 0 ] || { cat "$WORK/asked" "$WORK/out" "$WORK/err"; return 1; }
}
refused() { # THREAD KIND TEXT: a request fails, because of TEXT, and the program ends then
    local job failed=0
    "$TESTBED" wipe
    rm -rf "$prefix" "$WORK/mark" && mkdir "$prefix"
    : >"$WORK/err"
    run "$1" "$2" &
    job=$!
    within 300 begun $job
    ! timeout 400 "$BUILD/scr" checkpoint -p "$prefix" >"$WORK/asked" 2>&1 && grep -- "$3" "$WORK/asked" || failed=1
    touch "$WORK/mark"
    wait $job
    [ $failed = 0 ] || { cat "$WORK/asked" "$WORK/out" "$WORK/err"; return 1; }
}
goes_on() { # THREAD KIND
    run "$@"
    same "$(printf '%s\n' "0 ends right" "1 ends right" "2 ends right")" "$(sort "$WORK/out")" || { cat "$WORK/err"; return 1; }
}
# In a call of the program's thread, where MPI may be for that thread only; and beside it, where a program that begins collective operations has to bring its ranks together itself.
for thread in 0 1 MPI; do
    kinds=(send ssend sendrecv recv irecv inc bcast make)
    [ $thread != 1 ] || kinds=(ring send ssend inside inc)
    for kind in $(divided "${kinds[@]}"); do
        is "SCR_CR_THREAD=$thread, $kind: the program is saved" saved $thread "$kind"
        is "... and continues, with each message once" goes_on $thread "$kind"
    done
    is "SCR_CR_THREAD=$thread: a program with a window is not saved until it has freed it" saved $thread window "made a window by MPI_Win_create"
    is "... and continues" goes_on $thread window
done
is "SCR_CR_THREAD=1: ranks at different collective operations are not saved" saved 1 apart "rank [12] has begun fewer collective operations.*SCR_CR_THREAD=0"
is "... until they are at the same" goes_on 1 apart
checks=1
is "SCR_CHECK_IN_FLIGHT=1 names the messages of a checkpoint for which the program does not call" saved 1 ring
is "..." grep "a request for a checkpoint: in transit, and not received by rank 1: 5 of rank 0 over MPI_COMM_WORLD (5 with tag 5)" "$WORK/err"
if [ "$MPI" = mpich ]; then # it has MPI 4
    is "after a call whose messages are not counted a program is not saved" refused 0 large "rank 0.*the program has called MPI_Sendrecv_c"
    is "... beside it, either" refused 1 large "rank 0.*the program has called MPI_Sendrecv_c"
fi
"$TESTBED" down
