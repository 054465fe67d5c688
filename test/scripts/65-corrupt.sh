# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2028
# Test: one MPI, 40 s
#
# Damages files in the nodes between two runs.  The next run notices, reports file and
# node, and rebuilds the file or restarts from an older or a flushed checkpoint.  The
# commands on damaged files are tested in cmd/scr (TestBadInput).
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps
is "four nodes" "$TESTBED" up 4 4

prefix=$WORK/prefix log=$WORK/log
run() { # OPTION...: of steps; output in $WORK/out, status in $status
    (cd "$prefix" && exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_FLUSH="$flush" --env SCR_JOB_ID=corrupt --env SCR_DEBUG=1 -- "$WORK/steps" -l "$log" "$@") \
        >"$WORK/out" 2>&1 </dev/null
    status=$?
}
begin() { # checkpoints 1, 2 and 3, of which the cache has 2 and 3
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    : >"$log"
    run -n 3
    [ "$status" = 0 ] || cat "$WORK/out"
}
# in_node NODE SCRIPT [ARG]: with the cache's directory as current directory
in_node() {
    local node=$1
    shift
    "$TESTBED" exec "$node" bash -c 'cd "$SCR_CACHE_BASE"/*/scr.corrupt && eval "$1"' - "$@"
}
own='find scr.dataset.3 -name "*.dat" -size +0 | sort | head -n 1'
xor='find scr.dataset.3 -name "*.xor" | head -n 1'
flip() { # COMMAND: flips a bit in the middle of the file that it prints; keeps the mtime
    echo 'f=$('"$1"'); t=$(stat -c %y "$f"); n=$(($(stat -c %s "$f") / 2)); b=$(od -An -tu1 -j $n -N1 "$f")
        printf "\\x$(printf %02x $((b ^ 4)))" | dd of="$f" bs=1 seek=$n conv=notrunc status=none; touch -d "$t" "$f"; echo "$f"'
}
header() { # COMMAND: flips a bit in the header of that file
    echo 'f=$('"$1"'); b=$(od -An -tu1 -j 30 -N1 "$f")
        printf "\\x$(printf %02x $((b ^ 4)))" | dd of="$f" bs=1 seek=30 conv=notrunc status=none; echo "$f"'
}
cut() { echo 'f=$('"$1"'); truncate -s -1 "$f"; echo "$f"'; }
longer() { echo 'f=$('"$1"'); echo >>"$f"; echo "$f"'; }
delete() { echo 'f=$('"$1"'); rm "$f"; echo "$f"'; }

ended() { # STEP: the run has succeeded, and restarted from that checkpoint
    [ "$status" = 0 ] && [ "$(tail -n 1 "$log")" = "restarted $1" ] || { cat "$WORK/out"; tail -n 3 "$log"; return 1; }
}
tells() { # NODE FILE: one line of the output names both
    grep -E "^SCR: rank [0-9]+ on $1: .*$(basename "$2")" "$WORK/out" && return
    cat "$WORK/out"
    return 1
}

mapfile -t list < <(drawn 4 "0 own flip" "0 own cut" "0 own longer" "0 own delete" "0 xor flip" "0 xor header" "0 xor cut" \
    "0 xor longer" "0 xor delete" "1 own flip" "1 xor flip")
for case in "${list[@]}"; do
    read -r flush what how <<<"$case"
    name="SCR_FLUSH=$flush: $how $([ $what = own ] && echo "a file" || echo "a redundancy file")"
    begin
    file=$(in_node node2 "$($how "${!what}")")
    is "$name" test -n "$file"
    run -n 0
    is "... is repaired" ended 3
    says="rebuilt from redundancy, 1 of 4 ranks had lost files"
    [ $what = own ] || says="redundancy was made again, 1 of 4 ranks had lost theirs"
    is "... in the cache" grep -q "$says" "$WORK/out"
    is "... and told, with file and node" tells node2 "$file"
    "$TESTBED" lose node0 2>/dev/null
    run -n 0
    is "... for good: then another node may be lost" ended 3
done

# All have lost their redundancy, and no file of the program.
flush=0
begin
for n in node0 node1 node2 node3; do in_node $n "$(header "$xor")" >/dev/null; done
run -n 0
is "the redundancy of all nodes damaged" ended 3
is "... is made again" grep -q "redundancy was made again, 4 of 4 ranks had lost theirs" "$WORK/out"
"$TESTBED" lose node2 2>/dev/null
run -n 0
is "... for good: then a node may be lost" ended 3

# Two members of the set have lost a file of the newest checkpoint, more than XOR can
# rebuild.  The checkpoint before it is complete.
begin
in_node node1 "$(flip "$own")" >/dev/null
in_node node3 "$(cut "$xor")" >/dev/null
run -n 0
is "two nodes damaged: the older checkpoint" ended 2
is "... and told" grep -qE "dataset 3 \(ckpt.3\) in the cache is passed over: .*2 of the 4 members" "$WORK/out"

flush=1
begin
for n in node1 node3; do
    in_node $n "$(flip "$own")" >/dev/null
    in_node $n "$(delete "${own/dataset.3/dataset.2}")" >/dev/null
done
run -n 0
is "all in the cache beyond repair: fetched" ended 3
is "... which is said" grep -q "checkpoint ckpt.3: fetched" "$WORK/out"

# ... and if that is damaged too, the one before.
begin
"$TESTBED" wipe
file=$(cd "$prefix" && find ckpt.3 -name '*.dat' -size +0 | sort | head -n 1)
(cd "$prefix" && printf x | dd of="$file" bs=1 seek=3 conv=notrunc status=none)
run -n 0
is "no cache, and a flushed file is damaged: the older one is fetched" ended 2
is "... and told" grep -q "checkpoint ckpt.3 cannot be fetched: .*$file" "$WORK/out"
run -n 0
is "... which the next run knows" ended 2

# If a filemap is damaged, all its files count as lost.
flush=0
begin
"$TESTBED" exec node1 bash -c 'for f in "$SCR_CNTL_BASE"/*/scr.corrupt/filemap_*.scrinfo; do
    printf x | dd of="$f" bs=1 seek=40 conv=notrunc status=none; done'
run -n 0
is "a damaged filemap: its files are rebuilt" ended 3
is "... and told" tells node1 filemap
begin
"$TESTBED" exec node1 bash -c 'rm "$SCR_CNTL_BASE"/*/scr.corrupt/filemap_*'
run -n 0
is "no filemap: its files are rebuilt" ended 3

begin
"$TESTBED" exec node1 bash -c 'cd "$SCR_CNTL_BASE"/*/scr.corrupt && f=$(ls filemap_*.scrinfo | head -n 1) && rm "$f" && mkdir -p "$f/x" &&
    rm filemap.scrinfo && mkdir -p filemap.scrinfo/x'
run -n 0
is "directories in place of a filemap and the list: rebuilt" ended 3
is "... and set aside" tells node1 damaged
run -n 0
is "... for good" grep -q "as it was in the cache" "$WORK/out"

# Metadata in the prefix directory.
flush=1
for file in $(drawn 2 flush.scr halt.scr nodes.scr restart.scr runs.scr); do
    begin
    truncate -s 20 "$prefix/.scr/$file"
    run -n 1
    is "a damaged $file: restart from the cache, and a checkpoint" \
        bash -c '[ $1 = 0 ] && [ "$(tail -n 1 "$2")" = "complete 4" ] && grep -q "^restarted 3" "$2" || { cat "$3"; false; }' \
        - "$status" "$log" "$WORK/out"
done
# Without the index a job would start from the beginning although it has checkpoints.
begin
truncate -s 20 "$prefix/.scr/index.scr"
run -n 0
is "a damaged index.scr: SCR_Init fails, and says why" \
    bash -c 'grep "SCR_Init: .*index.scr: not a valid hash" "$1" || { cat "$1"; false; }' - "$WORK/out"
is "... and leaves it as it was" same 20 "$(stat -c %s "$prefix/.scr/index.scr")"
for file in $(drawn 1 summary.scr rank2file rank2file.0.0); do
    begin
    "$TESTBED" wipe
    truncate -s 20 "$prefix/.scr/scr.dataset.3/$file"
    run -n 0
    is "a damaged $file: the older one is fetched" ended 2
done

# A prefix directory that is full to its last block, also for later runs.
mkdir "$WORK/full"
if mount -t tmpfs -o size=64m none "$WORK/full"; then
    trap 'umount -l "$WORK/full"' EXIT
    prefix=$WORK/full flush=1
    "$TESTBED" wipe
    : >"$log"
    run -n 1
    is "a checkpoint is flushed while there is room" bash -c '[ $1 = 0 ] && [ "$(tail -n 1 "$2")" = "complete 1" ] || { cat "$3"; false; }' - \
        "$status" "$log" "$WORK/out"
    cat /dev/zero >"$prefix/filler" 2>/dev/null
    run -n 1
    is "no room: the checkpoint stays in the cache" bash -c 'grep -q "^complete 2" "$1" && grep -q "No space left\|no space left" "$2" ||
        { cat "$2"; false; }' - "$log" "$WORK/out"
    is "... and nothing of it in the prefix directory" test ! -e "$prefix/ckpt.2"
    run -n 0
    is "... from which the next run restarts" bash -c '[ "$(tail -n 1 "$1")" = "restarted 2" ] || { cat "$2"; false; }' - "$log" "$WORK/out"
    rm "$prefix/filler"
    run -n 1
    is "with room the next one is flushed" bash -c '[ $1 = 0 ] && [ "$(tail -n 1 "$2")" = "complete 3" ] || { cat "$3"; false; }' - \
        "$status" "$log" "$WORK/out"
    "$TESTBED" wipe
    run -n 0
    is "... and fetched" ended 3
    umount "$WORK/full"
    trap - EXIT
fi
