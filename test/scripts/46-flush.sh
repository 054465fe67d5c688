# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016
# Test: one MPI, 10 s
#
# Tests checkpoints that a flush compresses, with programs under mpirun on simulated
# nodes.
. "$(dirname "$0")/lib.bash"

is "the program modes" client modes
is "four nodes" "$TESTBED" up 4

prefix=$WORK/prefix
mkdir -p "$prefix"
# job RANKS [NAME=VALUE]... -- PROGRAM...: in the prefix directory; output in $WORK/out
job() {
    local ranks=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=(--env "$1")
        shift
    done
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_JOB_ID=flush --env SCR_DEBUG=1 "${options[@]}" "$@") >"$WORK/out" 2>&1 </dev/null
}
# says TEXT COMMAND...: the command succeeds, and its job prints the text.
says() {
    local text=$1
    shift
    "$@" && grep -q -- "$text" "$WORK/out" || { echo "no \"$text\":"; cat "$WORK/out"; false; }
}
index() { "$BUILD/scr_index" -p "$prefix" "$@"; }
valid() { index --list 2>/dev/null | awk 'NR > 1 && $2 == "YES" { print $NF }' | sort | paste -sd ' '; }
# SCR 3.1 reads the key COMPLETE of a dataset, and the key CURRENT.
complete() { "$BUILD/scr_print" "$prefix/.scr/index.scr" | awk -v id="$1" '
    /^[A-Z]/ { dset = $1 == "DSET" } dset && /^  [0-9]/ { mine = $1 == id } mine && /^    COMPLETE = / { print $3 }'; }
file() { echo "$prefix/ckpt.$1/own/0"; }
smaller() { [ "$(stat -c %s "$1")" -lt 3000 ] || { ls -l "$1"; false; }; }
zstd=(SCR_FLUSH=1 SCR_FLUSH_COMPRESS=zstd:1)

is "two checkpoints are flushed and compressed" says "complete 2" job 4 "${zstd[@]}" -- "$WORK/modes" -n 2
is "... each file" smaller "$(file 2)"
is "... in a format that others know" same 28b52ffd "$(head -c 4 "$(file 2)" | od -An -tx1 | tr -d ' \n')"
is "... both can be restarted from" same "ckpt.1 ckpt.2" "$(valid)"
is "... by this library alone" same 0 "$(complete 2)"
is "... and every byte is what was written" index --verify
"$TESTBED" wipe
is "all nodes are lost: a restart" says "restarted 2 of 4" job 4 "${zstd[@]}" -- "$WORK/modes" -n 1
is "... continues" same "ckpt.1 ckpt.2 ckpt.3" "$(valid)"
printf '\1\2\3\4' | dd of="$(file 3)" bs=1 seek=20 conv=notrunc 2>/dev/null
fails() { ! "$@"; }
is "a compressed file is damaged: it is found" fails index --verify
"$TESTBED" wipe
is "... and the checkpoint before is taken" says "restarted 2 of 4" job 4 "${zstd[@]}" -- "$WORK/modes"
is "... for good" same "ckpt.1 ckpt.2" "$(valid)"
"$TESTBED" wipe
is "three ranks cannot read it where it is" says "from the beginning" job 3 SCR_FETCH_BYPASS=1 -- "$WORK/modes" -a
is "... and are told what to do" grep -q "scr_index --expand 'ckpt.2'" "$WORK/out"
is "... which is this" index --expand ckpt.2
is "... for SCR 3.1 it is complete then" same 1 "$(complete 2)"
is "... and they can" says "restarted 2 of 4" job 3 SCR_FETCH_BYPASS=1 -- "$WORK/modes" -a
is "what is no parameter's value is refused" grep -q "want nothing, or zstd" <(job 4 SCR_FLUSH_COMPRESS=gzip -- "$WORK/modes"; cat "$WORK/out")
"$TESTBED" down
