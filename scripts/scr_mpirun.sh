#!/bin/bash
#SBATCH --nodes=4 --time=12:00:00
#SBATCH --signal=B:TERM@600
#
# Without scr_run: one run, and at its end what is only in the nodes is brought
# home. Copy this, and change what is above the line.
#
# For mpirun of Open MPI and of MPICH, under Slurm or another manager. Without a
# manager name the nodes in a file: export SCR_HOST_FILE=nodes.txt

export SCR_PREFIX=${SCR_PREFIX:-$PWD}
export SLURM_OVERLAP=1      # steps of a lost node hold its processors

launch() { # becomes the launcher
    local hosts variables
    hosts=$(scr_glob_hosts --expand "$(scr_env --nodes)")
    # Open MPI does not hand all variables on to other nodes.
    mapfile -t variables < <(env | grep '^SCR_')
    exec mpirun -host "${hosts// /:2,}:2" -n 8 env "${variables[@]}" ./app
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
