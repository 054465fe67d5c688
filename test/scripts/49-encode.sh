# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2034
# Test: both MPIs, 80 s
#
# Tests datasets that are protected while the program continues (SCR_ENCODE_ASYNC=1), over TCP and
# over MPI: jobs that end, and jobs that are killed before a dataset is protected.  The program is
# steps.c.
. "$(dirname "$0")/steps.bash"

is "four nodes and spares" "$TESTBED" up 4 2

prefix=$WORK/prefix log=$WORK/log id=encode$$ ranks=8
run() { steps SCR_FLUSH=0 SCR_ENCODE_ASYNC=1 SCR_ENCODE_CARRIER="$carrier" SCR_LOG_ENABLE=1 "$@"; }
says() { grep -q -- "$1" "$WORK/out" || { cat "$WORK/out"; return 1; }; }
status_says() { "$BUILD/scr_status" -p "$prefix" >"$WORK/status" 2>&1; grep -q -- "$1" "$WORK/status" || { cat "$WORK/status"; return 1; }; }
protected() { # N: all ranks know that checkpoint N is protected
    "$BUILD/scr_status" -p "$prefix" >"$WORK/status" 2>&1
    grep -q "ckpt.$1 " "$WORK/status" && ! grep -q 'until it is protected' "$WORK/status"
}
computes() { # N OPTION...: a run that computes until checkpoint N is protected
    local n=$1 job
    shift
    rm -f "$WORK/end"
    run "$@" -w "$WORK/end" &
    job=$!
    within 300 grep -qx "complete $n" "$log" && within 300 protected "$n"
    touch "$WORK/end"
    wait $job
    status=$?
}
killed() { # kills a run that computes, before checkpoint 2 is protected
    begin
    rm -f "$WORK/end"
    run SCR_FLUSH_ASYNC_BW=50k -- -t -n 2 -w "$WORK/end" &
    within 300 grep -qx 'complete 2' "$log" || cat "$WORK/out"
    is "$carrier: scr_status says that it is not protected" status_says 'ckpt.2 .*does not survive the loss of a node until it is protected'
    program | xargs kill -9
    wait $!
}
place() { "$TESTBED" nodes | sed -n "$1p"; }

for carrier in $(divided SOCKETS MPI); do
    begin
    computes 5 SCR_CACHE_SIZE=3 -- -t -n 5
    is "$carrier: a run that ends by itself" ended
    over=TCP
    [ "$carrier" = SOCKETS ] || over=MPI
    is "... protects its checkpoints while it continues, by that carrier" says "dataset 5 (ckpt.5): protected with XOR over $over, .* after the program went on"
    "$TESTBED" lose "$(place 2)" 2>/dev/null
    run -- -t -n 1
    is "... and a lost node is rebuilt" ended 5

    killed
    run -- -t -n 0
    is "$carrier: killed, no node is lost: it is used" ended 2
    is "... and protected" says 'redundancy was made again'
    "$TESTBED" lose "$(place 2)" 2>/dev/null
    : >"$log"
    run -- -t -n 0
    is "... so that a node may be lost" ended 2

    killed
    "$TESTBED" lose "$(place 2)" 2>/dev/null
    run -- -t -n 1
    is "$carrier: killed, and a node is lost: the one before is used" ended 1

    begin
    run SCR_FLUSH=1 SCR_FLUSH_ASYNC=1 SCR_CACHE_SIZE=3 -- -t -n 4
    is "$carrier: flushes in the background follow" ended
    "$TESTBED" wipe
    : >"$log"
    run -- -t -n 0
    is "... and are whole" ended 4
done

begin
carrier=MPI
computes 2 -- -n 2
is "a program with one thread that may call MPI" ended
is "... is told that this takes TCP" says 'SCR_ENCODE_CARRIER=MPI has no effect'
is "... which it does" says 'protected with XOR over TCP, '
"$TESTBED" lose "$(place 2)" 2>/dev/null
run -- -n 0
is "... which protects, too" ended 2

begin
carrier=SOCKETS
run SCR_CACHE_SIZE=3 -- -n 4
is "a program that waits, and does not compute" ended
is "... protects its checkpoints itself" says 'protected with XOR while the program waited, '
"$TESTBED" lose "$(place 3)" 2>/dev/null
run -- -n 0
is "... and a lost node is rebuilt" ended 4

# Between nodes that have addresses of their own.
if [ "$MPI" = openmpi ] && unshare --net true 2>/dev/null; then
    "$TESTBED" down
    is "four nodes with a network of their own" env TESTBED_NET=1gbit "$TESTBED" up 4 2
    carrier=SOCKETS
    begin
    computes 5 SCR_CACHE_SIZE=3 SCR_COPY_TYPE=RS SCR_SET_FAILURES=2 -- -t -n 5
    is "a run on these nodes" ended
    is "... protects its checkpoints" says 'dataset 5 (ckpt.5): protected with RS over TCP, .* after the program went on'
    "$TESTBED" lose "$(place 2)" 2>/dev/null
    "$TESTBED" lose "$(place 4)" 2>/dev/null
    run SCR_COPY_TYPE=RS SCR_SET_FAILURES=2 -- -t -n 1
    is "... and two lost nodes are rebuilt" ended 5
    begin
    run SCR_NET_INTERFACE=nosuch0 -- -n 1
    is "an interface that the nodes do not have is named" says 'nosuch0'
fi

begin
carrier=SOCKETS
run SCR_ENCODE_ASYNC=AUTO SCR_CACHE_SIZE=3 -- -n 12
is "SCR_ENCODE_ASYNC=AUTO: a run that measures both ways" ended
is "... one of them in the background" says 'dataset 3 (ckpt.3): protected with XOR .* after the program went on'
"$TESTBED" lose "$(place 2)" 2>/dev/null
: >"$log"
run SCR_ENCODE_ASYNC=AUTO -- -n 1
is "... and a lost node is rebuilt" ended 12
