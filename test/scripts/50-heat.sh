# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 40 s
#
# Runs scripts/demo with a smaller grid: once for the loss of each node, two with each MPI to
# save time, and once without namespaces.
. "$(dirname "$0")/lib.bash"

# The size of the grid gives ranks files of different sizes.
steps=1500
case $MPI in
mpich) nodes="node1 node3" ;;
*)     nodes="node0 node2" ;;
esac
for lost in $nodes; do
    is "$lost is lost, the result is the same" "$ROOT/scripts/demo" --lose "$lost" --size 701 --steps $steps
done
if [ "$ONCE" ]; then
    TESTBED_NAMESPACES=0 is "without namespaces" "$ROOT/scripts/demo" --size 701 --steps $steps
fi
