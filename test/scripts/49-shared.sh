# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016
# Test: one MPI, 12 s
#
# Which nodes see the same directory is found out, not assumed: a file system that is not
# mounted on one node, and a cache directory that all nodes share.
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps
is "four nodes" "$TESTBED" up 4

prefix=$WORK/prefix log=$WORK/log shared=$WORK/shared wrap=()
run() { # OPTION... -- OPTION...: the first of testbed run, the others of steps; output in $WORK/out
    local -a options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    (cd "$prefix" && exec "$TESTBED" run -n 4 --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" --env SCR_JOB_ID=shared \
        --env SCR_DEBUG=1 "${options[@]}" -- "${wrap[@]}" "$WORK/steps" -l "$log" "${@:2}") >"$WORK/out" 2>&1 </dev/null
}
begin() { rm -rf "$prefix" "$shared"; mkdir "$prefix" "$shared"; "$TESTBED" wipe; : >"$log"; }
shows() { "$@" || { cat "$WORK/out"; false; }; }
fails() { ! "$@" || { cat "$WORK/out"; false; }; }

if unshare --mount true 2>/dev/null; then
    begin
    mkdir "$WORK/local"
    cat >"$WORK/unmounted" <<'END'
#!/bin/bash
# unmounted PREFIX LOCAL COMMAND...: with a directory of its own in place of the prefix directory on node2
[ "$TESTBED_NODE" = node2 ] || exec "${@:3}"
exec unshare --mount --propagation private bash -c 'mount --bind "$1" "$0" && cd "$0" && exec "${@:2}"' "$@"
END
    chmod 755 "$WORK/unmounted"
    wrap=("$WORK/unmounted" "$prefix" "$WORK/local")
    for way in SCR_FLUSH_ASYNC=0 SCR_FLUSH_TYPE=DAEMON SCR_CACHE_BYPASS=1; do
        is "node2 does not have the prefix directory: Init fails with $way" fails run --env SCR_FLUSH=1 --env "$way" -- -n 2
        is "... and names the node" shows grep -q "node node2 does not see what rank 0 makes in the prefix directory $prefix: .*is its file system mounted there" "$WORK/out"
    done
    is "... nothing is written to that directory" same "" "$(find "$WORK/local" -type f)"
    is "... and no probe is left" same "" "$(find "$prefix" -name 'probe.*')"
    wrap=()
    is "with it the job runs" shows run --env SCR_FLUSH=1 -- -n 2
fi

# Two names of one machine: not a rank of an earlier run, which has to be killed.
begin
cat >"$WORK/named" <<'END'
#!/bin/bash
export SCR_NODE_NAME=name$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} % 2))
exec "$@"
END
chmod 755 "$WORK/named"
wrap=("$WORK/named")
is "two names of one machine: Init fails" fails run --env SCR_CNTL_BASE="$shared" -- -n 2
is "... which is said" shows grep -q "nodes name[01] and name[01] have the same control directory, $shared/.*SCR_NODE_NAME" "$WORK/out"
is "... and nobody is to be killed" fails grep -q "kill it" "$WORK/out"
wrap=()

restarted() { shows same "restarted $1" "$(tail -n 1 "$log")"; }
begin
cache=(--env SCR_CACHE_BASE="$shared" --env SCR_FLUSH=0)
is "all nodes share the cache directory" shows run "${cache[@]}" -- -n 2
is "... which is said" grep -q "all nodes share $shared, so it is used as one store of all ranks" "$WORK/out"
for nodes in node1,node0,node3,node2 node3,node1,node2,node0 node0,node1,node2,node3; do
    is "... ranks on $nodes restart" shows run "${cache[@]}" --nodes "$nodes" -- -n 0
    is "... from the newest checkpoint" restarted 2
done
