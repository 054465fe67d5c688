# shellcheck shell=bash
# shellcheck disable=SC1091
# Kills jobs and commands in place of system calls that change files, and checks that the
# next run finds what had been complete: a sample, by seed, of what `make crash` does.
#
#   SEED          of the sample (default 1)
#   CRASH_CASES   how many cases of jobs whose ranks are goroutines (default 150)
#   CRASH_MPI     how many of jobs with MPI (default 10)
. "$(dirname "$0")/lib.bash"

is "crash builds" env CGO_ENABLED=0 go build -trimpath -o "$WORK/crash" ./scripts/crash
is "steps.c builds" "$MPICC" -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -I"$BUILD" -o "$WORK/steps" \
    "$ROOT/scripts/test.d/steps.c" -L"$BUILD" -lscr -lrt -Wl,-rpath,"$BUILD"

# With either MPI other cases.
seed=$((2 * ${SEED:-1}))
[ "$MPI" = openmpi ] || seed=$((seed + 1))
echo "   seed $seed of crash"
crash() { "$WORK/crash" -tools "$BUILD" -steps "$WORK/steps" -mpi "$MPI" -seed "$seed" "$@"; }
is "${CRASH_CASES:-150} kills, ranks as goroutines" crash -sample "${CRASH_CASES:-150}" -not mpi-
is "${CRASH_MPI:-10} kills with MPI" crash -sample "${CRASH_MPI:-10}" -only mpi-
