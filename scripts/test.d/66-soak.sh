# shellcheck shell=bash
# shellcheck disable=SC1091
# Needs no MPI: ranks are goroutines.
#
# Random jobs by seed, and a model of what every run must be offered: some of what
# `make soak` runs.
#
#   SEED        the first one's (default 1)
#   SOAK_JOBS   how many (default 150)
. "$(dirname "$0")/lib.bash"

is "soak builds" env CGO_ENABLED=0 go build -trimpath -o "$WORK/soak" ./scripts/soak
jobs=${SOAK_JOBS:-150} first=${SEED:-1}
is "$jobs jobs from seed $first on" "$WORK/soak" -jobs "$jobs" -seed "$first"
