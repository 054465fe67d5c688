# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 20 s
#
# A job is killed together with one or two nodes.  The commands scavenge what the other
# nodes have, and a job on other nodes restarts from that.
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps
is "four nodes" "$TESTBED" up 4

prefix=$WORK/prefix log=$WORK/log output=''
run() { # OPTION...: of steps; output in $WORK/out, status in $status
    (cd "$prefix" && exec "$TESTBED" run -n 8 --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_FLUSH="$flush" --env SCR_COPY_TYPE="$type" --env SCR_JOB_ID=scavenge --env SCR_DEBUG=1 \
        -- "$WORK/steps" -l "$log" "$@") >"$WORK/out" 2>&1 </dev/null
    status=$?
}
# strike NODE...: a run that writes checkpoints until it loses nodes
# shellcheck disable=SC2086
strike() {
    "$TESTBED" wipe
    rm -rf "$prefix"
    mkdir "$prefix"
    : >"$log"
    run -n 1000 $output &
    within 40 grep -q "^complete 4" "$log" || cat "$WORK/out"
    for n in "$@"; do "$TESTBED" lose --no-spare "$n" 2>/dev/null; done
    wait $!
}
tool() { # COMMAND ARG...: runs a command of goscr on this machine, which acts as login node
    "$BUILD/$1" "${@:2}"
}
copy() { # NODE OPTION...: scr_copy there
    "$TESTBED" exec "$1" env SCR_JOB_ID=scavenge "$BUILD/scr_copy" --prefix "$prefix" "${@:2}"
}
copies() { # OPTION...: scr_copy on all nodes that are left
    local n
    for n in $("$TESTBED" nodes); do copy "$n" "$@" || return; done
}
# scavenge: outputs first, then the newest checkpoint that can be completed
scavenge() {
    local id
    for id in $(tool scr_flush_file --dir "$prefix" --list-output); do
        ! tool scr_flush_file --dir "$prefix" --need-flush "$id" || { copies --id "$id" && tool scr_index -p "$prefix" --build "$id"; }
    done
    for id in $(tool scr_flush_file --dir "$prefix" --list-ckpt); do
        tool scr_flush_file --dir "$prefix" --need-flush "$id" || return 0
        copies --id "$id" && tool scr_index -p "$prefix" --build "$id" && return
    done
    return 1
}
ended() { # the run has restarted from the newest checkpoint that was completed
    [ "$status" = 0 ] && [ "$(tail -n 1 "$log")" = "restarted $newest" ] || { cat "$WORK/out"; tail -n 3 "$log"; return 1; }
}
restarts() { # NAME: all nodes are new
    "$TESTBED" wipe
    run -n 0
    is "$1: restart from what was scavenged, every byte as it was" ended
    is "... by fetching it" grep -q "checkpoint ckpt.$newest: fetched" "$WORK/out"
}

flush=0
mapfile -t list < <(drawn 2 "XOR node1" "XOR node3" "PARTNER node0" "PARTNER node2 node0" "RS node1 node2" "RS node0")
for case in "${list[@]}"; do
    read -r type lost <<<"$case"
    # shellcheck disable=SC2086
    strike $lost
    newest=$(tool scr_flush_file --dir "$prefix" --latest)
    name="$type, $lost lost"
    is "$name: there is something to scavenge" tool scr_flush_file --dir "$prefix" --need-flush "$newest"
    is "... of what the job wrote on 4 nodes" same 4 "$(tool scr_nodes_file --dir "$prefix")"
    is "... it is scavenged" scavenge
    is "... which the index knows" bash -c '"$1/scr_index" -p "$2" | grep -qE "^ *$3 +YES .* \* .* ckpt.$3\$"' - "$BUILD" "$prefix" "$newest"
    is "... and every byte is what was written" tool scr_index -p "$prefix" --verify "ckpt.$newest"
    is "... again, it is there already" scavenge
    restarts "$name"
done

# A node copies the files that it keeps of its neighbour.
type=PARTNER
strike node2
newest=$(tool scr_flush_file --dir "$prefix" --latest)
is "PARTNER: nodes say whose copies they have" \
    bash -c '"${@:2}" | tee /dev/stderr | grep -q "Partner: $1"' - node2 "$TESTBED" exec node3 \
    env SCR_JOB_ID=scavenge "$BUILD/scr_copy" --prefix "$prefix" --id "$newest"
is "... and bring them where the other is down" copies --id "$newest" node2
is "... so that nothing has to be rebuilt" \
    bash -c '! { "$1/scr_index" -p "$2" --build "$3" 2>&1 || echo rebuilt; } | grep rebuilt' - "$BUILD" "$prefix" "$newest"
restarts "PARTNER, copies"

# The sets are rebuilt one at a time by scr_rebuild_xor.
type=XOR
strike node1
newest=$(tool scr_flush_file --dir "$prefix" --latest)
is "by hand: scr_copy" copies --id "$newest"
for set in 0 1; do
    is "... scr_rebuild_xor" bash -c 'shopt -s nullglob; "$1/scr_rebuild_xor" -p "$2" "$2/.scr/scr.dataset.$3/"*"_in_$4.xor"' \
        - "$BUILD" "$prefix" "$newest" "$set"
done
is "... the lists of files are made by --build" tool scr_index -p "$prefix" --build "$newest"
restarts "by hand"

# More nodes are lost than the scheme can recover: the flushed checkpoint counts. The job
# may die just when its newest checkpoint is flushed, also between the list of files, the entry in the index
# and the one in flush.scr, which is last. Then nothing is to be rebuilt: kill another.
type=XOR flush=3
unflushed() {
    local try newest
    for try in {1..10}; do
        strike node1 node2
        newest=$(tool scr_flush_file --dir "$prefix" --latest)
        ! tool scr_index -p "$prefix" | grep -q "^ *$newest *YES" && [ ! -e "$prefix/.scr/scr.dataset.$newest/summary.scr" ] || continue
        tool scr_flush_file --dir "$prefix" --need-flush "$newest" && return
    done
    echo "in $try runs the newest checkpoint was flushed"
    return 1
}
is "two nodes lost with XOR: the newest checkpoint is not flushed" unflushed
newest=$(tool scr_flush_file --dir "$prefix" --latest)
is "... scr_copy" copies --id "$newest"
is "... scr_index says that it cannot be rebuilt" \
    bash -c '! "$1/scr_index" -p "$2" --build "$3" 2>"$4" && grep "cannot be rebuilt" "$4" || { cat "$4"; false; }' - "$BUILD" "$prefix" "$newest" "$WORK/err"
newest=$(tool scr_index -p "$prefix" | awk '$2 == "YES" { print $1; exit }')
is "... and has one that was flushed before" test "${newest:-0}" -ge 3
restarts "two nodes lost with XOR, one flushed before"

# Outputs are flushed as they are written: one whose flush was interrupted is scavenged.
flush=0 output=-o
strike node3
output=''
newest=$(tool scr_flush_file --dir "$prefix" --list-ckpt | cut -d " " -f 1)
is "outputs: scavenged" scavenge
is "... all are there" bash -c 'for id in $("$1/scr_flush_file" --dir "$2" --list-output); do
    "$1/scr_flush_file" --dir "$2" --id "$id" || { echo "$id is not"; exit 1; }; done' - "$BUILD" "$prefix"
restarts "outputs"

# The file system is full during the scavenge.
type=XOR flush=0
strike node0
newest=$(tool scr_flush_file --dir "$prefix" --latest)
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    cp -a "$prefix" "$WORK/small.from"
    is "a full file system: exit 1, the index as it was, nothing half" unshare --mount --propagation private bash -c '
        mount -t tmpfs -o size=200k none "$2" && cp -a "$5/." "$2" || exit
        before=$("$1/scr_index" -p "$2" --json)
        ! "${@:6}" --id "$3" >"$4" 2>&1 || { echo "it fits"; exit 1; }
        grep "no space left" "$4" || { cat "$4"; exit 1; }
        "$1/scr_index" -p "$2" --json >"$4" || { cat "$4"; exit 1; }
        grep -q "\"indexed\": true" <<<"$before" && exit 1
        ! grep "\"complete\": true" "$4" || exit 1
        ! find "$2" -path "*/ckpt.*" -type f ! -name ".scr.*.copy" | grep .' - "$BUILD" "$prefix" "$newest" "$WORK/err" "$WORK/small.from" \
        "$TESTBED" exec node1 env SCR_JOB_ID=scavenge "$BUILD/scr_copy" --prefix "$prefix"
fi
is "... with room, it is scavenged" scavenge
restarts "after a full file system"
