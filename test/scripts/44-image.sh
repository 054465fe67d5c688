# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2054
# Test: one MPI, 20 s
#
# scr_image: programs that know nothing of checkpoints, saved and restored as images of processes
# by a command of this project's tests (cr/image/testdata).
. "$(dirname "$0")/lib.bash"

here=$ROOT/cr/image/testdata
if [ "$(uname -m)" != x86_64 ]; then
    is "the command for tests is for x86-64" true
    exit 0
fi
is "worker.c builds" gcc -O1 -static -no-pie -Wall -Wextra -Werror -o "$WORK/worker" "$here/worker.c"
is "image.c builds" gcc -O1 -Wall -Wextra -Werror -o "$WORK/image" "$here/image.c"

prefix=$WORK/prefix gate=$WORK/gate
ranks=3 steps=200
"$TESTBED" up "$ranks" 6
restore="SCR_CR_IMAGE_RESTORE=exec $WORK/image restore %d %i"
dump="exec $WORK/image dump %p %d"
job() { # DUMP [OPTION...] -- [COMMAND...]: on 3 ranks, of which each has an output of its own
    local dump=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    mkdir -p "$prefix"
    (cd "$WORK" && exec "$TESTBED" run --mpi "$MPI" --timeout 120 -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_CACHE_SIZE=2 \
        --env SCR_FLUSH=0 --env SCR_COPY_TYPE=XOR --env "SCR_CR_IMAGE=$dump" --env "$restore" "${options[@]}" \
        -- "$BUILD/scr_image" "$@") </dev/null >"$WORK/out" 2>"$WORK/err"
}
worker=("$WORK/image" run "$WORK/worker" "$steps" "$gate")
begin() { # DUMP [OPTION...]: in the background, until all are halfway
    : >"$WORK/out"
    job "$@" -- "${worker[@]}" &
    job=$!
    within 300 halfway || cat "$WORK/out" "$WORK/err"
}
halfway() { [ "$(grep -c '^half' "$WORK/out")" = "$ranks" ]; }
ends() { # waits for the job; `ended` is for its status
    wait "$job"
    status=$?
}
ended() { same 0 "$status" || { cat "$WORK/out" "$WORK/err"; return 1; }; }
ask() { timeout 300 "$BUILD/scr" checkpoint -p "$prefix" "$@" >"$WORK/asked.out" 2>"$WORK/asked.err" || { cat "$WORK/asked.err" "$WORK/err"; return 1; }; }
fails_with() { # TEXT ARGUMENT...
    local text=$1
    shift
    ! ask "$@" >/dev/null && grep -e "$text" "$WORK/asked.err" || { cat "$WORK/asked.err" "$WORK/err"; return 1; }
}
fresh() { "$TESTBED" wipe; rm -rf "$prefix" "$gate"; }
said() { cut -d' ' -f1 "$WORK/out" | grep -c "^$1\$"; }
results() { grep '^result' "$WORK/out" | sort | uniq -c | tr -s ' '; }

fresh
touch "$gate"
is "a program without a call of SCR or MPI comes to its end" job "$dump" -- "${worker[@]}"
right=$(results)
is "... on each rank with the same result" same "1 3" "$(wc -l <<<"$right") $(awk '{ print $1 }' <<<"$right")"
rm "$gate"

for way in dump end; do
    fresh
    begin "exec $WORK/image $way %p %d"
    is "$way: a checkpoint is asked for" ask
    is "... and another one" ask
    touch "$gate"
    ends
    is "... the program continues to its end" ended
    is "... and the result is right" same "$right" "$(results)"

    fresh
    begin "exec $WORK/image $way %p %d"
    is "$way: a checkpoint after which the program is ended" ask --term
    ends
    is "... it has ended" ended
    is "... without a result" same 0 "$(said result)"
    "$TESTBED" lose node1
    touch "$gate"
    is "... the run after it continues, although a node is lost" job "exec $WORK/image $way %p %d" -- "${worker[@]}"
    is "... and does not begin again" same "0 0" "$(said begins) $(said half)"
    is "... to the same result" same "$right" "$(results)"
    rm "$gate"
done
is "checkpoints have one file for each rank" same 3 "$(find "$prefix" -name image | wc -l)"

# It dies, and the run after it begins where it was: also with a damaged image.
fresh
begin "$dump"
is "a checkpoint" ask
for process in $(awk '/^begins/ { print $2 }' "$WORK/out"); do kill -KILL $((16#$process)); break; done
ends
is "a program that is killed ends the job" test "$status" != 0
is "... with an error that says so" grep -q "worker.* ended with status 137\|image ended with status 137" "$WORK/err"
touch "$gate"
is "... the next run continues from the checkpoint" job "$dump" -- "${worker[@]}"
is "... to the same result" same "0 $right" "$(said begins) $(results)"

# What fails.
fresh
begin 'test "$(cat /proc/%p/comm)" = worker; exit 7'
is "a command that fails is no checkpoint" fails_with "the command of SCR_CR_IMAGE ended with status 7"
touch "$gate"
ends
is "... and the program continues" ended
is "... to the right result" same "$right" "$(results)"
fresh
begin "touch %d/begun; sleep 1000 # %p" --env SCR_CR_LIMIT_SECONDS=1
is "a command that does not end is no checkpoint" fails_with "has not ended within 1s, and was killed"
is "... its process is gone" same "" "$(pgrep -f "touch .*$WORK.*sleep 1000")"
touch "$gate"
ends
is "... and the program continues" ended
job "$dump" -- "${worker[@]}" 5
is "a program that fails makes the job fail" test $? != 0
is "... ends the job with its status" grep -q "ended with status 5" "$WORK/err"
# Only one rank knows the reason, and its standard error is full until the other ranks have had a second to end, and the job with them.
mkfifo "$WORK/full"
exec {full}<>"$WORK/full"
timeout 1 cat /dev/zero >&"$full"
slow() { sleep 1; timeout 300 grep -a -m 1 -o 'scr_image: .*' <&"$full"; }
slow >"$WORK/late" 2>&1 &
late=$!
"$TESTBED" run --mpi "$MPI" -n "$ranks" --env SCR_PREFIX="$prefix" --env "SCR_CR_IMAGE=$dump" --env "$restore" -- \
    sh -c '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 1 ] || exec "$@"; exec "$@" 2>"$0"' "$WORK/full" \
    "$BUILD/scr_image" sh -c '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 1 ] && exit 6; sleep 300' >"$WORK/out" 2>"$WORK/err"
is "a program that fails on one rank makes the job fail" test $? != 0
wait "$late"
is "... and that rank prints the reason, before another rank ends the job" same "scr_image: sh ended with status 6" "$(cat "$WORK/late")"
exec {full}>&-
# Without a launcher, which may lose what ranks have printed just before they end.
alone() { env SCR_PREFIX="$prefix" SCR_CACHE_BASE="$WORK" SCR_CNTL_BASE="$WORK" "SCR_CR_IMAGE=$1" "$restore" timeout 300 "$BUILD/scr_image" true </dev/null 2>&1; }
refuses() { alone "$1" >"$WORK/err" && { echo "status 0"; return 1; }; grep "$2" "$WORK/err" || { cat "$WORK/err"; return 1; }; }
is "commands without their placeholders are an error" refuses "exec save %d" 'SCR_CR_IMAGE: "exec save %d" has no %p'

# CRIU, if it is here: it works, or the error says why not.
if command -v criu >/dev/null; then
    fresh
    restore=SCR_CR_IMAGE_RESTORE=
    touch "$gate"
    job criu -- "${worker[@]}"
    if criu check >/dev/null 2>&1; then
        is "with CRIU the program runs" same "$right" "$(results)"
    else
        is "CRIU does not work on this kernel, which is said" grep "CRIU does not work on this kernel: criu check: exit status 1: Error" "$WORK/err"
        is "... before the program begins" same 0 "$(said begins)"
    fi
else
    echo "   no CRIU here"
fi
