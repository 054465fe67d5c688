# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2034
# Test: both MPIs, 70 s
#
# Tests flushes in the background, by threads and by scr_transfer: of jobs that end, and
# of jobs that are killed during a flush.  The program is steps.c.
. "$(dirname "$0")/steps.bash"

is "four nodes" "$TESTBED" up 4

prefix=$WORK/prefix log=$WORK/log id=async$$ ranks=8
# scr_transfer has to outlive the job. A resource manager might end all processes of a
# job at its end; this testbed does not.
by=(env -u TESTBED_JOB)
run() { steps SCR_FLUSH=1 SCR_FLUSH_ASYNC=1 SCR_FLUSH_TYPE="$type" "$@"; }
valid() { # STEP...: these are complete in the prefix directory, byte for byte
    local step
    for step in "$@"; do
        "$BUILD/scr_index" -p "$prefix" | grep -qE "^ *[0-9]+ +YES .* ckpt.$step\$" && "$BUILD/scr_index" -p "$prefix" --verify "ckpt.$step" ||
            { "$BUILD/scr_index" -p "$prefix"; cat "$WORK/out"; return 1; }
    done
}
some_left() { [ -n "$(transfers)" ]; }
none_left() { [ -z "$(transfers)" ]; }
left() { # succeeds if no process or file of a flush is left
    none_left && ! find "$prefix" -name '*.flush' -o -name '*.scrfilemap' | grep . &&
        ! find "$TESTBED_DIR/nodes" -name transfer.scrinfo | grep .
}
requested() { # each node has asked scr_transfer for the files of step 1
    [ "$(find "$TESTBED_DIR/nodes" -name transfer.scrinfo -exec grep -l 'ckpt\.1' {} + | wc -l)" = 4 ]
}
location() { "$BUILD/scr_flush_file" --dir "$prefix" --location "$1"; }
lists() { [ "$(find "$prefix/.scr/scr.dataset.$1" -name '*.scrfilemap' | wc -l)" = "$ranks" ]; }
inodes() { find "$prefix/ckpt.$1" -type f -printf '%i\n' | sort; } # under temporary names too

killed() { # SETTING...: kills a run in SCR_Finalize, which waits for the flush
    begin
    run "$@" -- -n 1 &
    within 40 grep -qx 'complete 1' "$log" || cat "$WORK/out"
    [ "$type" != DAEMON ] || within 40 requested || cat "$WORK/out" # the line is rank 0's
    program | xargs kill -9
    wait $!
}

for type in $(divided PTHREAD DAEMON); do
    begin
    run SCR_CACHE_SIZE=3 -- -n 5
    is "$type: a run that ends by itself" ended
    is "... all its checkpoints are flushed" valid 1 2 3 4 5
    is "... and nothing is left of it" within 60 left
    "$TESTBED" wipe
    run -- -n 0
    is "... and the next one restarts from them" ended 5

    killed SCR_FLUSH_ASYNC_BW=20k
    is "$type: killed while a flush is under way" same FLUSHING "$(location 1)"
    run -- -n 1
    is "... the next run continues" ended 1
    is "... and flushes what was not" valid 1 2
    is "... and nothing is left" within 60 left
done

# From here on scr_transfer continues after the program has died.
type=DAEMON
stop_all() {
    local n
    for n in $("$TESTBED" nodes); do
        "$TESTBED" exec "$n" env SCR_JOB_ID="$id" "$BUILD/scr_transfer" --exit || return
    done
}
build_completes() {
    killed SCR_FLUSH_ASYNC_BW=30k
    is "the program is dead, scr_transfer continues" some_left
    is "... until all is copied, and ends" within 300 none_left
    is "... of all ranks" lists 1
    is "... flush.scr says that it is on its way" same FLUSHING "$(location 1)"
    before=$(inodes 1)
    "$TESTBED" wipe # the nodes are gone
    is "... scr_index --build completes it" "$BUILD/scr_index" -p "$prefix" --build 1
    is "... without copying" same "$before" "$(inodes 1)"
    is "... every byte" valid 1
    run -- -n 1
    is "... and a run restarts from it" ended 1
}

next_run_completes() {
    killed SCR_FLUSH_ASYNC_BW=60k
    is "killed again: all is copied" within 300 lists 1
    is "... and scr_transfer ends" within 60 none_left
    before=$(inodes 1)
    "$TESTBED" wipe
    run -- -n 0
    is "... the next SCR_Init completes it" ended 1
    is "... and says so" grep -q 'dataset 1 (ckpt.1): all of it had been copied' "$WORK/out"
    is "... without copying" same "$before" "$(inodes 1)"
}

copy_beside_transfer() {
    killed SCR_FLUSH_ASYNC_BW=50k
    copy() {
        local n
        for n in $("$TESTBED" nodes); do
            "$TESTBED" exec "$n" env SCR_JOB_ID="$id" "$BUILD/scr_copy" --prefix "$prefix" --id 1 || return
        done
    }
    is "scr_copy beside scr_transfer" copy
    is "... both to their end" within 300 none_left
    is "... is one dataset" "$BUILD/scr_index" -p "$prefix" --build 1
    is "... every byte" valid 1
}

transfer_is_killed() {
    killed SCR_FLUSH_ASYNC_BW=40k
    one=$(transfers | head -n 1)
    is "a scr_transfer is killed" kill -9 "$one"
    again() {
        local n
        for n in $("$TESTBED" nodes); do
            "$TESTBED" exec "$n" env SCR_JOB_ID="$id" "$BUILD/scr_transfer" || return
        done
    }
    is "... another continues where it was" again
    is "... and all is there" within 300 lists 1
    is "... and becomes complete" "$BUILD/scr_index" -p "$prefix" --build 1
    is "... every byte" valid 1
    is "... and nobody copies any more" within 60 none_left
}

# A scr_transfer that is running, as after scr_run has started it, does the copies.
stay() {
    begin
    for n in $("$TESTBED" nodes); do
        "$TESTBED" exec "$n" env SCR_JOB_ID="$id" "$BUILD/scr_transfer" --stay &
    done
    run SCR_CACHE_SIZE=3 -- -n 3
    is "scr_transfer --stay: a run that ends by itself" ended
    is "... all its checkpoints are flushed" valid 1 2 3
    # All threads of scr_transfer have a lower priority than the program's, and a timer slack of 50 ms.
    behind() {
        local pid task nice slack threads=0
        for pid in $(transfers); do
            for task in /proc/"$pid"/task/*; do
                nice=$(awk '{ print $19 }' "$task/stat" 2>/dev/null) && [ -n "$nice" ] || continue # it has ended
                slack=$(cat "/proc/${task##*/}/timerslack_ns" 2>/dev/null) || slack="only root may see it"
                threads=$((threads + 1))
                echo "$pid: nice $nice, timers late by $slack ns"
                [ "$nice" -ge 10 ] && { [ "$slack" = 50000000 ] || [ "$(id -u)" != 0 ]; } || return
            done
        done
        [ "$threads" -gt 0 ]
    }
    is "... by threads that all step back" behind
    four_left() { [ "$(transfers | wc -l)" = 4 ]; }
    is "... and those that copied are left" within 60 four_left # also where the program came first and started others
    is "... until told to end" stop_all
    # scr_transfer executes itself once more to lower its priority, but only once.
    if chrt -r 1 true 2>/dev/null; then
        is "scr_transfer under a real-time policy" timeout -s KILL 600 chrt -r 1 "$BUILD/scr_transfer" --exit --cntldir "$WORK"
        is "... when it copies" timeout -s KILL 600 chrt -r 1 "$BUILD/scr_transfer" --cntldir "$WORK"
    else
        echo "   no real-time policy is permitted here: not tested"
    fi
    is "all that were told to end have ended" within 60 none_left
    wait
}

# scr_transfer is killed while the program continues.
killed_while_running() {
    begin
    (within 60 grep -q '^complete 1' "$log" && within 60 some_left && transfers | xargs kill -9) >/dev/null 2>&1 &
    run SCR_FLUSH_ASYNC_BW=100k -- -n 2
    wait $!
    is "scr_transfer is killed while the program continues: another is started" ended
    is "... and all is flushed" valid 1 2
    is "... and nothing is left" within 60 left
}

poststage() {
    begin
    run SCR_FLUSH_ASYNC_BW=100k SCR_FLUSH_POSTSTAGE=1 SCR_CACHE_SIZE=3 -- -n 2
    is "SCR_FLUSH_POSTSTAGE: SCR_Finalize leaves it going" ended
    is "... flush.scr says so" same FLUSHING "$(location 2)"
    is "... until it is there" within 300 lists 2
    is "... scr_index --build completes it" "$BUILD/scr_index" -p "$prefix" --build 2
    is "... every byte" valid 2
    is "... and scr_transfer ends by itself" within 60 none_left
}

# scr_transfer is told to end.
told_to_end() {
    killed SCR_FLUSH_ASYNC_BW=20k
    is "scr_transfer --exit" stop_all
    is "... ends it" within 60 none_left
    is "... and what it has not copied is not complete" bash -c '! "$1/scr_index" -p "$2" --build 1' - "$BUILD" "$prefix"
    run -- -n 0
    is "... but by the next run" ended 1
    is "... every byte" valid 1
    for p in $(transfers); do kill -9 "$p"; done
}

mapfile -t list < <(drawn 3 build_completes next_run_completes copy_beside_transfer transfer_is_killed stay killed_while_running poststage told_to_end)
for scenario in "${list[@]}"; do
    "$scenario"
    for p in $(transfers); do kill -9 "$p"; done
done
