#!/bin/bash
#SBATCH --nodes=5 --no-kill --time=12:00:00
#
# A job script as they were written for SCR 3.1, for sites that have such scripts: it uses
# only options that the commands of SCR 3.1 have, and does what its scripts do, step by
# step. The prefix directory is the current directory, and all arguments are srun's:
#
#     sbatch srun_loop.sh --mpi=pmix --overlap --kill-on-bad-exit -n8 -N4 ./app
#
# It never looks at the status of srun. That the program has finished it learns from
# scr_should_exit, which reads what SCR_Finalize has left in the prefix directory.
#
# For a new script copy scr_srun_loop.sh (share/goscr/scripts), or use scr_srun.
set -x

prefix=$PWD
launcher=srun
runs=5                  # maximum number of runs
pause=${PAUSE:-60}      # seconds that Slurm has to find out which nodes are down
down=''                 # these nodes, as one list

# 1. Prepare the prefix directory.
if ! scr_prerun -p "$prefix" -v; then
    echo "$0: the job cannot be started" >&2
    exit 1
fi

while true; do
    # 2. Run the program on nodes that are up.
    srun ${down:+--exclude "$down"} "$@"

    # 3. Has it finished, or is there another reason to stop?
    runs=$((runs - 1))
    if scr_should_exit -p "$prefix" --runs "$runs" -v; then
        break
    fi

    # 4. Give Slurm time, and 5. find nodes that are down; these stay in the list.
    sleep "$pause"
    down=$(scr_list_down_nodes -j "$launcher" -v ${down:+--down "$down"})

    # 6. Are enough nodes left?
    if scr_should_exit -p "$prefix" ${down:+--down "$down"} -v; then
        break
    fi
done

# 7. Copy to the prefix directory what is only on the nodes.
scr_postrun -p "$prefix" -j "$launcher" -v
