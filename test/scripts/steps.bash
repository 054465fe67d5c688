# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2034,SC2154
# For scripts with the program steps.c: builds it, and runs jobs of it.  The caller sets ranks, prefix,
# log and id, the job's SCR_JOB_ID.
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps

begin() { # with empty nodes and an empty prefix directory
    "$TESTBED" wipe
    rm -rf "$prefix"
    mkdir "$prefix"
    : >"$log"
}
by=() # a command that steps is run by
steps() { # SETTING... -- OPTION...: a job of steps; output in $WORK/out, status in $status
    local env=()
    while [ "$1" != -- ]; do env+=(--env "$1"); shift; done
    shift
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_JOB_ID="$id" --env SCR_DEBUG=1 "${env[@]}" -- "${by[@]}" "$WORK/steps" -l "$log" "$@") >"$WORK/out" 2>&1 </dev/null
    status=$?
}
ended() { # [STEP]: with status 0, from the checkpoint STEP
    [ "$status" = 0 ] && ! grep -qE '^steps: |internal error|panic|goroutine' "$WORK/out" &&
        { [ $# = 0 ] || grep -qx "restarted $1" "$log"; } || { echo "status $status"; cat "$WORK/out" "$log"; return 1; }
}
program() { running "$WORK/steps"; } # pids of the program
transfers() { # pids of scr_transfer of this test's jobs, which is a link to scr
    local p
    for p in $(running '*/scr'); do
        grep -qsz 'scr_transfer$' "/proc/$p/cmdline" && grep -qszx "SCR_JOB_ID=$id" "/proc/$p/environ" && echo "$p"
    done
    return 0
}
