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

# within SECONDS COMMAND...: repeats the command until it succeeds, for SECONDS at most.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within the time: $*"; return 1; }
        sleep 0.05
    done
}
