# shellcheck shell=bash
# shellcheck disable=SC2034
# What the scripts share that run jobs on simulated nodes with a real Slurm, started from a
# head node. They source this after lib.bash.

if [ "$(id -u)" != 0 ] || ! "$ROOT/scripts/deps" --install slurm; then
    echo "ok without root and Slurm there is nothing to try here"
    exit 0
fi
export SLURMBED_DIR=$WORK/cluster
PATH=$PATH:/usr/sbin
slurm() { "$TESTBED" slurm "$@"; }
trap 'slurm down' EXIT
trap 'exit 143' TERM

prefix=$WORK/prefix log=$WORK/log
fresh() { rm -rf "$prefix" && mkdir "$prefix" && : >"$log"; } # a job that knows nothing of the last

# outside SETTINGS... -- COMMAND...: in the background, on the head, in no
# allocation.  The last line of the log is its status.
outside() {
    local settings=()
    while [ "$1" != -- ]; do settings+=("$1"); shift; done
    shift
    (
        cd "$prefix" || exit 1
        slurm exec head timeout 2000 env SCR_PREFIX="$prefix" SCR_DEBUG=1 "${settings[@]}" "$@" >"$log" 2>&1 </dev/null
        echo "status $?" >>"$log"
    ) &
}
said() { grep -qE -- "$1" "$log"; }
over() { said '^status '; }
until_said() { within 60 bash -c 'grep -qE -- "$1" "$2" || grep -q "^status " "$2"' - "$1" "$log"; }
show() { grep -v '^step' "$log" | tail -n 60; }

# ends STATUS TEXT...: the job ends with the status (any: with any), and has printed the texts.
ends() {
    local text want=$1
    shift
    within 240 over || { show; return 1; }
    [ "$want" = any ] || same "$want" "$(sed -n 's/^status //p' "$log")" || { show; return 1; }
    for text; do said "$text" || { echo "it did not say: $text"; show; return 1; }; done
}
