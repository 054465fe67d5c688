# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Runs scripts/demo with a smaller grid: once for the loss of each node, and once
# without namespaces.
. "$(dirname "$0")/lib.bash"

# The size of the grid gives ranks files of different sizes.
steps=6000
[ "$MPI" != mpich ] || steps=1000
for lost in node0 node1 node2 node3; do
    is "$lost is lost, the result is the same" "$ROOT/scripts/demo" --lose $lost --size 701 --steps $steps
done
TESTBED_NAMESPACES=0 is "without namespaces" "$ROOT/scripts/demo" --size 701 --steps $steps
