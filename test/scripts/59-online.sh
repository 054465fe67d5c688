# shellcheck shell=bash
# shellcheck disable=SC1091
# Test: no MPI, 180 s
#
# A sample of make test-online: jobs that continue in the same launch after ranks have died, in a Debian 13, whose MPI can do
# that. Its seeds follow TEST_SEED.
. "$(dirname "$0")/lib.bash"

if [ "$(id -u)" != 0 ]; then
    echo "ok skipped: a system of its own needs root"
    exit 0
fi
if ! "$ROOT/scripts/debian13" true >"$WORK/made" 2>&1; then
    echo "ok skipped: there is no Debian 13: $(tail -n 1 "$WORK/made")"
    exit 0
fi
# A job that its MPI ends counts as none, unless that is more than a fifth of them; a job that is wrong or hangs fails the check.
is "jobs in which ranks die go on, and come to the right result" "$ROOT/scripts/test-online" 4 "$TEST_SEED"
