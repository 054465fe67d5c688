# shellcheck shell=bash
# shellcheck disable=SC1091
# Test: no MPI, 10 s
#
# Ranks are goroutines.
#
# Random jobs by seed, and a model of what every run must be offered: some of what
# `make soak` runs.
#
#   SEED        the first one's (default TEST_SEED)
#   SOAK_JOBS   how many (default 40; 1,000 in a run of everything)
. "$(dirname "$0")/lib.bash"

jobs=${SOAK_JOBS:-$(sized 40 1000)} first=${SEED:-$TEST_SEED}
is "$jobs jobs from seed $first on" "$BUILD/soak" -jobs "$jobs" -seed "$first"
