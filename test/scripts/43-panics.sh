# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: both MPIs, 60 s
#
# A bug of the library on one rank, in any phase: every rank gets an error and continues.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
library=$WORK/faults
is "a library with faults" make --no-print-directory -C "$ROOT" BUILD="$library" MPICC="$MPICC" TAGS=mpi,faults "$library/libscr.so"
is "panics.c builds" "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$library" -o "$WORK/panics" \
    "$here/panics.c" -L"$library" -lscr -Wl,-rpath,"$library"
is "the library that is installed has none" bash -c '! grep -q GOSCR_FAULT "$1"' - "$BUILD/libscr.so"
is "... and this one has" grep -q GOSCR_FAULT "$library/libscr.so"

prefix=$WORK/prefix
"$TESTBED" up 2
job() { # FAULT [ARG]
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 300 -n 4 --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR \
        --env SCR_FLUSH=1 --env SCR_FETCH=1 --env SCR_CACHE_SIZE=1 "${vars[@]}" --env GOSCR_FAULT="$1" -- "$WORK/panics" "${@:2}") \
        </dev/null >"$WORK/out" 2>"$WORK/err" # apart: mpirun may put a line of one into a line of the other
}
vars=()
lines() { grep -c "$1" "$WORK/out"; }

# Each rank that has a call to make gets the error, in this call or in the next, and all come to their end.
ends() { # FIRST: the calls that may be the first to fail, by a pattern
    local r
    for r in 0 1 2 3; do
        grep -qE "^rank $r: ($1) is the first that fails, and [0-9]+ more" "$WORK/out" &&
            grep -qx "rank $r: end" "$WORK/out" || { cat "$WORK/out" "$WORK/err"; return 1; }
    done
    ! grep -e "no error after that" -e "reduction is wrong" "$WORK/out"
}
# title, how: what the other ranks do; first: the calls that may be the first to fail, by a pattern; fault: CALL [FUNCTION]
phase() {
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    job "9 none" # checkpoints to restart from
    is "$title: the job before" same "4 4" "$(lines 'no call fails') $(lines ': end$')"
    [ "$title" != fetch ] || "$TESTBED" wipe
    job "1 $fault" "$how"
    is "$title, and ranks $how: every rank gets an error" ends "$first"
    is "... which says where it comes from" grep -q "rank 1 .*: internal error: injected in ${fault%% *}.*; please report this line; calls, the last one first: .*, main\.go_" "$WORK/err"
    job "9 none"
    is "... and the next job continues" same "4 4" "$(lines 'no call fails') $(lines ': end$')"
}
# A rank may still be in the collective call before.
mapfile -t phases < <(divided \
    "Init: stay: SCR_Init: Init" \
    "groups in Init: stay: SCR_Init: Init reddesc.divideByString" \
    "sets in Init: stay: SCR_Init: Init reddesc.Create" \
    "Need: stay: SCR_Complete_restart|SCR_Need_checkpoint|SCR_Start_output: NeedCheckpoint" \
    "Start: stay: SCR_Need_checkpoint|SCR_Start_output: StartOutput" \
    "Route: stay: SCR_Start_restart|SCR_Route_file|SCR_Complete_restart: Route" \
    "Complete: stay: SCR_Start_output|SCR_Complete_output: CompleteOutput redundancy.scheme.Encode" \
    "Complete: leave: SCR_Start_output|SCR_Complete_output: CompleteOutput redundancy.scheme.Encode" \
    "flush: stay: SCR_Start_output|SCR_Complete_output: CompleteOutput prefix.(*Flush).Finish" \
    "Have_restart: stay: SCR_Init|SCR_Have_restart|SCR_Start_restart|SCR_Route_file|SCR_Complete_restart: HaveRestart" \
    "Start_restart: stay: SCR_Have_restart|SCR_Start_restart|SCR_Route_file|SCR_Complete_restart: StartRestart" \
    "Complete_restart: stay: SCR_Start_restart|SCR_Complete_restart: CompleteRestart" \
    "fetch: stay: SCR_Have_restart|SCR_Start_restart|SCR_Route_file|SCR_Complete_restart: HaveRestart restart.(*Restart).fetch" \
    "Finalize: stay: SCR_Should_exit|SCR_Finalize: Finalize" \
    "Finalize: leave: SCR_Should_exit|SCR_Finalize: Finalize" \
    "the end of Finalize: stay: SCR_Should_exit|SCR_Finalize: Finalize session.(*Session).end" \
    "the end of Finalize: leave: SCR_Should_exit|SCR_Finalize: Finalize session.(*Session).end")
for line in "${phases[@]}"; do
    IFS=: read -r title how first fault < <(sed 's/: /:/g' <<<"$line")
    phase
done

# After that a program can continue in the same run: no process has died, so that any MPI will do.
while read -r call; do
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    job "9 none"
    job "1 $call" recover
    is "a panic in $call, and then SCR_Recover: all ranks continue" bash -c '[ "$1" = "4 4" ] || { cat "$2" "$3"; false; }' \
        - "$(lines 'has recovered') $(lines ': end$')" "$WORK/out" "$WORK/err"
    is "... and it was there" grep -q "rank 1 .*: internal error: injected in ${call%% *}" "$WORK/err"
    job "9 none"
    is "... and the next job continues" same "4 4" "$(lines 'no call fails') $(lines ': end$')"
done < <(divided NeedCheckpoint Route "CompleteOutput redundancy.scheme.Encode" "CompleteOutput prefix.(*Flush).Finish" CompleteRestart)
