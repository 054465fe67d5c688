# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 80 s
#
# Tests the testbed itself, with namespaces and without.
. "$(dirname "$0")/lib.bash"

cat >"$WORK/ring.c" <<'END'
/* Each rank writes a file into its node's storage, and prints which files it finds there. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *dir = getenv("SCR_CACHE_BASE"), *name = getenv("SCR_NODE_NAME");
    char host[256], path[1024], seen[1024] = "", line[2048];
    int rank, ranks, i;
    FILE *f;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    gethostname(host, sizeof host);
    snprintf(path, sizeof path, "%s/%d", dir, rank);
    f = fopen(path, "w");
    if (f == NULL || fclose(f) != 0)
        return 99;
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < ranks; i++) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        if (access(path, F_OK) == 0)
            sprintf(seen + strlen(seen), " %d", i);
    }
    memset(line, 0, sizeof line);
    snprintf(line, sizeof line, "%d %s%s", rank, name ? name : host, seen);
    if (rank == 0) {
        puts(line);
        for (i = 1; i < ranks; i++) {
            MPI_Recv(line, sizeof line, MPI_CHAR, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            puts(line);
        }
    } else {
        MPI_Send(line, sizeof line, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
    if (argc > 1 && strcmp(argv[1], "forever") == 0) {
        if (rank == 0)
            puts("running");
        fflush(stdout);
        for (;;)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return argc > 1 ? atoi(argv[1]) : 0;
}
END
"$MPICC" -o "$WORK/ring" "$WORK/ring.c" || exit 1

run() { "$TESTBED" run --mpi "$MPI" "$@" 2>/dev/null | grep '^[0-9]* node\|^running' | paste -sd ,; }
status_of() { "$@" >/dev/null 2>&1; echo $?; }
nodes() { "$TESTBED" nodes | paste -sd ' '; }
leftover() { ls -d "$TESTBED_DIR"/run/job.* 2>/dev/null; pgrep_ring; }
pgrep_ring() { running "$WORK/ring"; }

# Prints the files in /dev/shm that were leaked: those that are new and that no process
# uses. Other users of the machine may have files there.
leaked() {
    local f
    comm -13 <(echo "$1") <(ls /dev/shm) | grep -v '^goscr-test' | while read -r f; do
        grep -qsF "/dev/shm/$f" /proc/[0-9]*/maps || [ ! -e "/dev/shm/$f" ] || echo "$f"
    done
}
gone() { # FILES: there were some, and none is there
    local f
    [ -n "$1" ] || return 1
    for f in $1; do [ ! -e "$f" ] || { echo "$f is there"; return 1; }; done
}
nothing_leaked() { same "" "$(leaked "$1")"; }

kinds=(namespaces none)
# MPICH has no transport that can use a network of the nodes here.
[ "$MPI" != openmpi ] || ! unshare --net true 2>/dev/null || kinds+=(network)
for kind in "${kinds[@]}"; do
    export TESTBED_NAMESPACES='' TESTBED_NET=''
    case $kind in
    namespaces) how='' ;;
    none) TESTBED_NAMESPACES=0 how=' (no namespaces)' ;;
    network) TESTBED_NET=1gbit how=' (network)' ;;
    esac
    before=$(ls /dev/shm)

    is "up$how" "$TESTBED" up 3 1
    is "up twice is refused$how" same 125 "$(status_of "$TESTBED" up 3)"
    is "nodes$how" same "node0 node1 node2" "$(nodes)"
    if [ "$kind" = network ]; then
        networks=$(ls -d /run/netns/goscr-"$(sed -n 's/^net=//p' "$TESTBED_DIR/settings")"-*)
        is "each node has an address of its own$how" same "node0 10.78.0.1/24,node1 10.78.0.2/24,node2 10.78.0.3/24" \
            "$("$TESTBED" run -n 3 sh -c 'echo "$TESTBED_NODE $(ip -o -4 addr show eth0 | awk "{ print \$4 }")"' | sort | paste -sd ,)"
        is "the links have the limit$how" grep -q '^qdisc tbf .* rate 1Gbit' <<<"$("$TESTBED" exec node2 tc qdisc show dev eth0)"
        is "... in both directions$how" grep -q '^qdisc tbf .* rate 1Gbit' <<<"$(tc -n "goscr-$(sed -n 's/^net=//p' "$TESTBED_DIR/settings")-hub" qdisc show dev node2)"
    fi
    is "each node its own name and storage$how" same \
        "0 node0 0 1,1 node0 0 1,2 node1 2 3,3 node1 2 3,4 node2 4 5,5 node2 4 5" "$(run -n 6 "$WORK/ring")"
    is "wipe$how" "$TESTBED" wipe
    is "--per-node and --nodes$how" same "0 node2 0,1 node0 1" \
        "$(run -n 2 --per-node 1 --nodes node2,node0 "$WORK/ring")"
    is "more ranks than places is refused$how" same 125 \
        "$(status_of "$TESTBED" run --mpi "$MPI" -n 4 --per-node 1 "$WORK/ring")"
    is "the program's exit status$how" same 3 "$(status_of "$TESTBED" run --mpi "$MPI" -n 2 -- "$WORK/ring" 3)"
    # shellcheck disable=SC2016
    is "--env and the caller's own SCR_CACHE_BASE$how" same "a b /x" "$(SCR_CACHE_BASE=/x "$TESTBED" run \
        --mpi "$MPI" -n 1 --env "V=a b" sh -c 'echo "$V $SCR_CACHE_BASE"')"
    is "a timeout is status 124$how" same 124 \
        "$(status_of "$TESTBED" run --mpi "$MPI" -n 3 --timeout 2 "$WORK/ring" forever)"
    is "... and leaves no process$how" same "" "$(leftover)"

    "$TESTBED" wipe
    exec 4< <("$TESTBED" run --mpi "$MPI" -n 3 --timeout 300 "$WORK/ring" forever 2>/dev/null; echo "status $?")
    while read -r -t 1800 -u 4 line && [ "$line" != running ]; do :; done
    is "a node is lost while a job runs$how" "$TESTBED" lose node1
    status=''
    while read -r -t 1800 -u 4 line; do status=$line; done
    exec 4<&-
    is "... which ends the job$how" grep -qE '^status [1-9]' <<<"$status"
    is "... not by its timeout$how" test "$status" != "status 124"
    is "... and leaves no process$how" same "" "$(leftover)"
    is "... a spare takes its place$how" same "node0 node3 node2" "$(nodes)"
    is "... its storage is empty, the others' is not$how" same "0 node0 0,1 node3 1,2 node2 2" \
        "$(run -n 3 "$WORK/ring")"
    is "... a command sees what a rank sees$how" same "2" "$("$TESTBED" exec node2 sh -c 'ls "$SCR_CACHE_BASE"')"
    is "nothing runs on a lost node$how" same 125 "$(status_of "$TESTBED" run --mpi "$MPI" -n 1 --nodes node1 true)"
    is "a rank is started by testbed run only$how" grep -q "testbed run starts ranks" <(env -u TESTBED_PLACES OMPI_COMM_WORLD_RANK=0 "$TESTBED" _rank -- true 2>&1)
    is "a node cannot be lost twice$how" same 125 "$(status_of "$TESTBED" lose node1)"
    is "without a spare$how" "$TESTBED" lose --no-spare node0
    is "... the list gets shorter$how" same "node3 node2" "$(nodes)"

    # A process that outlives its command still belongs to the node.
    # shellcheck disable=SC2016
    "$TESTBED" exec node2 sh -c 'setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!' >"$WORK/pid"
    is "a daemon of a node runs$how" kill -0 "$(cat "$WORK/pid")"
    is "... until the node is lost$how" "$TESTBED" lose node2
    is "... then not$how" within 5 bash -c '! kill -0 "$1" 2>/dev/null' - "$(cat "$WORK/pid")"

    is "wipe brings all back$how" "$TESTBED" wipe
    is "... in order$how" same "node0 node1 node2" "$(nodes)"

    exec 4< <("$TESTBED" run --mpi "$MPI" -n 3 --timeout 300 "$WORK/ring" forever 2>/dev/null; echo "status $?")
    while read -r -t 1800 -u 4 line && [ "$line" != running ]; do :; done
    is "down while a job runs$how" "$TESTBED" down
    while read -r -t 1800 -u 4 line; do :; done
    exec 4<&-
    is "... leaves no process$how" same "" "$(pgrep_ring)"
    is "... no directory$how" test ! -e "$TESTBED_DIR"
    [ "$kind" != network ] || is "... no network$how" gone "$networks"
    is "... and nothing in /dev/shm$how" within 5 nothing_leaked "$before"
done
