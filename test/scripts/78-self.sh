# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016,SC2054
# Test: one MPI, 80 s
#
# A program that only has three functions, and is otherwise as it was written, under scr_run: killed in the middle,
# stopped and continued, ended, and started again by the command that it has named. It has the result of a job
# that nothing has happened to, bit for bit.
. "$(dirname "$0")/lib.bash"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options=(-n 3)
[ "$MPI" != openmpi ] || options+=(--oversubscribe --mca btl "self,vader")
mpirun=mpirun.$MPI
prefix=$WORK/prefix log=$WORK/log hosts=$WORK/hosts
echo "$(hostname):3" >"$hosts"
export SCR_FLUSH=0 SCR_JOB_ID=self.$$ SCR_CNTL_BASE=$WORK/node SCR_CACHE_BASE=$WORK/node SCR_HOST_FILE=$hosts SCR_MIN_NODES=1 SCR_COPY_TYPE=SINGLE
unset SCR_PREFIX
build() { "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 "$ROOT/test/scripts/three.c" -o "$WORK/$1" -rdynamic "${@:2}" -lpthread; }
is "three.c builds, with libscr_cr.so" build linked -L"$BUILD" -Wl,--no-as-needed -lscr_cr -lscr -Wl,-rpath,"$BUILD"
is "... and without" build preloaded
[ -x "$WORK/linked" ] && [ -x "$WORK/preloaded" ] || exit 1

tool() { timeout 600 "$BUILD/scr" "$@"; }
fresh() { rm -rf "$prefix" "$WORK/node"; mkdir "$prefix" "$WORK/node"; : >"$log"; }
# job PROGRAM [VARIABLE=VALUE...]: starts it under scr_run, in the background.
job() {
    local program=$WORK/$1
    shift
    cd "$prefix" || exit 1
    SCR_PREFIX=$prefix env "$@" timeout 1500 "$BUILD/scr" run "$mpirun" "${options[@]}" "${loaded[@]}" "$program" final >"$log" 2>&1 </dev/null &
    launcher=$!
    cd "$ROOT" || exit 1
}
trap 'kill $launcher 2>/dev/null' EXIT
show() { grep -v '^step' "$log" | tail -n 60; }
# logged TEXT [TIMES]: the job has said this so often; it runs, or has ended.
logged() { [ "$(grep -cE -- "$1" "$log")" -ge "${2:-1}" ]; }
until_logged() {
    until logged "$@"; do
        kill -0 "$launcher" 2>/dev/null || logged "$@" || { show; return 1; }
        sleep 0.05
    done
}
# advances: the job computes 300 more steps.
advances() {
    local steps
    steps=$(grep -c '^step ' "$log")
    until_logged '^step ' $((steps + 3))
}
asked() { # OPTION...: of scr_checkpoint, which answers
    tool checkpoint -p "$prefix" "$@" >"$WORK/out" 2>"$WORK/err" || { cat "$WORK/out" "$WORK/err"; show; return 1; }
}
processes() { running "$WORK/$1"; } # PROGRAM: of the job
states() { # PROGRAM: of its processes
    local p s
    for p in $(processes "$1"); do s=$(<"/proc/$p/stat") && s=${s##*) } && echo "${s%% *}"; done
}
all_stopped() { same "T T T" "$(states "$1" | paste -sd ' ')"; }
ends() { # the job; its status is in $status
    : >"$prefix/final.end"
    wait "$launcher"
    status=$?
}
ended() { same 0 "$status" || { show; return 1; }; }
# undisturbed PROGRAM: a job that nothing happens to has the same result after as many steps.
undisturbed() {
    local steps
    mv "$prefix/final" "$WORK/found" || { show; return 1; }
    read -r steps <"$WORK/found"
    fresh
    (cd "$prefix" && SCR_PREFIX=$prefix timeout 600 "$mpirun" "${options[@]}" "${loaded[@]}" "$WORK/$1" final "$steps" >"$log" 2>&1 </dev/null) || { show; return 1; }
    cmp "$prefix/final" "$WORK/found"
}

for program in linked preloaded; do
    loaded=()
    thread=1
    # Open MPI's daemons and MPICH's proxies are not to have the library.
    [ $program = linked ] || loaded=(env LD_PRELOAD="$BUILD/libscr_cr.so") thread=0

    fresh
    job $program SCR_CR_THREAD=$thread
    is "$program: runs" until_logged '^step '
    is "... and writes a checkpoint on demand" asked
    is "... and continues" advances
    # The process of any rank.
    victim=$(processes $program | shuf -n 1 --random-source=<(yes "$program"))
    kill -9 "$victim"
    is "$program: a rank is killed: scr_run starts it again" until_logged 'SCR: .* run 2: '
    is "... from the checkpoint" until_logged '^restarts at step [1-9]'
    is "... and it continues" advances
    ends
    is "... to its end" ended
    is "... with the result of an undisturbed job" undisturbed $program

    fresh
    job $program SCR_CR_THREAD=$thread
    is "$program: runs" until_logged '^step '
    is "... stopped after a checkpoint" asked --stop
    is "... all ranks" within 60 all_stopped $program
    is "... continued" tool checkpoint --continue -p "$prefix"
    is "... and continues" advances
    is "... another checkpoint" asked
    ends
    is "... to its end" ended
    is "... in one run" same 1 "$(grep -c 'SCR: .* run [0-9]*: .*final' "$log")"
    is "... with the result of an undisturbed job" undisturbed $program

    fresh
    again="cd $prefix && STARTED_BY=its_command exec $WORK/$program final"
    job $program SCR_CR_THREAD=$thread RESTART_COMMAND="$again"
    is "$program: names a command that restarts it" until_logged '^step '
    is "... in a checkpoint, after which it is ended" asked --term
    wait "$launcher" # the ranks end by SIGTERM, and the launcher's status tells so
    is "... and not started again by scr_run" logged 'SCR: .* the job is over: scr_checkpoint --term'
    is "... without a result" test ! -e "$prefix/final"
    is "... it was started by the user" logged '^started by the user$'
    : >"$log"
    timeout 1500 "$BUILD/scr" restart -v "$prefix" >"$log" 2>&1 </dev/null &
    launcher=$!
    is "$program: scr_restart starts it by its command" until_logged '^started by its_command$'
    is "... from the checkpoint" until_logged '^restarts at step [1-9]'
    is "... under scr_run" logged 'SCR: .* run 1: '
    is "... and it continues" advances
    # scr_run starts what it was given: here, the command.
    victim=$(processes $program | shuf -n 1 --random-source=<(yes "$program"))
    kill -9 "$victim"
    is "... a rank is killed: scr_run starts the command again" until_logged '^started by its_command$' 2
    is "... from the checkpoint" until_logged '^restarts at step [1-9]' 2
    ends
    is "... to its end" ended
    is "... with the result of an undisturbed job" undisturbed $program
done
