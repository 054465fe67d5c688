# shellcheck shell=bash
# shellcheck disable=SC1091
# Test: one MPI, 20 s
#
# Kills jobs and commands in place of system calls that change files, and checks that the
# next run finds what had been complete: a sample, by seed, of what `make crash` does.
#
#   SEED          of the sample (default TEST_SEED)
#   CRASH_CASES   how many cases of jobs whose ranks are goroutines (default 40; 400 in a run of everything)
#   CRASH_MPI     how many of jobs with MPI (default 3; 20 in a run of everything)
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps

# With either MPI other cases.
seed=$((2 * ${SEED:-$TEST_SEED})) cases=${CRASH_CASES:-$(sized 40 400)} with_mpi=${CRASH_MPI:-$(sized 3 20)}
[ "$MPI" = openmpi ] || seed=$((seed + 1))
echo "   seed $seed of crash"
crash() { "$BUILD/crash" -tools "$BUILD" -steps "$WORK/steps" -mpi "$MPI" -seed "$seed" "$@"; }
is "$cases kills, ranks as goroutines" crash -sample "$cases" -not mpi-
is "$with_mpi kills with MPI" crash -sample "$with_mpi" -only mpi-
