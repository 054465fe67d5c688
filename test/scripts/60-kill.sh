# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016,SC2034
# Test: one MPI, 40 s
#
# Kills jobs at random instants, and checks that the next run finds the checkpoints
# that were reported as complete.
#
#   KILL_SEED     seed of the random numbers (default: TEST_SEED)
#   KILL_ROUNDS   how many jobs to kill (default 12; 50 in a run of everything)
#   KILL_RANKS    ranks of the job, on 4 nodes (default 4)
#
# Each round is a run that restarts from the files of the round before, checks
# every byte of them, and continues until it is killed.  steps.c has the program.
. "$(dirname "$0")/lib.bash"

seed=${KILL_SEED:-$TEST_SEED} rounds=${KILL_ROUNDS:-$(sized 12 50)} ranks=${KILL_RANKS:-4}
echo "KILL_SEED=$seed KILL_ROUNDS=$rounds KILL_RANKS=$ranks"
RANDOM=$seed

is "the program steps" client steps

log=$WORK/log
# This sets a variable, because $(...) runs a subshell with random numbers of its own.
pick() { shift $((RANDOM % $#)); picked=$1; }
newest() { awk -v what="$1" '$1 == what && $2 > n { n = $2 } END { print n + 0 }' "$log"; }
# The newest that the next run has to find: a run may have restarted from an older one, after a loss.
safe() { awk '$1 == "restarted" && $2 < n { n = $2 } $1 == "complete" && $2 > n { n = $2 } END { print n + 0 }' "$log"; }
since() { tail -n "+$((before + 1))" "$log" | awk -v what="$1" '$1 == what { n = $2; seen = 1 } END { print seen ? n : "-" }'; }

run() { # OPTION...: of steps; sets status
    before=$(wc -l <"$log")
    (cd "$WORK/prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$WORK/prefix" \
        --env SCR_FLUSH=$flush --env SCR_JOB_ID=kill --env SCR_DEBUG=1 --env SCR_ENCODE_ASYNC=$behind --env SCR_ENCODE_CARRIER=$carrier \
        -- "$WORK/steps" -l "$log" -t "$@") >"$WORK/out" 2>&1
    status=$?
}

# Checks that the run has ended as it should, and has restarted from a checkpoint that is
# not older than the newest complete one, and not newer than the newest one begun.
judge() {
    local from
    from=$(since restarted)
    if [ "$status" = 124 ]; then echo "it hangs"; return 1; fi
    if grep -E '^steps: ' "$WORK/out"; then return 1; fi
    if grep -qE 'internal error|panic|fatal error|goroutine' "$WORK/out"; then echo "it crashed"; return 1; fi
    [ "$from" != - ] || { [ "$1" = killed ] || { echo "it did not restart"; return 1; }; return 0; }
    # A checkpoint that was not protected yet is lost with a node.
    [ "$from" -ge $((told - exposed)) ] || { echo "restarted from $from, $told had been complete"; return 1; }
    [ "$from" -le "$begun" ] || { echo "restarted from $from, which was not begun ($begun was)"; return 1; }
}

explain() { judge "$1" || { echo "round: $what"; cat "$WORK/out"; tail -n 20 "$log"; return 1; }; }

"$TESTBED" up 4 $((rounds + 4)) >/dev/null 2>&1 || { echo "not ok testbed"; exit 1; }

# With SCR_FLUSH=1 a node or the whole cache may be lost in every round.  Without flushes,
# no second node may be lost before a run has rebuilt the files of the first.
for flush in 0 1; do
    rm -rf "$WORK/prefix" && mkdir "$WORK/prefix"
    "$TESTBED" wipe
    : >"$log"
    told=0 begun=0 whole=1 loss=none behind=0 carrier=SOCKETS exposed=0 open=0
    run -n 2
    what="the first run, SCR_FLUSH=$flush" is "the first run, SCR_FLUSH=$flush" explain whole
    n=$((rounds / 2)); [ $flush = 0 ] || n=$((rounds - n))
    for ((i = 1; i <= n; i++)); do
        told=$(safe) begun=$(newest begun) exposed=0
        [ $open = 0 ] || [ $whole = 1 ] || exposed=1
        pick 0 1; behind=$picked
        pick SOCKETS MPI; carrier=$picked
        case $loss in # there is something to rebuild, to fetch, or neither
        node)  pick init init init have complete ;;
        cache) pick have have have init complete ;;
        *)     pick init have start write complete complete complete ;;
        esac
        phase=$picked
        percent=$((RANDOM % 130)) step=$((1 + RANDOM % 3)) who=-1 loss=none
        case $((RANDOM % 4)) in
        0) loss=node ;;
        1) who=$((RANDOM % ranks)) ;;
        2) who=-2 ;;
        esac
        if [ $flush = 1 ] && [ $((RANDOM % 4)) = 0 ]; then loss=cache; fi
        node=$((1 + RANDOM % 4))
        [ "$loss" != node ] || [ $flush = 1 ] || [ $whole = 1 ] || loss=none
        what="SCR_FLUSH=$flush round $i: $phase $percent % of checkpoint $step, rank $who, then lost: $loss, SCR_ENCODE_ASYNC=$behind $carrier (KILL_SEED=$seed)"
        echo "   $what"
        run -n 12 -k "$phase:$percent:$step:$who"
        # open: the newest may not be protected yet; whole: no node was lost since a run had all files.
        # A run protects the newest, and rebuilds what was lost, before it restarts.
        if [ "$(since restarted)" != - ]; then
            whole=1 open=0
            [ "$(since complete)" = - ] || open=$behind
        fi
        explain killed >"$WORK/why" 2>&1 || is "$what" bash -c 'cat "$1"; false' - "$WORK/why"
        [ "$status" != 0 ] || is "$what: killed" false
        case $loss in
        node)  "$TESTBED" lose "$("$TESTBED" nodes | sed -n "${node}p")" 2>/dev/null; whole=0 ;;
        cache) "$TESTBED" wipe; whole=1 ;;
        esac
    done
    told=$(safe) begun=$(newest begun) exposed=0
    [ $open = 0 ] || [ $whole = 1 ] || exposed=1
    run -n 1
    what="the last run, SCR_FLUSH=$flush" is "$n kills, then the last run, SCR_FLUSH=$flush" explain whole
    echo "   restarts: $(grep -c restarted "$log"), checkpoints completed: $(grep -c complete "$log")"
done
