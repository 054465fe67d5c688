# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2034,SC2154
# Test: one MPI, 20 s
#
# Jobs and commands that wait for other processes: a rank of an earlier run that still
# lives, an scr_transfer that is stopped, another user who locks what he can read. Each
# says for whom it waits, and ends. steps.c has the program.
. "$(dirname "$0")/steps.bash"

is "two nodes" "$TESTBED" up 2

prefix=$WORK/prefix log=$WORK/log id=locks$$ ranks=4
begin
by=(env -u TESTBED_JOB)
run() { steps SCR_FLUSH=1 "$@"; }
well() { run "$@"; [ "$status" = 0 ] || { echo "status $status"; cat "$WORK/out"; return 1; }; }
refused() { run SCR_WAIT_SECONDS=2 "$@"; [ "$status" != 0 ] && [ "$status" != 124 ] || { echo "status $status"; cat "$WORK/out"; return 1; }; }
said() { grep -qE -- "$1" "$WORK/out" || { cat "$WORK/out"; return 1; }; }
launchers() { # PID: the processes that have started a rank, and each other
    local p=$1
    while [ "$p" -gt 1 ]; do
        p=$(ps -o ppid= -p "$p" | tr -d ' ')
        case $(basename "$(readlink "/proc/$p/exe")") in
        mpirun*|orte*|hydra*|mpiexec*) echo "$p" ;;
        esac
    done
}
gone() { [ -z "$(program)" ]; }

is "a job" well -- -n 1

# All ranks are stopped while the job runs, and all but one killed, with the launcher:
# whichever rank it is that lives, it is seen.
for which in $(drawn 2 1 2 3 4); do
    : >"$log"
    by=(env -u TESTBED_JOB setsid --wait) # else the kernel lets stopped ranks continue when the launcher ends
    run -- -n 1000000 &
    job=$! by=(env -u TESTBED_JOB)
    is "a job that has begun" within 120 grep -q '^complete' "$log"
    mapfile -t all < <(program)
    is "... has 4 ranks" same 4 "${#all[@]}"
    orphan=${all[which - 1]}
    mapfile -t launchers < <(for p in "${all[@]}"; do launchers "$p"; done | sort -u)
    kill -STOP "${all[@]}"
    kill -KILL "${launchers[@]}" # first: a launcher would end the ranks
    for p in "${all[@]}"; do [ "$p" = "$orphan" ] || kill -KILL "$p"; done
    wait "$job"
    is "... and then one, stopped" within 60 grep -q '^State:.T' "/proc/$orphan/status"
    is "... while rank $which lives, the next job does not begin" refused -- -n 1
    is "... and says which process to end" said "process $orphan on [^ ]+ is still running( on this node)?, as a rank of an earlier run"
    is "... after it has said that it waits" said "waiting for process $orphan on "
    kill -KILL "$orphan"
    is "... once it has been killed" within 60 gone
    is "... the next job begins" well -- -n 1
done

# Another user can read the metadata, and lock what he reads.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$WORK" "$prefix" "$prefix/.scr"
    touch "$WORK/holds" && chmod 666 "$WORK/holds"
    cat >"$WORK/hold.py" <<'END'
import fcntl, glob, sys, time
kept, failed = [], 0
for path in glob.glob(sys.argv[1] + "/.scr/*.scr*"):
    try:
        f = open(path)
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
        kept.append(f)
    except PermissionError:
        failed += 1
open(sys.argv[2], "w").write("%d %d\n" % (len(kept), failed))
time.sleep(100000)
END
    setpriv --reuid 4711 --regid 4711 --clear-groups /usr/bin/python3 "$WORK/hold.py" "$prefix" "$WORK/holds" &
    other=$!
    is "another user" within 60 test -s "$WORK/holds"
    is "... has locked files of data, and was not let at locks" grep -qE '^[1-9][0-9]* [1-9]' "$WORK/holds"
    is "... a job does not wait" well -- -n 1
    is "... nor says that it does" bash -c '! grep "waiting for process $2 on" "$1"' - "$WORK/out" "$other"
    is "... nor does scr_index" "$BUILD/scr_index" -p "$prefix" --current "$("$BUILD/scr_index" -p "$prefix" | grep ' YES ' | grep -o 'ckpt\.[0-9]*$' | tail -n 1)"
    is "... nor scr_halt" "$BUILD/scr_halt" --next "$prefix"
    is "... nor scr_halt --remove" "$BUILD/scr_halt" --remove "$prefix"
    kill "$other"
fi

# An scr_transfer that copies for an earlier run and is stopped.
# The flush begins before an scr_transfer holds the lock of its node, and before that it may
# not copy: a job need not wait for it.
copies() { # how many nodes have an scr_transfer that copies
    find "$TESTBED_DIR/nodes" -path "*/scr.$id/transfer.scrinfo" \
        -exec "$BUILD/scr_print_hash_file" {} \; | grep -c RUNNING
}
copying() { "$BUILD/scr_flush_file" --dir "$prefix" --location "$1" | grep -q FLUSHING && [ "$(copies)" = 2 ]; }
idle() { [ -z "$(transfers)" ]; }
slow=(SCR_FLUSH_ASYNC=1 SCR_FLUSH_TYPE=DAEMON SCR_FLUSH_ASYNC_BW=1)
: >"$log"
run "${slow[@]}" -- -n 1 & # its SCR_Finalize waits for the flush
job=$!
is "a job that flushes in the background" within 120 grep -q '^complete' "$log"
step=$(awk '$1 == "complete" { n = $2 } END { print n }' "$log")
number=$("$BUILD/scr_flush_file" --dir "$prefix" --latest)
is "... by scr_transfer" within 120 copying "$number"
mapfile -t all < <(transfers)
kill -STOP "${all[@]}"
program | xargs kill -KILL
wait "$job"
is "... which is stopped: the next job does not begin" refused SCR_FLUSH_ASYNC=1 SCR_FLUSH_TYPE=DAEMON -- -n 1
is "... and says which process to end, or to let continue" said "process [0-9]+ on [^ ]+, which is stopped \(kill -CONT [0-9]+ lets it continue\), to "
kill -CONT "${all[@]}"
is "... then it begins" well SCR_FLUSH_ASYNC=1 SCR_FLUSH_TYPE=DAEMON -- -n 1
is "... from where the other has ended" grep -qx "restarted $step" "$log"
is "... and nothing copies any more" within 60 idle
