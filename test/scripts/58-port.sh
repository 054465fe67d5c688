# shellcheck shell=bash
# shellcheck disable=SC1091
# Test: one MPI, 30 s
#
# docs/port.md: the diff of the page makes of a program without checkpoints one that survives
# kill -9 and the loss of a node.
. "$(dirname "$0")/lib.bash"

warnings=(-std=c99 -Wall -Wextra -Werror -O2)
cp "$ROOT/examples/port/galaxy.c" "$WORK"
is "the program as it was builds" "$MPICC" "${warnings[@]}" -o "$WORK/before" "$WORK/galaxy.c" -lm
sed -n '/^```diff$/,/^```$/{/^```/!p}' "$ROOT/docs/port.md" >"$WORK/galaxy.diff"
apply() { cd "$WORK" && git apply --no-index --verbose galaxy.diff; }
is "the diff of the page applies" apply
is "... and the program builds" "$MPICC" "${warnings[@]}" -I"$BUILD" -o "$WORK/galaxy" "$WORK/galaxy.c" -L"$BUILD" -lscr -lm "-Wl,-rpath,$BUILD"

prefix=$WORK/prefix log=$WORK/log
steps=1000
[ "$MPI" != mpich ] || steps=500 # its ranks spin while they wait
fresh() { rm -rf "$prefix" && mkdir "$prefix" && "$TESTBED" wipe; }
run() { # PROGRAM
    cd "$prefix" || exit 1
    exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 120 --env SCR_PREFIX="$prefix" --env SCR_JOB_ID=port --env SCR_FLUSH=0 \
        --env SCR_DEBUG=1 -- "$1" 400 $steps "$prefix/result" >"$log" 2>&1 </dev/null
}
ended() { ! kill -0 "$job" 2>/dev/null; }
written() { grep -q '^checkpoint galaxy.200$' "$log" || ended; }
# strike COMMAND...: starts the job, and runs the command after its second checkpoint.
strike() {
    fresh
    : >"$log"
    (run "$WORK/galaxy") &
    job=$!
    within 100 written || return 1
    "$@"
    wait $job && return 75
    [ ! -e "$prefix/result" ] || return 75 # it was struck while its ranks ended
}
kill_one() { running "$WORK/galaxy" | sort -n | sed -n 2p | xargs -r kill -KILL; }
lose_one() { "$TESTBED" lose node1; }
goes_on() { # TEXT: the job is started again, prints the text, and has the right result
    (run "$WORK/galaxy") && grep -q "^restarted from galaxy\.[2-9]00$" "$log" && grep -q -- "$1" "$log" &&
        cmp "$WORK/reference" "$prefix/result" || { cat "$log"; return 1; }
}

is "four nodes" "$TESTBED" up 4 8
fresh
undisturbed() { (run "$WORK/before") && mv "$prefix/result" "$WORK/reference"; }
is "the program as it was computes a result" undisturbed
is "kill -9 of a rank" struck strike kill_one
is "... the job continues, with the same result" goes_on "as it was in the cache"
is "a node is lost" struck strike lose_one
is "... the job continues, with the same result" goes_on "rebuilt from redundancy"
