# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 40 s
#
# Ranks wait for debuggers after a checkpoint or a restart: the four scenarios of docs/debugging.md, with gdb on
# all ranks, and after one that scr_checkpoint --attach asks for.
. "$(dirname "$0")/lib.bash"

if ! command -v gdb >/dev/null; then
    echo "not ok gdb is not installed (apt install gdb)"
    exit 1
fi
here=$ROOT/test/scripts
is "debugged.c builds" "$MPICC" -std=c99 -pthread -Wall -Wextra -Werror -g -O0 -I"$BUILD" "$here/debugged.c" -o "$WORK/debugged" -L"$BUILD" -lscr_cr -lscr -Wl,-rpath,"$BUILD"
is "... without the library" "$MPICC" -std=c99 -pthread -Wall -Wextra -Werror -g -O0 -I"$BUILD" "$here/debugged.c" -o "$WORK/plain" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks=2
mpirun=("mpirun.$MPI" -n "$ranks")
[ "$MPI" != openmpi ] || mpirun+=(--oversubscribe)
prefix=$WORK/prefix
export SCR_JOB_ID=debug.$$ SCR_CNTL_BASE=$WORK/node SCR_CACHE_BASE=$WORK/node SCR_FLUSH=1
mkdir "$prefix" "$WORK/node"
cd "$prefix" || exit 1
trap 'kill "$job" 2>/dev/null' EXIT

begin() { # COMMAND...
    : >"$WORK/err"
    : >"$WORK/gdb"
    : >"$WORK/out" # here: the job opens it later, and until then it has the processes of the last one
    timeout 3000 "$@" >"$WORK/out" 2>"$WORK/err" </dev/null &
    job=$!
}
ends() {
    local i
    for ((i = 0; i < 27000; i++)); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    ! kill -0 "$job" 2>/dev/null || hangs
    wait "$job"
    status=$?
}
# Where the processes are that do not end, and what the last debuggers have said.
hangs() {
    local p
    echo "the job hangs"
    cat "$WORK/gdb"
    for p in $({ pids; processes; } | sort -u); do
        grep -H 'State\|TracerPid' /proc/"$p"/task/*/status
        timeout 600 gdb -nx -batch -p "$p" -ex "print go_on" -ex "print MPIR_checkpoint_debug_gate" -ex "thread apply all bt" 2>&1
    done
}
ended() { same 0 "$status" || { cat "$WORK/out" "$WORK/err"; return 1; }; }
processes() { sed -n 's/^.*MPIR_debug_info) .*:\([0-9]*\)$/\1/p' "$WORK/err"; }
until_all() { # COMMAND...: until it prints a line for each rank, as long as the job runs
    until [ "$("$@" | wc -l)" = $ranks ]; do
        kill -0 "$job" || { cat "$WORK/out" "$WORK/err"; return 1; }
        sleep 0.05
    done
}
pids() { sed -n 's/^process //p' "$WORK/out"; }
gdbs() { # PIDS COMMAND...: gdb on each process; again if a gdb does not end
    local pid c i args=()
    for c in "${@:2}"; do args+=(-ex "$c"); done
    : >"$WORK/gdb"
    for pid in $1; do
        for i in 1 2 3; do
            timeout 600 gdb -nx -batch -p "$pid" "${args[@]}" >"$WORK/gdb.one" 2>&1
            [ $? = 124 ] || break
            echo "gdb on $pid did not end (try $i)"
            cat "$WORK/gdb.one"
        done
        cat "$WORK/gdb.one" >>"$WORK/gdb"
    done
}
said() { same "$1" "$(grep -c -- "$2" "$WORK/gdb")" || { cat "$WORK/gdb"; return 1; }; } # TIMES TEXT
none() { same "" "$(grep MPIR_debug "$WORK/err")"; }

begin "${mpirun[@]}" "$WORK/debugged" 3
ends
is "1: without a debugger the program writes a checkpoint" ended
is "... and does not wait" none

for time in first second; do
    begin "$BUILD/scr" restart --crdebug "$prefix"
    is "2: restarted for debuggers, all ranks wait, the $time time" until_all processes
    gdbs "$(processes)" "print MPIR_checkpointable" "printf \"%s; %s; %s\n\", MPIR_checkpoint_command, MPIR_restart_command, MPIR_checkpoint_listing_command" \
        bt "break work" "set var MPIR_checkpoint_debug_gate=1" continue "print at_step" detach
    is "... in the function for it" said $ranks "MPIR_checkpoint_debugger_breakpoint ("
    is "... each can be checkpointed" said $ranks '^\$1 = 1$'
    is "... by these commands" said $ranks "^scr_checkpoint -v -p $prefix; scr_restart --crdebug; scr_checkpoint -l -p $prefix\$"
    is "... and comes to a breakpoint at the same step" said $ranks '^\$2 = 3$'
    ends
    is "... it continues to its end" ended
    is "... with the same result" same "$(printf 'result 6\nresult 6\n')" "$(grep result "$WORK/out")"
done

begin "${mpirun[@]}" "$WORK/debugged" 6 wait
is "3: a program that waits for a debugger" until_all pids
gdbs "$(pids)" "set var MPIR_debug_with_checkpoint=1" "set var go_on=1" "break MPIR_checkpoint_debugger_detach" detach
is "... all ranks wait after its checkpoint" until_all processes
gdbs "$(processes)" bt "print at_step" "set var MPIR_debug_with_checkpoint=1" "set var MPIR_checkpoint_debug_gate=1" detach
is "... in the function for it" said $ranks "MPIR_checkpoint_debugger_breakpoint ("
is "... at the step of the checkpoint" said $ranks '^\$1 = 6$'
ends
is "... and continue" ended

begin "${mpirun[@]}" "$WORK/debugged" 9 wait
is "4: a debugger that does not come back" until_all pids
gdbs "$(pids)" "set var MPIR_debug_with_checkpoint=1" "set var MPIR_debug_with_checkpoint=0" "set var go_on=1" detach
ends
is "... the ranks do not wait" ended
is "... and print nothing" none

begin "${mpirun[@]}" "$WORK/debugged" 9 early
ends
is "5: a gate that is opened as soon as it is closed stays open" ended
is "... the ranks have waited" same $ranks "$(processes | wc -l)"

# thread_stands: in each process the thread that counts is stopped.
thread_stands() {
    gdbs "$(processes)" "thread apply all bt"
    [ "$(awk '/^Thread / { stands = 0 } / stand \(/ { stands = 1 } / count \(/ && stands { print }' "$WORK/gdb" | wc -l)" = $ranks ]
}
stands() {
    until thread_stands; do
        kill -0 "$job" || { cat "$WORK/out" "$WORK/err" "$WORK/gdb"; return 1; }
    done
}
attach() { timeout 600 "$BUILD/scr_checkpoint" --attach -p "$prefix" >"$WORK/answer" 2>&1 || { cat "$WORK/answer" "$WORK/err"; return 1; }; }
listed() { same "$(pids | sort)" "$(sed -n "s/^[^ ]* \([0-9]*\)$/\1/p" "$WORK/answer" | sort)" || { cat "$WORK/answer"; return 1; }; }
counted() {
    gdbs "$(processes)" "print counted" detach
    grep '^\$1 = [0-9]' "$WORK/gdb"
}
no_gates() { same "" "$(find "$prefix/.scr/stopped" -name '*.scr')"; }

begin "${mpirun[@]}" "$WORK/debugged" 12 ask
is "--attach: a program that is asked" until_all pids
is "... for a checkpoint after which it waits" attach
is "... the command prints its processes" listed
is "... and so do they" until_all processes
is "... which are the same" same "$(pids | sort)" "$(processes | sort)"
is "... and all their threads wait" stands
first=$(counted)
is "... at any time" same "$first" "$(counted)"
is "... of each rank" same $ranks "$(wc -l <<<"$first")"
gdbs "$(processes)" bt "break work" "set var MPIR_checkpoint_debug_gate=1" continue "print at_step" detach
is "... in the function for it" said $ranks "MPIR_checkpoint_debugger_breakpoint ("
is "... until a debugger opens the gate, from the step of the checkpoint on" said $ranks '^\$1 = 12$'
ends
is "... they continue" ended
is "... with the right result" same "$(printf 'result 24\nresult 24\n')" "$(grep result "$WORK/out")"
is "... and leave no record" no_gates

begin "${mpirun[@]}" "$WORK/debugged" 15 ask
until_all pids
is "--attach again" attach
is "... all ranks wait" until_all processes
is "... and are continued without a debugger" timeout 600 "$BUILD/scr_checkpoint" --continue -p "$prefix"
ends
is "... they continue" ended
is "... and leave no record" no_gates

begin "${mpirun[@]}" "$WORK/plain" 18 ask
until_all pids
is "--attach without libscr_cr.so stops the ranks" attach
is "... the command prints its processes" listed
is "... they do not say that they wait" none
is "... and are continued" timeout 600 "$BUILD/scr_checkpoint" --continue -p "$prefix"
ends
is "... they continue" ended

SCR_CR_DEBUG=1 begin "${mpirun[@]}" "$WORK/plain" 12
ends
is "without libscr_cr.so the program continues" ended
is "... and is told why it does not wait" grep -q "SCR_CR_DEBUG=1: the ranks do not wait" "$WORK/err"

# A program without a header of SCR, which has the library by LD_PRELOAD, and saves itself by three functions.
is "three.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -g -O0 "$here/three.c" -o "$WORK/three" -rdynamic -lpthread
rm -rf "$prefix" "$WORK/node"
mkdir "$prefix" "$WORK/node"
cd "$prefix" || exit 1
until_computed() { # a step for the Nth time
    until [ "$(grep -c '^step ' "$WORK/err")" -ge "$1" ]; do
        kill -0 "$job" || { cat "$WORK/out" "$WORK/err"; return 1; }
        sleep 0.05
    done
}
begin "${mpirun[@]}" env LD_PRELOAD="$BUILD/libscr_cr.so" "$WORK/three" final
is "a program with three functions computes" until_computed 1
is "--attach: a checkpoint after which it waits" attach
is "... all ranks" until_all processes
is "... the command prints them" same "$(processes | sort)" "$(sed -n 's/^[^ ]* \([0-9]*\)$/\1/p' "$WORK/answer" | sort)"
gdbs "$(processes)" "thread apply all bt" "set var MPIR_checkpoint_debug_gate=1" detach
is "... in the function for it" said $ranks "MPIR_checkpoint_debugger_breakpoint ("
is "... they continue" until_computed $(($(grep -c '^step ' "$WORK/err") + 2))
: >final.end
ends
is "... to the end" ended
is "... with a result" test -s final
rm -f final final.end
for time in first second; do
    begin "$BUILD/scr" restart --crdebug "$prefix"
    is "restarted for debuggers, it waits, the $time time" until_all processes
    gdbs "$(processes)" bt "printf \"at %d\n\", (int)now.step" "set var MPIR_checkpoint_debug_gate=1" detach
    is "... in the function for it" said $ranks "MPIR_checkpoint_debugger_breakpoint ("
    is "... all ranks at the step of the checkpoint" said $ranks "^at $(sed -n 's/^restarts at step //p' "$WORK/err")\$"
    [ $time = second ] || step=$(grep '^restarts at step [1-9]' "$WORK/err")
    is "... the same each time" grep -qx "$step" "$WORK/err"
    is "... they continue" until_computed 2
    : >final.end
    ends
    is "... to the end" ended
    rm -f final final.end
done
