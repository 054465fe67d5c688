# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# scr_run on simulated nodes with a real Slurm, and over ssh without one: nodes
# lose power, programs hang and die, people want a job to stop.  Each job that
# ends well has to have the result of one that was never disturbed, to the bit.
. "$(dirname "$0")/lib.bash"

if [ "$(id -u)" != 0 ] || ! "$ROOT/scripts/deps" slurm; then
    echo "ok without root and Slurm there is nothing to try here"
    exit 0
fi
export SLURMBED_DIR=$WORK/cluster
PATH=$PATH:/usr/sbin
slurm() { "$TESTBED" slurm "$@"; }
trap 'slurm down' EXIT
trap 'exit 143' TERM

prefix=$WORK/prefix log=$WORK/log
heat=("$BUILD/heat" -x 256 -y 256 -s 3000 -c 300)
fresh() { rm -rf "$prefix" && mkdir "$prefix" && : >"$log"; } # a job that knows nothing of the last

# job SETTINGS... -- COMMAND...: on $nodes nodes, in the background; its last line is its status.
# On a machine with few processors, Slurm's PMIx sometimes gives up connecting the
# nodes of a step, and the step hangs: that too is for the watchdog, and one run more.
nodes=5
job() {
    local settings=()
    while [ "$1" != -- ]; do settings+=("$1"); shift; done
    shift
    (
        cd "$prefix" || exit 1
        slurm exec head timeout 200 salloc -N"$nodes" --no-kill env SCR_PREFIX="$prefix" SCR_DEBUG=1 \
            SCR_WATCHDOG=1 SCR_WATCHDOG_TIMEOUT=45 "${settings[@]}" "$@" \
            >"$log" 2>&1 </dev/null
        echo "status $?" >>"$log"
    ) &
}
said() { grep -qE -- "$1" "$log"; }
over() { said '^status '; }
until_said() { within 60 bash -c 'grep -qE -- "$1" "$2" || grep -q "^status " "$2"' - "$1" "$log"; }
status() { sed -n 's/^status //p' "$log"; }
show() { grep -v '^step' "$log" | tail -n 60; }

# ends STATUS TEXT...: the job ends so, and has said all this.
ends() {
    local text want=$1
    shift
    within 150 over || { show; return 1; }
    same "$want" "$(status)" || { show; return 1; }
    for text; do said "$text" || { echo "it did not say: $text"; show; return 1; }; done
}
result() { cmp "$WORK/reference" "$prefix/final"; }
not_flushed() { same "" "$(find "$prefix" -name '*.ckpt')"; }

if [ "$MPI" != openmpi ]; then
    # Hydra does not notice that a node is silent, so with it only what needs none.
    slurm up 2 || { echo "not ok slurm"; exit 1; }
    printf 'node0:2\nnode1:2\n' >"$WORK/hosts"
    fresh
    slurm exec head env SCR_PREFIX="$prefix" SCR_HOST_FILE="$WORK/hosts" SCR_REMOTE_SHELL=SSH timeout 100 \
        "$BUILD/scr_run" mpiexec.hydra -launcher ssh -n 4 sh -c 'hostname; exit 7' >"$log" 2>&1
    echo "status $?" >>"$log"
    is "a program that dies at once, by Hydra" ends 7 '3 runs in a row have failed'
    is "... has run on all nodes" same 6 "$(grep -c '^node1$' "$log")"
    exit 0
fi

slurm up 6 || { echo "not ok slurm"; exit 1; }

# -------------------------------------------------------- nothing happens
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
is "an undisturbed job" ends 0 'run [1-3]: exit status 0'
cp "$prefix/final" "$WORK/reference"

# ------------------------------------------------ a program that hangs
fresh
job SCR_FLUSH=0 SCR_WATCHDOG_TIMEOUT=20 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.600 complete'
slurm exec head bash -c 'for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe")" != "$1" ] || { kill -STOP "${p#/proc/}"; break; }
done' - "$BUILD/heat"
is "a rank hangs: the watchdog ends the run, and the next finishes" ends 0 'watchdog: no checkpoint' 'run [2-4]: exit status 0' 'restarted from heat\.'
is "... with the right result" result
if command -v gdb >/dev/null || command -v eu-stack >/dev/null; then
    is "... and the stacks of the ranks are kept" grep -q main "$prefix"/.scr/stacks.1.node*
fi

# ------------------------------------- a program that dies at once, always
fresh
job -- "$BUILD/scr_srun" -n1 -N1 sh -c 'exit 7'
is "a program that dies at once is not started for ever" ends 7 '3 runs in a row have failed' 'no node was lost'

# -------------------------------------------------------------- scr_halt
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.300 complete'
is "scr_halt --checkpoints" slurm exec node5 "$BUILD/scr_halt" --checkpoints 2 "$prefix"
within 100 over
is "... ends the job at the second" same 1 "$(($(grep -c 'heat.*complete' "$log") >= 3 && $(grep -c 'heat.*complete' "$log") <= 5))"
is "... and it is not started again" same 0 "$(grep -c 'run 2' "$log")"
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -s 100000 -o "$prefix/final"
until_said 'heat.300 complete'
is "scr_halt --immediate" "$BUILD/scr_halt" --immediate "$prefix"
within 60 over
is "... ends the run" said 'stopped by scr_halt --immediate'
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -s 100000 -o "$prefix/final"
until_said 'heat.300 complete'
is "scr_halt --before" "$BUILD/scr_halt" --before "$(date -d '+5 seconds' +%FT%T)" --seconds 4 "$prefix"
within 60 over
is "... ends the job" said 'the program has ended by itself'

# ---------------------------------------- a signal before the time is up
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -s 100000 -o "$prefix/final"
until_said 'heat.300 complete'
slurm exec head bash -c 'for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe")" != "$1" ] || { kill -TERM "${p#/proc/}"; break; }
done' - "$BUILD/scr"
within 60 over
is "SIGTERM ends the run, and it is not started again" said 'stopped by signal terminated'

# ------------------------------------------- no Slurm, mpirun over ssh
printf 'node%d slots=2\n' 0 1 2 3 >"$WORK/hosts"
fresh
(
    cd "$prefix" || exit 1
    slurm exec head env SCR_PREFIX="$prefix" SCR_DEBUG=1 SCR_FLUSH=0 SCR_HOST_FILE="$WORK/hosts" SCR_MIN_NODES=3 SCR_JOB_ID=ssh \
        timeout 200 "$BUILD/scr_run" mpirun --mca plm rsh -n 6 "${heat[@]}" -o "$prefix/final" >"$log" 2>&1 </dev/null
    echo "status $?" >>"$log"
) &
until_said 'heat.600 complete'
slurm cut node2 2>/dev/null
is "mpirun over ssh, a node loses power" ends 0 'node node2: ' 'restarted from heat\.(6|9)00' 'run [2-4]: exit status 0'
is "... with the right result" result
is "... and nothing was flushed" not_flushed

# --------------------------------------- Slurm: a node loses power in compute
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.600 complete'
cut=$SECONDS
slurm cut node1 2>/dev/null
until_said 'restarted from'
back=$((SECONDS - cut))
is "a node loses power: the job goes on, on the spare" ends 0 'node node1: ' 'restarted from heat\.(6|9)00' 'run [2-4]: exit status 0'
is "... with the right result" result
is "... and nothing was flushed" not_flushed
echo "   from the cut to the restored state: $back s, Slurm's time to declare the node down included"


# ---------------------------------------- two nodes of a set at the same moment
again() { slurm down && slurm up 6 2>/dev/null; } # lost nodes are back
nodes=6

is "a new cluster" again
fresh
job SCR_FLUSH=0 SCR_COPY_TYPE=RS SCR_SET_FAILURES=2 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.600 complete'
slurm cut node1 2>/dev/null &
slurm cut node2 2>/dev/null
is "RS: two nodes lose power at once" ends 0 'node node1: ' 'node node2: ' 'rebuilt from redundancy' 'restarted from heat\.(6|9)00'
is "... with the right result" result
is "... and nothing was flushed" not_flushed

is "a new cluster" again
fresh
job SCR_FLUSH=2 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.900 complete'
slurm cut node1 2>/dev/null &
slurm cut node2 2>/dev/null
is "XOR: the same, and the newest flushed checkpoint is fetched" ends 0 'fetched' 'restarted from heat\.(6|12)00' 'run [2-4]: exit status 0'
is "... with the right result" result

# ---------------- while a checkpoint is protected, and while the loss is repaired
# Larger, so that both take their time.
large=("$BUILD/heat" -x 2048 -y 2048 -s 200 -c 40)
has() { slurm exec "$1" bash -c 'compgen -G "$1"' - "/dev/shm/*/scr.lost/$2" >/dev/null 2>&1; }
spare_in_use() { # leaves its name in $WORK/spare
    local n
    for n in node4 node5; do
        has "$n" 'scr.dataset.*/*/*' && echo "$n" >"$WORK/spare" && return
    done
    return 1
}

is "a new cluster" again
fresh
job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${large[@]}" -o "$prefix/final"
is "a larger job, undisturbed" ends 0 'run [1-3]: exit status 0'
cp "$prefix/final" "$WORK/reference.large"
fresh
job SCR_FLUSH=0 SCR_MIN_NODES=4 SCR_JOB_ID=lost -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${large[@]}" -o "$prefix/final"
is "a checkpoint is being protected" within 60 has node0 'scr.dataset.3/.scr/*.xor'
slurm cut node1 2>/dev/null
is "... when a node loses power; the next run uses a spare" within 150 spare_in_use
spare=$(cat "$WORK/spare")
slurm cut "$spare" 2>/dev/null
is "... which loses power while the files of the first are rebuilt" ends 0 "node $spare: " 'run [3-5]: exit status 0' 'restarted from heat\.(80|120)'
is "... with the right result" cmp "$WORK/reference.large" "$prefix/final"
is "... and nothing was flushed" not_flushed

# ------------------------------------------------------------- no spare is left
nodes=4
is "a new cluster" again
fresh
job SCR_FLUSH=0 SCR_MIN_NODES=4 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.600 complete'
slurm cut node3 2>/dev/null
within 60 over
is "without a spare it is not started again" said '3 nodes are left, and 4 are needed \(SCR_MIN_NODES\)'

# Home from the nodes, what one of them had is rebuilt; and home from nodes that
# are all well when the programs have died and SCR_RUNS is used up.
scavenged() {
    is "... and the newest checkpoint is brought home" said '\(heat\.[69]00\): in the prefix directory'
    is "... where the index has it as usable" grep -qE '^[0-9]+ +YES' <("$BUILD/scr_index" --list -p "$prefix")
    is "a new cluster" again
    : >"$log"
    job SCR_FLUSH=0 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
    is "... the next allocation goes on from there" ends 0 'fetched' 'restarted from heat\.[69]00'
    is "... with the right result" result
}
scavenged
fresh
job SCR_FLUSH=0 SCR_RUNS=1 -- "$BUILD/scr_srun" --mpi=pmix -n8 -N4 "${heat[@]}" -o "$prefix/final"
until_said 'heat.600 complete'
slurm exec head bash -c 'for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe")" != "$1" ] || kill -KILL "${p#/proc/}"
done' - "$BUILD/heat"
within 60 over
is "all programs die, and there may be no other run" said 'SCR_RUNS=1 runs are all'
scavenged
