# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016,SC2154
# Test: both MPIs, 180 s
#
# scr_run on simulated nodes with a real Slurm, and over ssh without one: nodes
# lose power, programs hang and die, users stop a job.  Each job that succeeds has to
# have the result of an undisturbed job, bit for bit, and each checkpoint that is copied
# to the prefix directory has to be the same as the undisturbed job's.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/slurm.bash"

reference=$WORK/reference
heat=("$BUILD/heat" -x 256 -y 256 -s 12000 -c 300)
srun=("$BUILD/scr_srun" --mpi=pmix -n8 -N4)

# job SETTINGS... -- COMMAND...: the same in an allocation of $nodes nodes.
# On a machine with few processors, Slurm's PMIx sometimes gives up connecting the
# nodes of a step, and the step hangs: that too is for the watchdog, and one run more.
nodes=5
job() {
    local settings=()
    while [ "$1" != -- ]; do settings+=("$1"); shift; done
    shift
    outside -- salloc -N"$nodes" --no-kill env SCR_WATCHDOG=1 SCR_WATCHDOG_TIMEOUT="$(scaled 20)" SCR_FLUSH=0 "${settings[@]}" "$@"
}
# At a load of 20 a step has died before SCR_Init returned, of signal 11 in two ranks of a node, with warnings of Open MPI
# about connections. It says so, and does not count.
begun() { grep -c 'SCR: rank 0 .* 8 ranks, prefix' "$log"; } # how often SCR_Init has returned
early() { [ "$(begun)" = 0 ] && said 'srun: error: .*Segmentation fault'; }
# starts N: srun was called so often, apart from steps that died so.
starts() {
    local early=$(($(grep -c '^+ srun ' "$log") - $(begun)))
    { same "$1" "$(begun)" && { [ $early = 0 ] || said 'srun: error: .*Segmentation fault'; }; } ||
        { grep -v '^step\|^checkpoint\|leaves the cache' "$log" | tail -n 90; return 1; }
}
result() { cmp "$reference/final" "$prefix/final"; }
not_flushed() { same "" "$(find "$prefix" -name '*.ckpt')"; }

# copied: the checkpoints in the prefix directory are complete, and those of the
# undisturbed job.
copied() {
    local f n=0
    "$BUILD/scr_index" --verify -p "$prefix" || { "$BUILD/scr_index" --list -p "$prefix"; show; return 1; }
    for f in "$prefix"/heat.*/*.ckpt; do
        cmp "$f" "$reference/${f#"$prefix/"}" || return 1
        n=$((n + 1))
    done
    [ "$n" -ge 8 ] || { echo "$n files"; show; return 1; }
}

# to_program SIGNAL PROGRAM [all]: to one process of it, whichever, or to all
to_program() {
    slurm exec head bash -c "$(declare -f running)"'
        for p in $(running "$2"); do kill -"$1" "$p"; [ "$3" = all ] || break; done' - "$1" "$2" "${3:-one}"
}
power_off() { # NODE
    touch "$WORK/cut"
    slurm cut "$1" 2>/dev/null
}
again() { rm -f "$WORK/cut"; slurm down && slurm up 6 2>/dev/null; } # lost nodes are back

if [ "$MPI" != openmpi ]; then
    # Over TCP between nodes, MPICH of Debian 12 sometimes hangs in MPI_Finalize
    # whatever one does, so each run here is on one node.
    slurm up 2 || { echo "not ok slurm"; exit 1; }
    printf 'node0:2\nnode1:2\n' >"$WORK/hosts"
    hydra=(SCR_HOST_FILE="$WORK/hosts" SCR_REMOTE_SHELL=SSH SCR_MIN_NODES=1 -- "$BUILD/scr_run" mpiexec.hydra -launcher ssh)
    fresh
    outside "${hydra[@]}" -n 2 sh -c 'hostname; exit 7'
    is "a program that dies at once, by Hydra" ends 7 '3 runs in a row have failed'
    fresh
    heat+=(-s 18000) # two ranks are quick
    outside SCR_JOB_ID=reference SCR_FLUSH=1 "${hydra[@]}" -n 2 "${heat[@]}" -o "$prefix/final"
    is "an undisturbed job" ends 0 'run 1: exit status 0'
    mv "$prefix" "$reference"
    fresh
    # Hydra does not notice that a node is silent; something has to.
    outside SCR_JOB_ID=cut SCR_FLUSH=1 SCR_WATCHDOG=1 SCR_WATCHDOG_TIMEOUT="$(scaled 20)" "${hydra[@]}" -n 2 "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    slurm cut node0 2>/dev/null
    is "its node loses power: it continues, on another, from what was flushed" ends 0 'node node0: ' 'fetched' 'restarted from heat\.[0-9]+00' 'run [2-4]: exit status 0'
    is "... with the right result" result
    is "... and all checkpoints are right" copied
    exit 0
fi

slurm up 6 || { echo "not ok slurm"; exit 1; }

# On this cluster, with the prolog and the epilog: somebody else has made the user's directory.
recipes=$WORK/installed/share/goscr/slurm
mkdir -p "$recipes" "$WORK/installed/bin" && cp "$ROOT"/packaging/slurm/* "$recipes" && ln -s "$BUILD/scr" "$WORK/installed/bin/scr_clean"
printf '%s\n' "Prolog=$recipes/prolog" "Epilog=$recipes/epilog" >>"$SLURMBED_DIR/slurm.conf"
is "prolog and epilog" slurm exec head scontrol reconfigure
slurm exec node0 sh -c 'd=/dev/shm/$(id -un); mkdir "$d" && chown 65534 "$d"'
fresh
job SCR_FLUSH=1 -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
is "an undisturbed job, in a directory that the prolog has made" ends 0 'run [1-3]: exit status 0'
is "... and the epilog removes the caches" within 60 slurm exec node0 sh -c '! ls -d /dev/shm/*/scr.* 2>/dev/null'
is "... but nothing of anybody else" slurm exec node0 sh -c 'stat -c %u /dev/shm/*.foreign.* | grep -qx 65534'
mv "$prefix" "$reference"

# A user who is not root can write only where the prolog has made a directory for them.
ordinary() {
    local user=nobody home=$WORK/ordinary
    mkdir "$home" && cp "$BUILD"/{heat,libscr.so} "$home" && cp -d "$BUILD"/scr* "$home" 2>/dev/null
    chmod 711 "$WORK" && chmod -R go+rX "$home"
    fresh
    chown "$user" "$prefix"
    (
        cd "$prefix" && slurm exec head timeout 2000 setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups \
            env HOME="$prefix" SCR_PREFIX="$prefix" SCR_DEBUG=1 SCR_WATCHDOG=1 SCR_WATCHDOG_TIMEOUT="$(scaled 20)" SCR_FLUSH=1 \
            salloc -N2 --no-kill "$home/scr_srun" --mpi=pmix -n2 -N2 "$home/heat" -x 256 -y 256 -s 900 -c 300 -o "$prefix/final"
        echo "status $?"
    ) >"$log" 2>&1 </dev/null &
    is "a user who is not root has a checkpoint, in a directory that the prolog has made" ends 0 'heat.600 complete' 'run [1-3]: exit status 0'
}
ordinary

# A node loses power in compute.
computing() {
    fresh
    job -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    power_off node1
    cut=$EPOCHREALTIME
    slurm exec head timeout 600 bash -c 'until sinfo -h -n node1 -o %T | grep -q ^down; do sleep 0.1; done'
    known=$EPOCHREALTIME
    within 60 awk '/^restarted/ { r = 1 } r && /^step/ || /^status/ { found = 1 } END { exit !found }' "$log"
    back=$EPOCHREALTIME
    is "a node loses power: the job continues, on the spare" ends 0 'node node1: ' 'rebuilt from redundancy' 'restarted from heat\.[0-9]+00' 'run [2-4]: exit status 0'
    is "... with the right result" result
    is "... and nothing was flushed" not_flushed
    awk -v cut="$cut" -v known="$known" -v back="$back" 'BEGIN {
        printf "   from the cut to the restarted program computing: %.1f s; %.1f s of it until Slurm declared the node down\n", back - cut, known - cut }'
}

by_page() { # submits it; when the job is over, its state is the last line of the log
    fresh
    printf '#!/bin/sh\nexec %s -c 30 -o final\n' "${heat[*]}" >"$prefix/app"
    chmod +x "$prefix/app"
    id=$(cd "$prefix" && SCR_DEBUG=1 SCR_LAUNCH_TIMEOUT=$(scaled 60) SCR_WATCHDOG_TIMEOUT=$(scaled 20) PATH=$BUILD:$PATH slurm exec head sbatch --parsable -o "$log" "$WORK/page.sh") || return 1
    slurm exec head timeout 2000 bash -c 'until state=$(scontrol show job "$1" | grep -oE "JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)"); do
        sleep 0.2; done; echo "status ${state#*=}"' - "$id" >>"$log" 2>&1 &
}
# The batch script of docs/run.md, exactly as it is there.
batch_script() {
    sed -n '/^## A batch script/,/^- /s/^    //p' "$ROOT/docs/run.md" >"$WORK/page.sh"
    is "the batch script of docs/run.md is a script" grep -q '^exec scr_srun' "$WORK/page.sh"
    by_page || echo "not ok Slurm takes the batch script of docs/run.md"
    until_said 'heat.600 complete'
    power_off node1 # the script is on node0
    is "... a node loses power: the job continues, on the spare" ends COMPLETED 'node node1: ' 'rebuilt from redundancy' 'restarted from heat\.[0-9]+00'
    is "... with the right result" result
}

has() { slurm exec "$1" bash -c 'compgen -G "$1"' - "/dev/shm/*/scr.lost/$2" >/dev/null 2>&1; }
spare_in_use() { # leaves its name in $WORK/spare
    local n
    for n in node4 node5; do
        has "$n" 'scr.dataset.*/*/*' && echo "$n" >"$WORK/spare" && return
    done
    return 1
}
# While a checkpoint is protected, and while the loss is repaired. Larger, so that both take their
# time, and long enough that the job has not ended when the second node is cut, however late a busy
# machine notices that the spare is in use.
protecting() {
    local nodes=6
    large=("$BUILD/heat" -x 2048 -y 2048 -s 400 -c 40)
    fresh
    job -- "${srun[@]}" "${large[@]}" -o "$prefix/final"
    is "a larger job, undisturbed" ends 0 'run [1-3]: exit status 0'
    mv "$prefix/final" "$WORK/reference.large"
    fresh
    job SCR_MIN_NODES=4 SCR_JOB_ID=lost -- "${srun[@]}" "${large[@]}" -o "$prefix/final"
    is "a checkpoint is being protected" within 60 has node0 'scr.dataset.[3-9]/.scr/*.xor'
    # The last node, so that all other ranks come back where their files are: those that had
    # moved to the spare would be lost with it, on top of those of the first node.
    power_off node3
    is "... when a node loses power; the next run uses a spare" within 150 spare_in_use
    spare=$(cat "$WORK/spare")
    power_off "$spare"
    is "... which loses power while the files of the first are rebuilt" ends 0 "node $spare: " 'run [3-5]: exit status 0' 'restarted from heat\.(80|[1-9][0-9]{2}) '
    is "... with the right result" cmp "$WORK/reference.large" "$prefix/final"
    is "... and nothing was flushed" not_flushed
}

# Two nodes of a set.
two_nodes() {
    local nodes=6
    fresh
    job SCR_FLUSH=2 -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.900 complete'
    power_off node1 &
    power_off node2
    is "XOR: two nodes lose power at once, and the newest flushed checkpoint is fetched" ends 0 'fetched' 'restarted from heat\.[0-9]+00' 'run [2-4]: exit status 0'
    is "... with the right result" result
    is "... and all checkpoints are right" copied
}

# ... with a scheme for it.
two_nodes_rs() {
    local nodes=6
    fresh
    job SCR_COPY_TYPE=RS SCR_SET_FAILURES=2 -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    power_off node1 &
    power_off node2
    is "RS: two nodes lose power at once" ends 0 'node node1: ' 'node node2: ' 'rebuilt from redundancy' 'restarted from heat\.[0-9]+00'
    is "... with the right result" result
    is "... and nothing was flushed" not_flushed
}

no_spare() {
    local nodes=4
    fresh
    job SCR_MIN_NODES=4 -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    power_off node3
    is "without a spare it is not started again" ends any '3 nodes are left, and 4 are needed \(SCR_MIN_NODES\)' '\(heat\.[0-9]+00\): in the prefix directory'
    is "... and the newest checkpoint is copied, rebuilt" copied
    is "a new cluster" again
    : >"$log"
    job -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    is "... the next allocation continues from there" ends 0 'fetched' 'restarted from heat\.[0-9]+00'
    is "... with the right result" result
}

# All programs die, and there may be no other run.
no_other_run() {
    local tries=0
    fresh
    job SCR_RUNS=1 -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    while over && early && [ $((tries += 1)) -lt 3 ]; do
        show
        fresh
        job SCR_RUNS=1 -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
        until_said 'heat.600 complete'
    done
    to_program KILL "$BUILD/heat" all
    is "all programs die, and there may be no other run" ends any 'the limit of SCR_RUNS=1 is reached' '\(heat\.[0-9]+00\): in the prefix directory'
    is "... and the newest checkpoint is copied" copied
    : >"$log"
    job -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    is "... the next allocation continues from there" ends 0 'fetched' 'restarted from heat\.[0-9]+00'
    is "... with the right result" result
}

# A program that hangs.
hanging() {
    fresh
    job -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    to_program STOP "$BUILD/heat"
    is "a rank hangs: the watchdog ends the run, and the next finishes" ends 0 'watchdog: no checkpoint' 'run [2-4]: exit status 0' 'restarted from heat\.'
    is "... with the right result" result
    if command -v gdb >/dev/null || command -v eu-stack >/dev/null; then
        is "... and the stacks of the ranks are kept" bash -c 'grep -q main "$1"/.scr/stacks.1.node* || { cat "$1"/.scr/stacks.* "$2"; false; }' \
            - "$prefix" "$log"
    fi
}

halt() {
    fresh
    job -- "${srun[@]}" "${heat[@]}" -o "$prefix/final"
    until_said 'heat.300 complete'
    completed() { grep -c 'heat.*complete' "$log"; }
    before=$(completed)
    is "scr_halt --checkpoints" slurm exec node5 "$BUILD/scr_halt" --checkpoints 2 "$prefix"
    after=$(completed)
    is "... ends the job" ends any 'asked to stop' '\(heat\.[0-9]+00\): in the prefix directory'
    count=$(completed)
    is "... at the second, or one or two that were under way" same 1 $((count >= before + 2 && count <= after + 4))
    is "... and it is not started again" same 0 "$(grep -c 'run 2' "$log")"
    is "... and the newest checkpoint is copied" copied
}

halt_at_once() {
    fresh
    job -- "${srun[@]}" "${heat[@]}" -s 100000 -o "$prefix/final"
    until_said 'heat.300 complete'
    is "scr_halt --immediate" "$BUILD/scr_halt" --immediate "$prefix"
    is "... ends the run" ends any 'stopped by scr_halt --immediate'
    is "... and the newest checkpoint is copied" copied
}

halt_before() {
    fresh
    job -- "${srun[@]}" "${heat[@]}" -s 100000 -o "$prefix/final"
    until_said 'heat.300 complete'
    is "scr_halt --before" "$BUILD/scr_halt" --before "$(date -d '+5 seconds' +%FT%T)" --seconds 4 "$prefix"
    is "... ends the job" ends any 'asked to stop' 'the program has ended by itself'
    is "... and the newest checkpoint is copied" copied
}

# A program that dies at once, always.
dies_at_once() {
    fresh
    job -- "$BUILD/scr_srun" -n1 -N1 sh -c 'exit 7'
    is "a program that dies at once is not started for ever" ends 7 '3 runs in a row have failed' 'no node was lost'
}

# KillWait is what Slurm leaves a batch script when its allocation ends; here as long as it is by default.
kill_wait() {
    sed -i 's/^KillWait=.*/KillWait=30/' "$SLURMBED_DIR/slurm.conf"
    is "KillWait" slurm exec head scontrol reconfigure
}
batch() { # OPTION... -- LINE...: sbatch; leaves its id in $id
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    { echo '#!/bin/bash'; printf '%s\n' "$@"; } >"$prefix/job.sh"
    id=$(cd "$prefix" && SCR_PREFIX=$prefix SCR_DEBUG=1 SCR_FLUSH=0 PATH=$BUILD:$PATH \
        slurm exec head sbatch --parsable -N5 --no-kill -o "$log" "${options[@]}" job.sh)
}
# The allocation is cancelled.
cancelled() {
    kill_wait
    local line="${srun[*]} ${heat[*]} -s 100000"
    fresh
    batch --signal=TERM@60 --time=10 -- 'trap : TERM' "$line" 'echo "status $?"'
    until_said 'heat.600 complete'
    is "scancel" slurm exec head scancel "$id"
    is "... ends the job" ends any 'stopped by signal terminated' '\(heat\.[0-9]+00\): in the prefix directory'
    is "... and the newest checkpoint is copied" copied
}

time_is_up() {
    kill_wait
    # The batch script to copy, and Slurm's signal to it a minute before the end.
    fresh
    mapfile -t lines < <(sed -e "s,-n8 -N4 ./app,-n8 -N4 $BUILD/heat -x 256 -y 256 -s 100000 -c 300," -e 's/TERM@600/TERM@60/' \
        -e 's/^exit "\$status"/echo "status $status"/' "$BUILD/scripts/scr_srun_loop.sh")
    batch --time=2 -- "${lines[@]}"
    is "scr_srun_loop.sh, and the time is nearly up" ends any '\(heat\.[0-9]+00\): in the prefix directory'
    is "... so it is not started again" same 1 "$(grep -c '^run [0-9]* of' "$log")"
    is "... and the newest checkpoint is copied whole" "$BUILD/scr_index" --verify -p "$prefix"
}

# A job script in the manner of SCR 3.1, through a lost node and a clean end.
script_of_scr3() {
    fresh
    mapfile -t lines < <(tail -n +2 "$ROOT/examples/jobscripts/srun_loop.sh")
    batch --time=10 --export=ALL,PAUSE=1 -- "set -- --overlap --kill-on-bad-exit --mpi=pmix -n8 -N4 ${heat[*]} -o $prefix/final" "${lines[@]}" 'echo "status $?"'
    until_said 'heat.600 complete'
    power_off node1 # the script is on node0
    is "srun_loop.sh, written for SCR 3.1: a node loses power" ends 0 'rebuilt from redundancy' 'restarted from heat\.[0-9]+00' 'the program has called SCR_Finalize'
    is "... it was started once more than nodes were lost" starts 2
    is "... with the right result" result
}

printf 'node%d slots=2\n' 0 1 2 3 >"$WORK/hosts"
ssh=(SCR_FLUSH=0 SCR_HOST_FILE="$WORK/hosts" SCR_MIN_NODES=3 SCR_JOB_ID=ssh)
# No Slurm, mpirun over ssh.
over_ssh() {
    fresh
    outside "${ssh[@]}" -- "$BUILD/scr_run" mpirun --mca plm rsh -n 6 "${heat[@]}" -o "$prefix/final"
    until_said 'heat.600 complete'
    power_off node2
    is "mpirun over ssh, a node loses power" ends 0 'node node2: ' 'rebuilt from redundancy' 'restarted from heat\.[0-9]+00' 'run [2-4]: exit status 0'
    is "... with the right result" result
    is "... and nothing was flushed" not_flushed
}

# ... and with the batch script to copy.
loop_over_ssh() {
    sed -e "s,-n 8 env \(.*\) ./app,--mca plm rsh -n 6 env \1 ${heat[*]} -o $prefix/final," -e '/^export SCR_MIN_NODES/d' "$BUILD/scripts/scr_mpirun_loop.sh" >"$WORK/loop.sh"
    fresh
    PATH=$BUILD:$PATH outside "${ssh[@]}" SCR_JOB_ID=loop -- bash "$WORK/loop.sh"
    until_said 'heat.600 complete'
    to_program KILL "$BUILD/heat"
    is "scr_mpirun_loop.sh: a program dies" ends 0 'run 1 of at most 10: status [1-9]' 'restarted from heat\.[0-9]+00' 'run 2 of at most 10: status 0'
    is "... with the right result" result
}

# Each begins on a cluster with all nodes.
mapfile -t list < <(drawn 5 computing batch_script protecting two_nodes two_nodes_rs no_spare no_other_run hanging halt halt_at_once \
    halt_before dies_at_once cancelled time_is_up script_of_scr3 over_ssh loop_over_ssh)
for scenario in "${list[@]}"; do
    if [ -e "$WORK/cut" ]; then
        is "a new cluster" again
    fi
    echo "   $scenario"
    "$scenario"
done
