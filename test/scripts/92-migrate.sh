# shellcheck shell=bash
# shellcheck disable=SC1091,SC2154
# Test: openmpi, 40 s
#
# scr_migrate on simulated nodes with a network of their own: ranks move while the job runs,
# off a node that loses power afterwards, and onto each other's nodes. The caches have no
# redundancy (SINGLE), so that files that do not arrive are lost. Each job has to have the
# result of an undisturbed job, bit for bit.
. "$(dirname "$0")/lib.bash"

# Not with MPICH: over TCP between nodes, that of Debian 12 sometimes hangs in MPI_Finalize.
. "$(dirname "$0")/slurm.bash"

reference=$WORK/reference
heat=("$BUILD/heat" -x 256 -y 256 -s 20000 -c 100)
ssh_job() { # SETTINGS... -- COMMAND...: over ssh
    outside SCR_COPY_TYPE=SINGLE SCR_CHECKPOINT_INTERVAL=20 SCR_FLUSH=0 "$@"
}
result() { cmp "$reference" "$prefix/final"; }
migrate() { slurm exec head timeout 1000 "$BUILD/scr_migrate" -p "$prefix" "$@" >"$WORK/migrate" 2>&1; }
migrated() { # TEXT: scr_migrate has succeeded and printed this
    same 0 "$moved" && grep -qE -- "$1" "$WORK/migrate" || { grep -v '^step' "$log" | tail -n 40; cat "$WORK/migrate"; return 1; }
}

# Under load, MPI_Init sometimes fails on the new nodes: Slurm's PMIx gives up a message, and the ranks wait for it until
# the watchdog ends the run; or a rank crashes before the other one of its node has opened its shared memory, which
# ranks do in MPI_Init. That is a failure in the middle of a migration, which is cancelled; the job continues.
migrated_or_failed() {
    migrated "$1" || { said 'pmixp_p2p_send: .* exceeded the retry limit|failed during shared memory initialization' &&
        grep -q 'has ended before SCR_Init' "$WORK/migrate"; }
}

slurm up 4 || { echo "not ok slurm"; exit 1; }
printf 'node%d slots=2\n' 0 1 2 3 >"$WORK/hosts"
run=(SCR_HOST_FILE="$WORK/hosts" SCR_MIN_NODES=3 -- "$BUILD/scr_run" mpirun --mca plm rsh -n 6 "${heat[@]}")
asks() { # ARGUMENT...: of scr_checkpoint, on the head
    slurm exec head timeout 1000 "$BUILD/scr_checkpoint" "$@" >"$WORK/answer" 2>&1 && grep "^Snapshot Ref.: .* $prefix\$" "$WORK/answer" ||
        { cat "$WORK/answer"; grep -v '^step' "$log" | tail -n 40; return 1; }
}

fresh
ssh_job SCR_JOB_ID=reference "${run[@]}" -o "$prefix/final"
is "an undisturbed job" ends 0 'run 1: exit status 0'
mv "$prefix/final" "$reference"

fresh
ssh_job SCR_JOB_ID=off "${run[@]}" -o "$prefix/final"
until_said 'heat\.[0-9]+ complete'
migrate --off node1
moved=$?
is "mpirun: two ranks go to the spare node" migrated 'checkpoint heat\..*move, .*rank 2 .*B, rank 3 .*B, after that: .*SCR_Init: '
sed 's/^/   /' "$WORK/migrate"
slurm cut node1 2>/dev/null
is "... whose old node then loses power: the job does not notice" ends 0 'recovery: MIGRATE: ' 'restarted from heat\.' 'run 2: exit status 0'
is "... with the right result" result

fresh
slurm down && slurm up 4 2>/dev/null
# The programs are in Fortran, which computes the same as C.
ln -s "$BUILD/heat-fortran" "$WORK/second"
ssh_job SCR_JOB_ID=swap SCR_HOST_FILE="$WORK/hosts" SCR_MIN_NODES=3 -- "$BUILD/scr_run" mpirun --mca plm rsh -n 4 "$BUILD/heat-fortran" "${heat[@]:1}" -o "$prefix/final" \
    : -n 2 "$WORK/second" "${heat[@]:1}" -o "$prefix/final"
until_said 'heat\.[0-9]+ complete'
is "mpirun: a checkpoint on demand" asks -p "$prefix"
migrate --ranks 0,5 --onto node2,node0
moved=$?
is "two ranks of two programs, in Fortran, change places" migrated 'rank 0 in SCR_Init, rank 5 in SCR_Init'
migrate --off node9
is "a node that is none of the job's" grep -q 'node9 is not a node of the job, whose nodes are node\[0-3\]' "$WORK/migrate"
is "... and the job continues" ends 0 'restarted from heat\.' 'run 2: exit status 0'
is "... with the right result" result
migrate --off node0
is "after the end of the job" grep -q 'no job that uses goscr runs' "$WORK/migrate"

fresh
(
    cd "$prefix" || exit 1
    slurm exec head timeout 2000 env SCR_PREFIX="$prefix" SCR_DEBUG=1 SCR_COPY_TYPE=SINGLE SCR_CHECKPOINT_INTERVAL=20 SCR_FLUSH=0 SCR_MIN_NODES=3 SCR_WATCHDOG=1 \
        SCR_WATCHDOG_TIMEOUT="$(scaled 20)" salloc -N4 --no-kill "$BUILD/scr_srun" --mpi=pmix -n6 -N3 "${heat[@]}" -o "$prefix/final" >"$log" 2>&1 </dev/null
    echo "status $?" >>"$log"
) &
until_said 'heat\.[0-9]+ complete'
is "srun: a checkpoint on demand, of a job of Slurm" asks --jobid "$(slurm exec head squeue --noheader --format=%i)"
migrate --off node1
moved=$?
is "srun: two ranks go to the spare node" migrated_or_failed 'checkpoint heat\..*move, .*rank 2 .*B, rank 3 .*B, after that: .*SCR_Init: '
sed 's/^/   /' "$WORK/migrate"
slurm cut node1 2>/dev/null
is "... whose old node then loses power" ends 0 'recovery: MIGRATE: ' 'restarted from heat\.'
is "... with the right result" result
