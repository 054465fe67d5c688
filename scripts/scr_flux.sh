#!/bin/bash
#flux: --nodes=4 --exclusive --time-limit=12h
#
# Without scr_run: one run, and at its end what is only in the nodes is brought
# home. Copy this, and change what is above the line.

export SCR_PREFIX=${SCR_PREFIX:-$PWD}

launch() { # becomes the launcher
    exec flux run -n8 -N4 ./app
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
run
scr_postrun
exit "$status"
