#!/bin/bash
# Test: both MPIs, 60 s
#
# Runs the tests of package internal/mpi/mpitest on the system's MPI with several numbers
# of ranks. MPI names the MPI (openmpi or mpich); BUILD is the directory for programs.
set -u
cd "$(dirname "$0")/../.." || exit
: "${MPI:?openmpi or mpich}" "${BUILD:?directory for programs}"

launch="mpirun.$MPI"
if [ "$MPI" = openmpi ]; then
    launch="$launch --allow-run-as-root --oversubscribe"
fi

mkdir -p "$BUILD" || exit 1
program=$(cd "$BUILD" && pwd)/mpicheck.$MPI
if ! CC=mpicc.$MPI go build -tags mpi -o "$program" ./mpi/system/mpicheck; then
    echo "not ok mpi: mpicheck does not build with $MPI"
    exit 1
fi

status=0
check() { # ranks, seconds, options
    local ranks=$1 seconds=$2
    shift 2
    timeout --kill-after=10 "$seconds" $launch -n "$ranks" "$program" "$@" </dev/null
    local code=$?
    if [ $code -ne 0 ]; then
        status=1
        echo "not ok mpi at $ranks: mpicheck $* under $MPI: exit status $code (124: no end in $seconds s)"
    fi
}

for ranks in 1 3 4 7; do
    check $ranks 3000
done
check 2 3000 -big
exit $status
