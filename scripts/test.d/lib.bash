# shellcheck shell=bash
# The test scripts in this directory source this file; scripts/test describes their
# environment.

set -u
unset "${!SCR_@}"

# is NAME COMMAND...: one check, which succeeds if the command does; prints the command's
# output if it fails.
is() {
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then
        echo "ok $name"
    else
        echo "not ok $name"
        printf '%s\n' "$out" | sed 's/^/  /'
    fi
}

# same EXPECTED ACTUAL, for use with `is`.
same() {
    [ "$1" = "$2" ] || { printf 'expected: %s\nfound:    %s\n' "$1" "$2"; return 1; }
}

# within SECONDS COMMAND...: repeats the command until it succeeds, for SECONDS at most. On a
# machine with more work than processors the seconds are longer, in proportion to the load.
within() {
    local left=$(($1 * 1000)) cores load _
    cores=$(nproc)
    shift
    until "$@"; do
        [ "$left" -gt 0 ] || { echo "not within the time: $*"; return 1; }
        sleep 0.05
        read -r load _ </proc/loadavg
        load=$((10#${load/./} / cores)) # percent
        left=$((left - 50 * 100 / (load > 100 ? load : 100)))
    done
}

# struck COMMAND...: runs a command that has to strike a job in the middle of its work,
# and returns 75 if the job has ended before that. Then it runs it again.
struck() {
    local tries
    for tries in 1 2 3 4 5 6 7 8 9 10; do
        "$@"
        case $? in
        75) "$TESTBED" wipe ;;
        0) return 0 ;;
        *) return 1 ;;
        esac
    done
    echo "in $tries runs the job has ended before it was struck"
    return 1
}
