# shellcheck shell=bash
# Sourced by the test scripts beside it; see scripts/test for what they are given.

set -u
unset "${!SCR_@}"

# is NAME COMMAND...: one check; shows the command's output if it fails.
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

# Run a command that should take no longer than it takes to become true.
within() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "not within the time: $*"; return 1; }
        sleep 0.05
    done
}
