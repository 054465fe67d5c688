#!/bin/bash
#BSUB -nnodes 5 -W 12:00
#BSUB -wa TERM -wt 10
#
# What scr_run does, in plain words: a program that fails is started again on the
# nodes that are left, and at the end what is only in the nodes is brought home.
# For those who want to change something about that; others had better use
#
#     scr_jsrun -n4 -a2 -c2 ./app
#
# which also ends runs that hang or fail time after time, and passes over a
# checkpoint that the program dies of. Copy this, and change what is above the line.

export SCR_PREFIX=${SCR_PREFIX:-$PWD}
export SCR_MIN_NODES=4      # what the program needs; the others are spares
most=10                     # runs
down=''                     # nodes not to be used

launch() { # becomes the launcher
    local list
    list=$(scr_glob_hosts --expand "$down")
    exec jsrun ${list:+--exclude_hosts="${list// /,}"} -n4 -a2 -c2 ./app
}

# ------------------------------------------------- the same for every launcher

# A signal is passed on. For that the launcher runs in the background, as bash
# looks at signals between commands only. If it has not ended $grace seconds
# later it is killed, because time is needed to bring checkpoints home.
grace=60
stopped=''
trap 'stopped=yes; kill -TERM "$!" 2>/dev/null' TERM INT HUP

run() { # sets status
    local pid left
    launch &
    pid=$!
    wait "$pid"
    status=$?
    [ -n "$stopped" ] || return
    for ((left = grace; left > 0; left--)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 1
    done
    kill -KILL "$pid" 2>/dev/null
    wait "$pid"
    status=$?
}

scr_prerun || exit
status=1
for ((n = 0; n < most; n++)); do
    # A node that was down once is not used again.
    found=$(scr_list_down_nodes -d "$down")
    down=${found:-$down}
    if why=$(scr_should_exit -d "$down"); then
        echo "not started again: $why" >&2
        break
    fi
    [ -z "$stopped" ] || break
    run
    echo "run $((n + 1)) of at most $most: status $status" >&2
    # Done, to be ended, or ended as somebody wanted it.
    if [ "$status" = 0 ] || [ -n "$stopped" ] || scr_retries_halt >&2; then
        break
    fi
done
scr_postrun -d "$down"
exit "$status"
