# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2054
# Test: both MPIs, 80 s
#
# Programs that take part in their checkpoints, by libscr_cr.so.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
is "inside.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$here/inside.c" -o "$WORK/inside" \
    -L"$BUILD" -lscr_cr -lscr -Wl,-rpath,"$BUILD"

prefix=$WORK/prefix
mkdir "$prefix"
ranks=3
"$TESTBED" up "$ranks" 3
job() { # PART: runs it on 3 ranks; the ranks' lines are in $WORK/out, in their order
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 300 -n "$ranks" --env SCR_PREFIX="$prefix" \
        --env SCR_COPY_TYPE=XOR -- "$WORK/inside" "$1") </dev/null >"$WORK/out" 2>"$WORK/err"
}
said() { grep "^$1 " "$WORK/out" | cut -d' ' -f2-; } # RANK

both() { printf 'upper %s\nlower %s\n' "$1" "$1"; }
prepare() { both "pre/pre prepare" && both "pre/post prepare"; }
outcome() { both "post/pre $1" && both "post/post $1"; }
program() { printf 'program %s %s\n' "$1" "${2:-1}"; }
expected() { # what each rank says of callbacks
    program SCR_Init 0; program "wrong event"
    program good; prepare; program start 0; program "misplaced start"; program "misplaced complete"; outcome continue; program complete 0
    program refused; prepare; outcome error; program "start fails"; program "which rank it was is said"
    program invalid; prepare; program start 0; outcome error; program "complete fails"
    program output; program start 0; program complete 0
    program unfinished; prepare; program start 0
    outcome error
    program "SCR_Finalize fails"; program ends 0
}
job callbacks
for ((rank = 0; rank < ranks; rank++)); do
    is "rank $rank: callbacks are called around checkpoints, once each" same "$(expected)" "$(said $rank)"
done
is "the rank that refuses says so, once" same 1 "$(grep -c 'SCR_Start_output: .*the INC callback of PRE_CRS_POST_MPI returned 5' "$WORK/err")"

expected_restart() { program SCR_Init 0; program have; outcome restart; program complete 0; program SCR_Finalize 0; program ends 0; }
job restart
for ((rank = 0; rank < ranks; rank++)); do
    is "rank $rank: callbacks hear of a restart" same "$(expected_restart)" "$(said $rank)"
done

# The example to which docs/inside.md refers: the run after one that lost a node has the result of an undisturbed job.
is "heat-self builds" make -s --no-print-directory -C "$ROOT" BUILD="$BUILD" MPICC="$MPICC" "$BUILD/heat-self"
heat() { # STEPS RESULT
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 300 -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR --env SCR_DEBUG=1 \
        --env SCR_CR_THREAD=0 --env SCR_CHECKPOINT_SECONDS=1 -- "$BUILD/heat-self" "$1" "$2") </dev/null >"$WORK/out" 2>&1
}
rm -rf "$prefix" && mkdir "$prefix" && "$TESTBED" wipe
heat 1000000000 "$WORK/lost" &
is "heat-self writes checkpoints" within 120 grep -q 'dataset 2 .*protected with XOR' "$WORK/out"
is "... and loses a node" "$TESTBED" lose node1
! wait $!
is "heat-self: a job that loses a node has no result" test ! -e "$WORK/lost"
heat 1 "$WORK/saved"
step=$(sed -n 's/^continues after step //p' "$WORK/out")
is "... the next one continues from a checkpoint" test "${step:-0}" -gt 0
heat "$((step + 500))" "$WORK/continued"
is "... and so does another one" grep '^continues after step' "$WORK/out"
rm -rf "$prefix" && mkdir "$prefix" && "$TESTBED" wipe
heat "$((step + 500))" "$WORK/undisturbed"
is "... which has the result of an undisturbed job" cmp "$WORK/undisturbed" "$WORK/continued"
rm -rf "$prefix"
"$TESTBED" wipe

# A program that saves and restores itself by three functions, and is written for Open MPI.
# shellcheck disable=SC2054
flags=(-std=c99 -D_XOPEN_SOURCE=700 -Wall -Wextra -O1 -I"$BUILD" -include scr_cr.h "$here/self.c" -rdynamic -L"$BUILD" -lscr_cr -lscr -Wl,-rpath,"$BUILD")
is "self.c builds" "$MPICC" "${flags[@]}" -o "$WORK/self"
is "... with functions that it registers" "$MPICC" "${flags[@]}" -DREGISTER -o "$WORK/registers"
is "... with functions of other names" "$MPICC" "${flags[@]}" -Dopal_crs_self_user_checkpoint=own_checkpoint \
    -Dopal_crs_self_user_continue=own_continue -Dopal_crs_self_user_restart=own_restart -o "$WORK/renamed"
self() { # PROGRAM ARG...: runs it, as job does
    mkdir -p "$prefix" "$WORK/elsewhere"
    (cd "$WORK/elsewhere" && exec "$TESTBED" run --mpi "$MPI" --timeout 300 -n "$ranks" --env SCR_PREFIX="$prefix" --env SCR_CACHE_SIZE=3 \
        --env SCR_FLUSH=1 --env SCR_COPY_TYPE=XOR "${vars[@]}" -- "$@") </dev/null >"$WORK/out" 2>"$WORK/err"
}
vars=()
checkpoint() { printf '%s\n' "continues $1" "checkpoint $2" "handle 0"; } # STEP NUMBER
all_say() { # NAME LINES: what each rank says
    local rank
    for ((rank = 0; rank < ranks; rank++)); do is "$1, rank $rank" same "$2" "$(said $rank)"; done
}
for program in $(divided self registers renamed); do
    rm -rf "$prefix"
    "$TESTBED" wipe
    vars=()
    [ $program != renamed ] || vars=(--env SCR_CR_SELF_PREFIX=own)
    self "$WORK/$program" 4
    all_say "$program: writes checkpoints" "$(checkpoint 2 1; checkpoint 4 2; echo ends 4)"
    is "... which have the files of each rank" same "1 2 3" \
        "$(for ((r = 0; r < ranks; r++)); do find "$prefix/scr.dataset.2/rank_$r.files" -type f | wc -l; done | paste -sd ' ')"
    is "... and only there" same "" "$(find "$WORK/elsewhere" -type f)"
    "$TESTBED" lose node1
    self "$WORK/$program" 6
    all_say "$program: restarts after the loss of a node" "$(echo restarts 4; checkpoint 6 3; echo ends 6)"
    self "$WORK/$program" 8 bad 6
    all_say "$program: restarts from an older checkpoint if a rank cannot use the newest" \
        "$(echo restarts 6; echo restarts 4; checkpoint 6 4; checkpoint 8 5; echo ends 8)"
done
vars=(--env RESTART_COMMAND="$WORK/self 12")
self "$WORK/self" 12 10
vars=()
all_say "a function that fails on one rank is an error on all" \
    "$(echo restarts 8; printf '%s\n' "continues 10" "checkpoint -1"; checkpoint 12 7; echo ends 12)"
is "... which says why" grep -q "the program's checkpoint function returned 9" "$WORK/err"
is "how the program restarts is recorded for scr_restart" grep "^restart command: *$WORK/self 12\$" <("$BUILD/scr_restart" -i "$prefix" 2>&1)
self "$WORK/renamed" 14
is "without the functions a checkpoint is an error" grep -q "the program has no function that saves it" "$WORK/err"
all_say "... and the program continues" "$(printf '%s\n' "checkpoint -1" "checkpoint -1" "checkpoint -1" "checkpoint -1" \
    "checkpoint -1" "checkpoint -1" "checkpoint -1" "ends 14")"
"$TESTBED" wipe
self "$WORK/self" 12
all_say "... and the checkpoints stay" "$(echo restarts 12; echo ends 12)"

# A program that only has the functions, and does not call: requests from outside, and intervals.
is "asked.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$here/asked.c" -o "$WORK/asked" -rdynamic -L"$BUILD" -Wl,--no-as-needed -lscr_cr -lscr \
    -lpthread -Wl,-rpath,"$BUILD"
fresh() { "$TESTBED" wipe; rm -rf "$prefix"; mkdir "$prefix"; }
in_background() { # CALLS [MODE]: the program
    : >"$WORK/err"
    self "$WORK/asked" "$@" &
    job=$!
    within 300 grep -q "the program has begun" "$WORK/err" >&2
}
ends() { # waits for the program; whether it has succeeded is for `ended`
    wait "$job"
    status=$?
}
ended() { same 0 "$status" || { cat "$WORK/out" "$WORK/err"; return 1; }; }
# By MPI_Finalize and exit(0) in the program's thread, or by SIGTERM, when that thread may be anywhere.
halted() {
    if [ $thread = 0 ]; then ended; else [ "$status" != 0 ] && [ "$status" != 124 ] && [ "$status" != 137 ] && ! grep -i segmentation "$WORK/err"; fi
}
ask() { timeout 1500 "$BUILD/scr" checkpoint -p "$prefix" "$@" >"$WORK/asked.out" 2>"$WORK/asked.err"; }
asked() { ask "$@" || { cat "$WORK/asked.out" "$WORK/asked.err" "$WORK/out" "$WORK/err"; return 1; }; }
fails_with() { # TEXT ARGUMENT...: of scr_checkpoint
    local text=$1
    shift
    ! ask "$@" && grep -- "$text" "$WORK/asked.err" || { cat "$WORK/asked.out" "$WORK/asked.err" "$WORK/out" "$WORK/err"; return 1; }
}
is "onethread.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -shared -fPIC "$here/onethread.c" -o "$WORK/onethread.so"
for thread in $(divided 1 0 MPI); do
    vars=()
    where="beside the program"
    case $thread in
    0) vars=(--env SCR_CR_THREAD=0) where="in a call of MPI" ;;
    MPI) vars=(--env SCR_CR_THREAD=0 --env LD_PRELOAD="$WORK/onethread.so") where="with an MPI for one thread" thread=0 ;;
    esac
    base=("${vars[@]}")
    fresh
    in_background 2
    is "$where: a program without a call of SCR writes a checkpoint on demand" asked
    is "... and another one" asked
    ends
    is "... and ends" ended
    all_say "..." "ends right"
    "$TESTBED" lose node1
    in_background 1
    is "... it restarts, and writes one" asked
    ends
    is "... and ends" ended
    all_say "..." "$(printf 'restarts\nends right')"
    is "... it is the third" grep -q "Snapshot Ref.: *3 " "$WORK/asked.out"

    in_background 2 fail
    is "$where: a function that fails on one rank makes the checkpoint fail" fails_with "the program.s checkpoint function returned 7"
    is "... the next one succeeds" asked
    ends
    is "... and the program ends" ended
    all_say "... having begun from the one before" "$(printf 'restarts\nends right')"

    # The limit is so long that only what hangs reaches it, since the answer names one rank. As a
    # request may fail all the same, these programs do not count them.
    limited=(--env SCR_CR_LIMIT_SECONDS=10 --env RELEASE="$WORK/release" --env END="$WORK/end")
    rm -f "$WORK/release" "$WORK/end"
    if [ $thread = 1 ]; then
        vars=("${limited[@]}")
        in_background 1 hang
        is "$where: a function that does not return makes the checkpoint fail" fails_with "function has not returned within"
        is "... and so is the next" fails_with "has not returned yet"
        touch "$WORK/release"
        is "... until it returns" within 300 ask
        touch "$WORK/end"
        ends
        is "... and the program ends" ended
        is "... whose continue function has been called after that" same "2 continues" "$(grep continues "$WORK/out")"
        rm -f "$WORK/release"* "$WORK/end"
        in_background 1 bcast
        is "$where: ranks are saved within a collective call that another has completed" fails_with "was saved within a blocking collective operation"
        is "... the next request succeeds" within 300 ask
        touch "$WORK/end"
        ends
        is "... and the program ends" ended
        vars=("${base[@]}")
    else
        vars=("${base[@]}" "${limited[@]}")
        in_background 1 hang
        is "$where: a function that does not return: the request is answered" fails_with "rank 2 has been in the program's checkpoint function since"
        is "... and so is the next" fails_with "rank 2 has been in the program's checkpoint function since"
        is "... the rank says so, once" same 1 "$(grep -c "SCR: a request .*rank 2 has been in the program's checkpoint function" "$WORK/err")"
        touch "$WORK/release"
        is "... when it returns, the checkpoint fails, and the next succeeds" within 300 ask
        touch "$WORK/end"
        ends
        is "... and the program ends" ended
        is "... which has got the error" grep -q "the program's checkpoint function has not returned within SCR_CR_LIMIT_SECONDS" "$WORK/err"
        rm -f "$WORK/release" "$WORK/end"
        vars+=(--env SCR_CR_LIMIT_ABORT=1)
        in_background 1 hang
        is "$where: with SCR_CR_LIMIT_ABORT=1 the request is answered" fails_with "rank 2 has been in the program's checkpoint function since"
        ends
        is "... and the job ends" bash -c '[ "$1" != 0 ] && grep -q "the job is ended (SCR_CR_LIMIT_ABORT=1)" "$2"' - "$status" "$WORK/err"
        vars=("${base[@]}" "${limited[@]}")
        for inside in inside last; do
            rm -f "$WORK/release" "$WORK/end"
            in_background 1 $inside
            is "$where: a rank is in a call in which its function cannot run: the request is answered ($inside)" \
                fails_with "has made no call of MPI in SCR_CR_LIMIT_SECONDS in which its function could run"
            touch "$WORK/release"
            is "... when that has ended, a request succeeds" within 300 ask
            touch "$WORK/end"
            ends
            is "... and the program ends" ended
        done
        vars=("${base[@]}")
    fi

    if [ $thread = 0 ]; then
        fresh
        vars=("${base[@]}" --env END="$WORK/end")
        rm -f "$WORK/end"
        in_background 1 scr
        is "$where: a program that calls SCR, too, is saved while a rank waits within it" asked
        is "... again" asked
        touch "$WORK/end"
        ends
        is "... and ends" ended
        all_say "..." "ends right"
        vars=("${base[@]}")
        fresh
    fi
    if [ "$where" = "with an MPI for one thread" ]; then
        rm -f "$WORK/release" "$WORK/end"
        vars=("${base[@]}" "${limited[@]}" --env HOLD="$WORK/release")
        in_background 1
        is "$where: the others give up while one rank has not voted: the request is answered" \
            fails_with "has made no call of MPI in SCR_CR_LIMIT_SECONDS in which its function could run"
        is "... it was held before it voted" grep -q "is held before it votes" "$WORK/err"
        touch "$WORK/release"
        is "... when it has voted, a request succeeds" within 300 ask
        touch "$WORK/end"
        ends
        is "... and the program ends" ended
        vars=("${base[@]}")
        fresh
    fi

    in_background 100000
    is "$where: --term ends the program after a checkpoint" asked --term
    ends
    is "... which ends no earlier" same "" "$(grep "ends [rw]" "$WORK/out")"
    fresh
    "$BUILD/scr" halt --next --checkpoints 1 "$prefix" >"$WORK/asked.out" 2>&1
    vars=("${base[@]}" --env SCR_CHECKPOINT_SECONDS=1 --env SCR_HALT_EXIT=1)
    self "$WORK/asked" 100000
    status=$?
    is "$where: SCR_HALT_EXIT=1 ends the job in a checkpoint that the program does not call for" halted
    is "... which says so" grep -q "the job ends here, since SCR_HALT_EXIT=1" "$WORK/err"
    is "... before the program's end" same "" "$(grep "ends [rw]" "$WORK/out")"
    fresh
    vars=("${base[@]}" --env SCR_CHECKPOINT_SECONDS=1)
    self "$WORK/asked" 2
    all_say "$where: by an interval" "ends right"
done

# A program that asks scr_run to start it again from an earlier checkpoint.
is "again.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$here/again.c" -o "$WORK/again" -rdynamic -L"$BUILD" -lscr_cr -lscr -Wl,-rpath,"$BUILD"
"$TESTBED" down
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun=("mpirun.$MPI" -n 2)
[ "$MPI" != openmpi ] || mpirun+=(--oversubscribe)
alone() { # COMMAND...: on this node
    rm -rf "$prefix" "$WORK/node"
    mkdir "$prefix" "$WORK/node"
    SCR_PREFIX=$prefix SCR_JOB_ID=again.$$ SCR_CNTL_BASE=$WORK/node SCR_CACHE_BASE=$WORK/node SCR_FLUSH=0 SCR_CACHE_SIZE=3 \
        timeout 1500 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
}
# MPICH's launcher says on its standard output that it was told to end the program.
printed() { same "$(printf '%s\n' "$@")" "$(grep -vE '^(=|YOUR APPLICATION|This typically|Please see|$)' "$WORK/out")" || { cat "$WORK/err"; return 1; }; }
alone "$BUILD/scr_run" "${mpirun[@]}" "$WORK/again" restart "$WORK/marker"
is "scr_run starts a program again from the checkpoint that it names" printed "restarts 2" "ends 6"
is "... because of that" grep -q "the program asks to be started again from checkpoint" "$WORK/err"
alone "${mpirun[@]}" "$WORK/again" wrong "$WORK/marker2"
is "without scr_run, and for a checkpoint that is none, it is an error" printed "4 calls fail" "migration fails 1" "ends 6"
is "... that says so" grep -q "SCR_CR_Restart: the job does not run under scr_run" "$WORK/err"
is "... and names the checkpoint" grep -q "SCR_CR_Restart: $prefix has no checkpoint 99" "$WORK/err"
