# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 20 s
#
# Jobs are asked from outside for checkpoints, stopped, continued, ended, and started again.
# Their results are those of an undisturbed job, bit for bit.
. "$(dirname "$0")/lib.bash"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=(-n 4)
steps=6000 # long enough that the job runs when the request of a command that is started with it is entered
case $MPI in
openmpi) options+=(--oversubscribe --mca btl "self,vader") ;;
mpich)   steps=1000 ;;
esac
mpirun=mpirun.$MPI
arguments=(-x 64 -y 64 -s "$steps" -c 20 -o final)
prefix=$WORK/prefix log=$WORK/log
# Without requests the programs write no checkpoint.
export SCR_CHECKPOINT_INTERVAL=1000000 SCR_FLUSH=0 SCR_JOB_ID=outside SCR_CNTL_BASE=$WORK/node SCR_CACHE_BASE=$WORK/node
mkdir "$WORK/node"
unset SCR_PREFIX

tool() { timeout 600 "$BUILD/scr" "$@"; }
fresh() { rm -rf "$prefix" "$WORK/node"; mkdir "$prefix" "$WORK/node"; }
# job [RUNNER...] PROGRAM: starts it in the prefix directory, in the background; its
# launcher is process $launcher.
job() {
    cd "$prefix" || exit 1
    "${@:1:$#-1}" "$mpirun" "${options[@]}" "${@: -1}" "${arguments[@]}" >"$log" 2>&1 </dev/null &
    launcher=$!
    cd "$ROOT" || exit 1
}
# two_programs RUNNER... PROGRAM: the same, with a second program, of which the last rank is.
two_programs() {
    local all=("${options[@]}")
    all[1]=3 # of -n
    ln -sf "${@: -1}" "$WORK/second"
    cd "$prefix" || exit 1
    "${@:1:$#-1}" "$mpirun" "${all[@]}" "${@: -1}" "${arguments[@]}" : -n 1 "$WORK/second" "${arguments[@]}" >"$log" 2>&1 </dev/null &
    launcher=$!
    cd "$ROOT" || exit 1
}
trap 'kill $launcher 2>/dev/null' EXIT
ends() { # the job; its status is in $status
    wait "$launcher"
    status=$?
}
ended() { same 0 "$status" || { cat "$log"; return 1; }; }
asked() { # OPTION...: of scr_checkpoint, which answers
    tool checkpoint "$@" "$launcher" >"$WORK/out" 2>"$WORK/err" || { cat "$WORK/out" "$WORK/err" "$log"; return 1; }
}
ranks() { # PROGRAM: the states of its processes, those of the job
    local p s
    for p in $(running "$1"); do
        [ "$(readlink "/proc/$p/cwd")" = "$prefix" ] || continue
        s=$(<"/proc/$p/stat") && s=${s##*) } && echo "${s%% *}"
    done
}
all_stopped() { same "T T T T" "$(ranks "$1" | paste -sd ' ')"; }
another() { # COMMAND...: as another user, in a session of its own: SIGCONT may be sent to all in a session
    setsid --wait setpriv --reuid 4712 --regid 4712 --clear-groups "$@"
}
refused() { # TEXT ARGUMENT...: of scr, by which another user gets an error
    ! another "$WORK/scr" "${@:2}" >"$WORK/err" 2>&1 && grep -- "$1" "$WORK/err" || { cat "$WORK/err"; return 1; }
}
restarted() { # OPTION...: of scr_restart, to the end
    timeout 1500 "$BUILD/scr" restart -v "$@" >"$log" 2>&1 </dev/null || { cat "$log"; return 1; }
}

for name in $(drawn 1 heat heat-fortran); do
    program=$BUILD/$name
    fresh
    job "$program"
    ends
    is "$name: an undisturbed job" ended
    mv "$prefix/final" "$WORK/reference"
    cp "$WORK/reference" "$WORK/reference.$name"

    fresh
    job "$program"
    is "$name: stopped after a checkpoint on demand, from the time it is started" asked --stop -s -v
    sed -n 's/^ *\([0-9.]* s  [a-z].*\)/   \1/p' "$WORK/err"
    is "... with its reference" same "Snapshot Ref.:   1 $prefix" "$(cat "$WORK/out")"
    is "... for debuggers too" grep -qx "MPIR_checkpoint_handle) -s 1 $prefix" "$WORK/err"
    is "... which is listed" bash -c '"$1/scr" checkpoint -l -p "$2" | grep -q "^ *1  nodes"' - "$BUILD" "$prefix"
    is "... all ranks" within 60 all_stopped "$program"
    if [ "$name" = heat ] && [ "$(id -u)" = 0 ]; then
        chmod 711 "$WORK"
        cp "$BUILD/scr" "$WORK/scr"
        is "... another user cannot ask the job for anything" refused "belongs to user root, and only that user" checkpoint -p "$prefix"
        is "... nor let it continue" refused "is of user root, and only that user" checkpoint --continue -p "$prefix"
        is "... nor find it by its launcher" refused "only that user or root can find its job" checkpoint "$launcher"
    fi
    is "... while it cannot answer, a request is taken back" bash -c '! "$1/scr" checkpoint --timeout 0.5 -p "$2" 2>"$3" && grep "within 0.5 s" "$3"' \
        - "$BUILD" "$prefix" "$WORK/err"
    tool checkpoint -p "$prefix" >"$WORK/first" 2>&1 &
    first=$!
    tool checkpoint --term -p "$prefix" >"$WORK/out" 2>"$WORK/err" &
    second=$!
    is "... and two requests are one" within 60 bash -c '"$1/scr" print "$2/.scr/request.scr" | grep -A 3 "^ *BY" | grep -q "TERM" && [ "$("$1/scr" print "$2/.scr/request.scr" | grep -c REQUESTED)" = 1 ]' \
        - "$BUILD" "$prefix"
    is "$name: continued" tool checkpoint --continue -p "$prefix"
    wait $second
    is "... and ended after a checkpoint" same 0 $?
    wait $first
    is "... for which both have asked" same "0 $(cat "$WORK/out")" "$? $(grep Snapshot "$WORK/first")"
    seq=$(sed -n 's/^Snapshot Ref.: *\([0-9]*\) .*/\1/p' "$WORK/out")
    is "... which is flushed" bash -c '"$1/scr" index -p "$2" | grep -q "^ *$3 *YES"' - "$BUILD" "$prefix" "$seq"
    ends
    is "... with status 0" ended
    is "... and without a result" test ! -e "$prefix/final"
    is "... nobody answers then" bash -c '! "$1/scr" checkpoint -p "$2"' - "$BUILD" "$prefix"
    mv "$prefix" "$WORK/moved"
    rm -rf "$WORK/node"
    is "$name: what is recorded" bash -c '"$1/scr" restart -i "$2" >"$3" && grep -q "^launcher: *$4 -n 4 " "$3" && grep -q "^ranks 0-3: *$5 -x 64 " "$3" || { cat "$3"; false; }' \
        - "$BUILD" "$WORK/moved" "$WORK/out" "$mpirun" "$program"
    if [ "$name" = heat ] && [ "$(id -u)" = 0 ]; then
        is "$name: another user can read what is recorded" bash -c '"${@:3}" >"$1" && grep -q "^launcher: *$2 -n 4 " "$1" || { cat "$1"; false; }' \
            - "$WORK/out" "$mpirun" setpriv --reuid 4712 --regid 4712 --clear-groups "$WORK/scr" restart -i "$WORK/moved"
        is "... and has to copy it" refused "belongs to user root, and a job has to write to it: copy it" restart "$WORK/moved"
        mkdir -m 777 "$WORK/theirs"
        another cp -r "$WORK/moved" "$WORK/theirs/copy" 2>/dev/null # not the files of the checkpoints, which the program lets nobody else read
        is "... which is enough to start the job" bash -c 'cd "$1/theirs" && setpriv --reuid 4712 --regid 4712 --clear-groups "$1/scr" restart -a copy >"$2" && grep -q " SCR_PREFIX=$1/theirs/copy $3 " "$2" || { cat "$2"; false; }' \
            - "$WORK" "$WORK/out" "$mpirun"
    fi
    preload=()
    if [ "$name" = heat-fortran ]; then
        preload=(--preload)
    fi
    SCR_DEBUG=1 is "$name: started again, in another place" restarted "${preload[@]}" "$WORK/moved"
    if [ "$name" = heat-fortran ]; then
        is "... from files that were in the cache before" grep -q "dataset $seq (.*: as it was in the cache" "$log"
        is "... which scr_restart has copied" grep -q "SCR: .* checkpoint $seq (.* in the caches of 1 node after" "$log"
    else
        is "... from the prefix directory" grep -q "checkpoint .*: fetched" "$log"
    fi
    is "... with the result of the undisturbed job" cmp "$WORK/reference" "$WORK/moved/final"
    rm "$WORK/moved/final"
    is "$name: a file for the launcher" bash -c 'cd "$4" && "$1/scr" restart -a -s "$2" "$3" >command' - "$BUILD" "$seq" "$WORK/moved" "$WORK"
    is "... with which it is started" timeout 1500 bash "$WORK/command"
    is "... with the same result" cmp "$WORK/reference" "$WORK/moved/final"
    rm -rf "$WORK/moved"

    fresh
    hosts=$WORK/hosts
    hostname >"$hosts"
    sed -i 's/$/:4/' "$hosts"
    begin=job
    if [ "$name" = heat-fortran ]; then
        begin=two_programs
    fi
    "$begin" env SCR_HOST_FILE="$hosts" SCR_MIN_NODES=1 "$BUILD/scr" run "$program"
    is "$name: under scr_run, ended after a checkpoint" asked --term
    ends
    is "... it is not started again" ended
    is "... because of that" grep -q "SCR: .* the job is over" "$log"
    is "... one run" same 1 "$(grep -c "SCR: [0-9:]* run [0-9]*: .*$program" "$log")"
    SCR_HOST_FILE=$hosts SCR_MIN_NODES=1 is "... and started again" restarted "$prefix"
    is "... under scr_run" grep -q "SCR: .* run 1: " "$log"
    is "... with the same result" cmp "$WORK/reference" "$prefix/final"
    if [ "$name" = heat-fortran ]; then
        is "... each rank its own program" bash -c '"$1/scr" restart -i "$2" >"$3" && grep -q "^ranks 0-2: *$4 " "$3" && grep -q "^ranks 3-3: *$5 " "$3" || { cat "$3"; false; }' \
            - "$BUILD" "$prefix" "$WORK/out" "$program" "$WORK/second"
    fi
done

# Another user, who may only read the prefix directory and the program, continues from a checkpoint.
if [ "$(id -u)" = 0 ] && [ -e "$WORK/reference.heat" ]; then
    mkdir -m 755 "$WORK/shared"
    cp "$BUILD/heat" "$BUILD/libscr.so" "$BUILD/scr" "$WORK/shared"
    fresh
    job "$WORK/shared/heat"
    is "a job for somebody else to continue with" asked --term
    ends
    is "... is ended" ended
    chmod -R go=rX "$prefix"
    rm -rf "$WORK/theirs" "$WORK/node"
    mkdir -m 711 "$WORK/theirs"
    chown 4712:4712 "$WORK/theirs"
    theirs() { another env HOME="$WORK/theirs" USER=somebody SCR_CNTL_BASE="$WORK/theirs/node" SCR_CACHE_BASE="$WORK/theirs/node" SCR_DEBUG=1 timeout 1500 "$@"; }
    is "... another user may not write there" bash -c '! "${@:2}" touch "$1/x" 2>/dev/null && [ ! -e "$1/x" ]' - "$prefix" setpriv --reuid 4712 --regid 4712 --clear-groups
    before=$(find "$prefix" -type f -printf '%P %T@ %i\n' | sort)
    is "... copies it" theirs cp -r "$prefix" "$WORK/theirs/copy"
    theirs "$WORK/shared/scr" restart -v "$WORK/theirs/copy" >"$log" 2>&1 </dev/null
    status=$?
    is "... and starts the job, which ends" ended
    is "... from the checkpoint" grep -q 'restarted from heat\.' "$log"
    is "... with the result of the undisturbed job" cmp "$WORK/reference.heat" "$WORK/theirs/copy/final"
    is "... which is theirs, as all else" same "" "$(find "$WORK/theirs" ! -uid 4712)"
    is "... without a warning" same "" "$(grep -i 'SCR: .*\(permission\|not permitted\|cannot\)' "$log")"
    is "... and what they could read is as it was" same "$before" "$(find "$prefix" -type f -printf '%P %T@ %i\n' | sort)"
fi

is "no job" bash -c '! "$1/scr" checkpoint -p "$2" 2>"$3" && grep "no job that uses goscr runs" "$3"' - "$BUILD" "$prefix" "$WORK/err"
is "no such process" bash -c '! "$1/scr" checkpoint 4194303 2>"$2" && grep "no process 4194303" "$2"' - "$BUILD" "$WORK/err"
is "nothing to restart" bash -c 'mkdir "$2" && ! "$1/scr" restart "$2" 2>"$3" && grep "no checkpoint in" "$3"' - "$BUILD" "$WORK/empty" "$WORK/err"
