# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 20 s
#
# heat in C and heat in Go restart from each other's checkpoints, after the loss of a
# node and from the prefix directory, and end with the same field.
. "$(dirname "$0")/lib.bash"

is "four nodes" "$TESTBED" up 4 8

steps=2000
[ "$MPI" != mpich ] || steps=800 # its ranks spin while they wait
run() { # PREFIX PROGRAM OPTION...: testbed run with these options
    local prefix=$1 program=$2
    shift 2
    mkdir -p "$prefix"
    (cd "$prefix" && exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 120 --env SCR_PREFIX="$prefix" "$@" \
        -- "$BUILD/$program" -x 203 -y 101 -c 40 -s $steps -o "$prefix/field") 2>&1 </dev/null
}
well() { "$@" >"$WORK/out" 2>&1 || { cat "$WORK/out"; return 1; }; }

is "C computes a field" well run "$WORK/c" heat
"$TESTBED" wipe
is "Go computes one" well run "$WORK/go" heat-go
is "... the same" cmp "$WORK/c/field" "$WORK/go/field"

# strike PREFIX PROGRAM OPTION...: a run in which node1 is lost after a checkpoint
strike() {
    local line
    exec 4< <(run "$@")
    while read -r -t 1800 -u 4 line && [[ $line != "checkpoint heat.160 complete"* ]]; do :; done
    "$TESTBED" lose node1
    while read -r -t 1800 -u 4 line; do :; done
    exec 4<&-
    [ ! -e "$1/field" ] || { rm -rf "$1"; return 75; }
}
restarted() { grep -E '^restarted from heat\.[1-9]' "$WORK/out" || { cat "$WORK/out"; return 1; }; }

for pair in "heat heat-go" "heat-go heat"; do
    read -r first second <<<"$pair"
    for flush in 0 1; do
        dir=$WORK/$first-$flush
        "$TESTBED" wipe
        is "$first is killed, SCR_FLUSH=$flush" struck strike "$dir" "$first" --env SCR_FLUSH=$flush
        [ $flush = 0 ] || "$TESTBED" wipe
        is "... $second continues" well run "$dir" "$second" --env SCR_FLUSH=0
        is "... from a checkpoint" restarted
        is "... to the same field" cmp "$WORK/c/field" "$dir/field"
    done
done
