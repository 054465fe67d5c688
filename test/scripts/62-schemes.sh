# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2028,SC2034
# Test: one MPI, 50 s
#
# Each scheme recovers from the losses that it promises to recover from, with one rank a
# node and with several: nodes are lost, files are damaged, ranks restart on other nodes.
# A loss of one node more is reported.
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps
is "four nodes" "$TESTBED" up 4 6

prefix=$WORK/prefix log=$WORK/log
# run OPTION... -- OPTION...: the first of testbed run, the others of steps; output
# in $WORK/out, status in $status
run() {
    local -a options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_FLUSH=0 --env SCR_JOB_ID=schemes --env SCR_DEBUG=1 --env SCR_COPY_TYPE="$scheme" \
        --env SCR_SET_FAILURES="$losses" "${options[@]}" -- "$WORK/steps" -l "$log" "${@:2}") >"$WORK/out" 2>&1 </dev/null
    status=$?
}
begin() { # checkpoints 1 and 2, both in the cache
    rm -rf "$prefix"
    mkdir "$prefix"
    "$TESTBED" wipe
    : >"$log"
    run -- -n 2
    [ "$status" = 0 ] || cat "$WORK/out"
}
ended() { # TEXT: the newest checkpoint was restored exactly, and the run printed TEXT
    [ "$status" = 0 ] && [ "$(tail -n 1 "$log")" = "restarted 2" ] && grep -q "dataset 2 .*$1" "$WORK/out" ||
        { cat "$WORK/out"; tail -n 3 "$log"; return 1; }
}
gave_up() { # TEXT: nothing could be rebuilt, and the run printed TEXT about the newest
    [ "$status" = 0 ] && [ "$(tail -n 1 "$log")" = "restarted 0" ] && grep -q "dataset 2 (ckpt.2) in the cache is passed over: cannot be rebuilt: .*$1" "$WORK/out" ||
        { cat "$WORK/out"; tail -n 3 "$log"; return 1; }
}
tells() { # NODE FILE: one line of the output names both
    grep -E "^SCR: rank [0-9]+ on $1: .*$(basename "$2")" "$WORK/out" || { cat "$WORK/out"; return 1; }
}
# damage NODE KIND NAMES: flips a bit of the first file whose name matches, or truncates it
damage() {
    "$TESTBED" exec "$1" bash -c 'cd "$SCR_CACHE_BASE"/*/scr.schemes && f=$(find scr.dataset.2 -name "$2" -size +0 | sort | head -n 1) &&
        t=$(stat -c %y "$f") && n=$(($(stat -c %s "$f") / 2)) && b=$(od -An -tu1 -j $n -N1 "$f") || exit
        if [ "$1" = cut ]; then truncate -s $n "$f"; else
            printf "\\x$(printf %02x $((b ^ 4)))" | dd of="$f" bs=1 seek=$n conv=notrunc status=none
        fi
        touch -d "$t" "$f"
        echo "$f"' - "$2" "$3"
}
nth() { "$TESTBED" nodes | sed -n "$1p"; }
lose() { local n; for n in "$@"; do "$TESTBED" lose "$n" 2>/dev/null; done; }

mapfile -t list < <(drawn 2 "PARTNER 1 partner 4" "PARTNER 2 partner 8" "XOR 0 xor 8" "RS 2 rs 4" "RS 2 rs 8")
for case in "${list[@]}"; do
    read -r scheme losses extension ranks <<<"$case"
    bears=$((losses > 0 ? losses : 1)) per=$((ranks / 4))
    name="$scheme for $bears, $per a node"

    begin
    is "$name: checkpoints" same 2 "$(grep -c complete "$log")"
    # Neighbours in the sets; spares take their places.
    gone=(node2 node3)
    lose "${gone[@]:0:bears}"
    run -- -n 0
    is "$name: $bears lost, spares in their place" ended "rebuilt from redundancy, $((bears * per)) of $ranks ranks had lost files"
    lose "$(nth 1)"
    run -- -n 0
    is "... and then another" ended "rebuilt from redundancy, $per of $ranks ranks"

    # The ranks restart on other nodes, in another order.
    run --nodes "$("$TESTBED" nodes | tac | paste -sd,)" -- -n 0
    is "... moved: nothing is lost" ended "as it was in the cache"
    lose "$(nth 3)"
    run --nodes "$("$TESTBED" nodes | sed -n '2p;4p;1p;3p' | paste -sd,)" -- -n 0
    is "... moved, and one lost" ended "rebuilt from redundancy"

    # Data or redundancy is damaged on as many nodes as the scheme can recover.
    for how in flip cut; do
        begin
        file=$(damage node1 $how '*.dat')
        other=
        [ $bears = 1 ] || other=$(damage node2 $how "*.$extension")
        run -- -n 0
        also=
        [ $bears = 1 ] || also="; redundancy of 1 other was made again"
        is "$name: $how of files" ended "rebuilt from redundancy, 1 of $ranks ranks had lost files$also"
        is "... told, with file and node" tells node1 "${file:-none}"
        [ $bears = 1 ] || is "... and redundancy file" tells node2 "${other:-none}"
        lose node0
        run -- -n 0
        is "... for good" ended "rebuilt from redundancy"
    done

    # One node too many: neighbours, the worst case for PARTNER.
    begin
    gone=(node1 node2 node3)
    lose "${gone[@]:0:bears + 1}"
    run -- -n 0
    is "$name: $((bears + 1)) lost is told" gave_up "$(((bears + 1) * per)) of $ranks ranks .*$scheme tolerates the loss of $bears of"
done

# The same with a program that computes: as many nodes as the scheme can recover are
# lost at once, in the middle of the run, and the result is that of an undisturbed run.
steps=2000
[ "$MPI" != mpich ] || steps=800 # its ranks spin while they wait
heat() { # PREFIX OPTION...: of testbed run
    local prefix=$1
    shift
    mkdir -p "$prefix"
    (cd "$prefix" && exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 120 --env SCR_PREFIX="$prefix" --env SCR_FLUSH=0 \
        --env SCR_DEBUG=1 "$@" -- "$BUILD/heat" -x 203 -y 101 -c 40 -s $steps -o "$prefix/field") 2>&1 </dev/null
}
strike() { # PREFIX NODES OPTION...: the run, until nodes are lost in the middle
    local line prefix=$1 nodes=$2
    shift 2
    exec 4< <(heat "$prefix" "$@")
    while read -r -t 1800 -u 4 line && [[ $line != "checkpoint heat.160 complete"* ]]; do :; done
    # shellcheck disable=SC2086
    lose $nodes
    while read -r -t 1800 -u 4 line; do :; done
    exec 4<&-
    [ ! -e "$prefix/field" ] || { rm -rf "$prefix"; return 75; }
}
well() { "$@" >"$WORK/out" 2>&1 || { cat "$WORK/out"; return 1; }; }

"$TESTBED" wipe
is "heat computes a field" well heat "$WORK/undisturbed"
mapfile -t list < <(drawn 1 "PARTNER 1 node3" "PARTNER 2 node1 node2" "XOR 0 node2" "RS 2 node0 node3")
for case in "${list[@]}"; do
    read -r scheme losses gone <<<"$case"
    "$TESTBED" wipe
    dir=$WORK/$scheme-$losses
    is "heat with $scheme, struck by the loss of $gone" struck strike "$dir" "$gone" --env SCR_COPY_TYPE="$scheme" --env SCR_SET_FAILURES="$losses"
    is "... continues" well heat "$dir"
    is "... from what was rebuilt" grep -q "rebuilt from redundancy, $(wc -w <<<"$gone") of 4 ranks" "$WORK/out"
    is "... to the same field" cmp "$WORK/undisturbed/field" "$dir/field"
done
