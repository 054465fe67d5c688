# shellcheck shell=bash
# The test scripts in this directory source this file; go doc ./test/run describes their
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

# client NAME: copies the program steps or modes, which make has built, to $WORK. Programs of
# other scripts that run at the same time then have other paths, see running.
client() { cp "$BUILD/$1" "$WORK/$1"; }

# drawn N ITEM...: prints those items, a line each and in their order, that this run tries: all
# of them if TEST_SIZE is all, else N that TEST_SEED draws.
drawn() {
    local n=$1
    shift
    if [ "${TEST_SIZE:-}" = all ]; then printf '%s\n' "$@"; else marked "$n" "$@" | sed -n 's/^in //p'; fi
}

# divided ITEM...: prints those items, as drawn does, that this run tries with this MPI: all of them if TEST_SIZE is
# all. Else Open MPI has the half that TEST_SEED draws, and MPICH the other, so that a run with both tries each item.
divided() {
    local mine=in half=$((($# + ${TEST_SEED:-1} % 2) / 2))
    [ "$MPI" = openmpi ] || mine=out
    if [ "${TEST_SIZE:-}" = all ]; then printf '%s\n' "$@"; else marked $half "$@" | sed -n "s/^$mine //p"; fi
}

# marked N ITEM...: prints the items, each after "in" if it is one of the N that TEST_SEED draws, else after "out".
marked() {
    local n=$1 left item sum mark
    shift
    read -r sum _ < <(printf '%s ' "${TEST_SEED:-1}" "${0##*/}" "$@" | cksum)
    RANDOM=$((sum % 32768)) left=$#
    for item; do
        mark=out
        if [ $((RANDOM % left)) -lt "$n" ]; then
            mark=in n=$((n - 1))
        fi
        left=$((left - 1))
        printf '%s %s\n' $mark "$item"
    done
}

# sized N ALL: prints how many cases this run tries: ALL if TEST_SIZE is all, else N.
sized() { if [ "${TEST_SIZE:-}" = all ]; then echo "$2"; else echo "$1"; fi; }

# burden: sets percent to the work of the machine for each of its processors, 100 at least.
burden() {
    local load _
    read -r load _ </proc/loadavg
    percent=$((10#${load/./} / ${cores:=$(nproc)}))
    [ "$percent" -ge 100 ] || percent=100
}

# within SECONDS COMMAND...: repeats the command until it succeeds, for SECONDS at most. On a
# machine with more work than processors the seconds are longer, in proportion to the load. Where no `is` says so, it
# counts as a failed check if the command does not succeed.
within() {
    local left=$(($1 * 1000)) percent check=''
    [ "$BASH_SUBSHELL" -gt 0 ] || check='not ok '
    shift
    until "$@"; do
        [ "$left" -gt 0 ] || { echo "${check}not within the time: $*"; return 1; }
        sleep 0.05
        burden
        left=$((left - 50 * 100 / percent))
    done
}

# scaled SECONDS: prints them as `within` would count them now, for limits of the programs themselves.
scaled() {
    local percent
    burden
    echo $(($1 * percent / 100))
}

# running PATTERN: pids of the processes whose executable file has a path that matches. This
# starts no process for each of the machine's, so that a kill comes in time.
running() { find /proc/[0-9]*/exe -lname "$1" 2>/dev/null | cut -d/ -f3; }

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
