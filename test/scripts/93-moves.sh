# shellcheck shell=bash
# shellcheck disable=SC1091,SC2154
# Test: one MPI, 20 s
#
# A program asks scr_run to move its ranks to other nodes, by OMPI_CR_Migrate, on simulated nodes with a
# network of their own; and scr_migrate moves the ranks of a program that only has three functions. The
# caches have no redundancy, so that files that do not arrive are lost.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/slurm.bash"

is "moves.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 -I"$BUILD" "$ROOT/test/scripts/moves.c" -o "$WORK/moves" -rdynamic \
    -L"$BUILD" -lscr_cr -lscr -lpthread -Wl,-rpath,"$BUILD"
is "three.c builds" "$MPICC" -std=c99 -Wall -Wextra -Werror -O1 "$ROOT/test/scripts/three.c" -o "$WORK/three" -rdynamic -lpthread
slurm up 3 || { echo "not ok slurm"; exit 1; }
# With ranks on several nodes MPICH 4.0.2 of Debian 12 sometimes hangs in MPI_Finalize, without goscr too: three.c
# did so over TCP, when it had written its result. So with MPICH all ranks are on one node, and all move.
launch=(mpirun.openmpi --mca plm rsh -n 4) nodes=2
printf 'node%d slots=2\n' 0 1 2 >"$WORK/hosts"
if [ "$MPI" != openmpi ]; then
    launch=(mpirun.mpich -launcher ssh -n 2) nodes=1
    printf 'node%d:2\n' 0 1 2 >"$WORK/hosts"
fi
under_run() { # NAME PROGRAM...
    local name=$1
    shift
    fresh
    outside SCR_JOB_ID="$name" SCR_HOST_FILE="$WORK/hosts" SCR_MIN_NODES="$nodes" SCR_COPY_TYPE=SINGLE SCR_FLUSH=0 -- "$BUILD/scr_run" "${launch[@]}" "$@"
}
moves() { under_run "$1" "$WORK/moves" "${@:2}"; } # NAME ARGUMENT...: of the program
ended_on() { # NODE...: of each rank
    local rank=0 node
    for node; do
        said "rank $rank ends right on $node\$" || { show; return 1; }
        rank=$((rank + 1))
    done
}
on=(node0 node0 node2 node2) place=node1 # of ranks 0 to 3, after the last rank's node was left
[ "$MPI" = openmpi ] || on=(node1 node1) place=node0
moves off off
is "OMPI_CR_Migrate with CR_OFF_NODE: the ranks leave their node" ends 0 'recovery: MIGRATE: ' 'run 2: exit status 0'
is "... to the spare one, with the right results" ended_on "${on[@]}"
moves all all node2
is "OMPI_CR_Migrate with a host name: all ranks go there" ends 0 'recovery: MIGRATE: ' 'run 2: exit status 0'
is "... with the right results" ended_on "${on[@]/*/node2}"
if [ "$MPI" = openmpi ]; then
    moves host host node2
    is "OMPI_CR_Migrate with a host name: a rank goes there" ends 0 'recovery: MIGRATE: ' 'run 2: exit status 0'
    is "... alone, with the right results" ended_on node0 node0 node1 node2
    moves near near 0
    is "OMPI_CR_Migrate with a rank: a rank goes to that one's node" ends 0 'recovery: MIGRATE: ' 'run 2: exit status 0'
    is "... alone, with the right results" ended_on node0 node0 node1 node0
    moves neighbour neighbour
    is "OMPI_CR_Migrate, in which each rank names another one" ends 0 'recovery: MIGRATE: ' 'run 2: exit status 0'
    is "... they go there, with the right results" ended_on node1 node1 node0 node0
    moves mixed mixed
    is "OMPI_CR_Migrate off a node and onto another, in one call, is an error" ends 0 'SCR_CR_Migrate: some ranks name a node, and others are to go off theirs' 'run 1: exit status 0'
    is "... and the ranks stay" ended_on node0 node0 node1 node1
fi

# Nothing of goscr is in this program, whose ranks have the library by LD_PRELOAD.
under_run three env LD_PRELOAD="$BUILD/libscr_cr.so" "$WORK/three" "$prefix/final"
until_said '^step '
is "scr_migrate moves the ranks of a program that only has three functions" \
    slurm exec head timeout 1000 "$BUILD/scr_migrate" -p "$prefix" --off "$place"
slurm cut "$place" 2>/dev/null
: >"$prefix/final.end"
is "... whose old node then loses power: the job does not notice" ends 0 'recovery: MIGRATE: ' '^restarts at step [1-9]' 'run 2: exit status 0'
mv "$prefix/final" "$WORK/found"
read -r steps <"$WORK/found"
slurm down && slurm up 3 2>/dev/null
fresh
hosts=(--hostfile "$WORK/hosts")
[ "$MPI" = openmpi ] || hosts=(-f "$WORK/hosts")
outside -- "${launch[0]}" "${hosts[@]}" "${launch[@]:1}" "$WORK/three" "$prefix/final" "$steps"
is "... without the library, and with nothing that happens" ends 0
is "... the program has the same result" cmp "$prefix/final" "$WORK/found"
