# shellcheck shell=bash
# shellcheck disable=SC1091,SC2015,SC2016
# Test: one MPI, 30 s
#
# Tests stores, descriptors, and the modes of cache, prefix directory and restart, with
# programs under mpirun on simulated nodes.
. "$(dirname "$0")/lib.bash"

is "the program modes" client modes
is "the program steps" client steps
is "four nodes" "$TESTBED" up 4 4

prefix=$WORK/prefix
fresh() { rm -rf "$prefix"; mkdir "$prefix"; "$TESTBED" wipe; }
# A launcher may lose the messages of a program that aborts.
cat >"$WORK/keep" <<'END'
#!/bin/bash
# keep FILE PROGRAM...: runs the program, and appends its stderr to FILE
exec "${@:2}" 2>>"$1"
END
chmod +x "$WORK/keep"
# job RANKS [NAME=VALUE | OPTION]... -- PROGRAM...: in the prefix directory; output
# in $WORK/out
job() {
    local ranks=$1 options=() status
    shift
    while [ "$1" != -- ]; do
        case $1 in SCR_*=*) options+=(--env "$1") ;; *) options+=("$1") ;; esac
        shift
    done
    (cd "$prefix" && exec "$TESTBED" run -n "$ranks" --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" \
        --env SCR_JOB_ID=modes --env SCR_DEBUG=1 "${options[@]}" -- "$WORK/keep" "$WORK/stderr" "${@:2}") >"$WORK/out" 2>&1 </dev/null
    status=$?
    cat "$WORK/stderr" >>"$WORK/out"
    rm "$WORK/stderr"
    return $status
}
# says TEXT COMMAND...: the command succeeds, and its job prints the text.
says() {
    local text=$1
    shift
    "$@" && grep -q -- "$text" "$WORK/out" || { echo "no \"$text\":"; cat "$WORK/out"; false; }
}
in_node() { "$TESTBED" exec "$1" bash -c 'cd "$SCR_CACHE_BASE" && eval "$1"' - "$2"; }
cached() { in_node node0 'ls -d */scr.modes/scr.dataset.* 2>/dev/null | sed "s/.*\.//" | sort -n | paste -sd " "'; }
index() { "$BUILD/scr_index" -p "$prefix" 2>/dev/null | awk 'NR > 1 && $2 == "YES" { print $NF }' | sort | paste -sd ' '; }
current() { "$BUILD/scr_index" -p "$prefix" | awk '$4 == "*" { print $NF }'; }

stores_and_descriptors() {
    fresh
    cat >"$prefix/.scrconf" <<'END'
STORE=$SCR_CACHE_BASE/second GROUP=NODE COUNT=1
STORE=$SCR_CACHE_BASE COUNT=3
CKPT=0 INTERVAL=1 GROUP=NODE TYPE=XOR SET_SIZE=4
CKPT=1 INTERVAL=2 TYPE=PARTNER
CKPT=2 INTERVAL=3 TYPE=RS SET_FAILURES=2 STORE=$SCR_CACHE_BASE/second
END
    log=$WORK/log
    : >"$log"
    steps() { job 4 SCR_FLUSH=0 -- "$WORK/steps" -l "$log" "$@"; }
    is "six checkpoints, of three descriptors in two stores" steps -n 6
    is "... as many as each store keeps, and as they say" same \
        "scr.dataset.2 partner,scr.dataset.4 partner,scr.dataset.5 xor,second scr.dataset.6 rs" "$(in_node node0 \
        'find . -path "*/.scr/*" | sed "s,.*\(second\)/.*/\(scr.dataset.[0-9]*\)/.*\.,\1 \2 ,; s,.*/\(scr.dataset.[0-9]*\)/.*\.,\1 ,"' |
        sort | paste -sd ,)"
    "$TESTBED" lose node1 2>/dev/null
    "$TESTBED" lose node2 2>/dev/null
    is "two nodes are lost: the one that bears it" says "6): rebuilt from redundancy" steps -n 0
    is "... is restarted from" same "restarted 6" "$(tail -n 1 "$log")"
}

bypass() {
    fresh
    bypass=(SCR_CACHE_BYPASS=1)
    is "bypass: four ranks write one file" says "complete 2" job 4 "${bypass[@]}" -- "$WORK/modes" -as -n 2
    is "... and nothing to the cache" same "" "$(cached)"
    for ranks in 4 2 7; do
        is "... $ranks ranks restart from it" says "restarted 2 of 4" job $ranks "${bypass[@]}" -- "$WORK/modes" -as
    done
    job 2 "${bypass[@]}" -- "$WORK/modes" -as -n 2 -w # is killed while it writes the 4th
    is "... a job that is killed leaves what was complete" same "ckpt.1 ckpt.2 ckpt.3" "$(index)"
    is "... which the next restarts from" says "restarted 3 of 2" job 4 "${bypass[@]}" -- "$WORK/modes" -as
    is "... without bypass too" says "restarted 3 of 2" job 3 -- "$WORK/modes" -as
    job 4 -- "$WORK/modes" -as -n 1
    is "... where one file of several ranks is refused" grep -q "is also written by rank" "$WORK/out"
}

no_cache() {
    fresh
    is "SCR_CACHE_SIZE=0 is bypass" says "complete 1" job 4 SCR_CACHE_SIZE=0 -- "$WORK/modes" -as -n 1
    is "... and so is the restart" says "restarted 1 of 4" job 4 SCR_CACHE_SIZE=0 -- "$WORK/modes" -as
}

every_second() {
    fresh
    echo 'CKPT=0 INTERVAL=1
CKPT=1 INTERVAL=2 BYPASS=1' >"$prefix/.scrconf"
    is "every second to the prefix directory" says "complete 2" job 4 -- "$WORK/modes" -n 2
    is "... is the newest" says "restarted 2 of 4" job 4 -- "$WORK/modes" -n 1
    is "... until one in the cache is" says "restarted 3 of 4" job 4 -- "$WORK/modes"
}

# One file of all ranks in storage that they share.
global=$WORK/global
store() { printf 'STORE=%s GROUP=WORLD\nCKPT=0 STORE=%s TYPE=XOR\n' "$global" "$global" >"$prefix/.scrconf"; }
copies() { (cd "$global" && find . -name all | wc -l); } # of the files in the store that all ranks write
sum() { "$BUILD/scr_print" "$prefix/.scr/scr.dataset.$1"/rank2file.0.0 | grep -c '0x'; } # checksums in a list
verify() { "$BUILD/scr_index" -p "$prefix" --verify "$1"; }
shared_store() {
    local way=${1:-}
    fresh
    rm -rf "$global"
    store
    is "four ranks write one file in a store of all${way:+, by MPI-IO}" says "complete 2" \
        job 4 SCR_FLUSH=1 -- "$WORK/modes" -as $way -n 2
    is "... kept with SINGLE" grep -q "they are kept with SINGLE" "$WORK/out"
    is "... which is one file of a dataset" same 2 "$(copies)"
    is "... flushed once, whole" same "$(stat -c %s "$global"/*/*/scr.dataset.2/ckpt.2/all)" "$(stat -c %s "$prefix/ckpt.2/all")"
    is "... with its checksum, and those of the ranks' own" same 5 "$(sum 2)"
    is "... and it is what was written" verify ckpt.2
    is "the ranks move: it stays where it is" says "as it was in the cache" \
        job 4 SCR_FLUSH=0 --nodes node3,node2,node1,node0 -- "$WORK/modes" -as $way -n 1
    "$TESTBED" lose node1 2>/dev/null
    "$TESTBED" lose node2 2>/dev/null
    is "two nodes are lost: nothing of it is" says "restarted 3 of 4" job 4 SCR_FLUSH=0 -- "$WORK/modes" -as
    is "... as it was" grep -q "3): as it was in the cache" "$WORK/out"
    for node in $("$TESTBED" nodes); do # some of these have nothing
        "$TESTBED" exec "$node" env SCR_JOB_ID=modes "$BUILD/scr_copy" --prefix "$prefix" --id 3 >"$WORK/copied.$node" 2>&1
    done
    is "scr_copy and scr_index --build bring it" "$BUILD/scr_index" -p "$prefix" --build 3
    is "... once, as it was written" verify ckpt.3
    rm -rf "$global"
    is "the store is emptied: it is fetched" says "ckpt.3: fetched" job 4 SCR_FLUSH=0 -- "$WORK/modes" -as
    is "... as one file" same 1 "$(copies)"
    rm -r "$global" "$prefix/.scrconf"
    is "without the line it is read where it is" says "read where they are" job 4 SCR_FLUSH=0 -- "$WORK/modes" -as
}

shared_store_by_mpi_io() { shared_store -m; }

store_of_a_node() {
    printf 'STORE=$SCR_CACHE_BASE/x GROUP=WORLD\nCKPT=0 STORE=$SCR_CACHE_BASE/x\n' >"$prefix/.scrconf"
    job 4 -- "$WORK/modes" -as -n 1
    is "storage of the nodes that a line calls one of all is an error" grep -q "does not see what rank 0 makes there" "$WORK/out"
}

# SCR_GLOBAL_RESTART=1, with other numbers of ranks.
global_restart() {
    local ranks
    for ranks in $(drawn 1 4 2 7); do
        on=(--nodes "node0,node1")
        [ $ranks = 2 ] || on=(--nodes "node0,node1,node2,node3")
        fresh
        is "four ranks write to the cache" says "complete 2" job 4 SCR_FLUSH=0 "${on[@]}" -- "$WORK/modes" -n 2
        is "... SCR_GLOBAL_RESTART=1: $ranks continue" says "restarted 2 of 4" \
            job $ranks SCR_FLUSH=0 SCR_GLOBAL_RESTART=1 "${on[@]}" -- "$WORK/modes" -a -n 1
        is "... and they again" says "restarted 3 of $ranks" job $ranks SCR_FLUSH=0 SCR_GLOBAL_RESTART=1 "${on[@]}" -- "$WORK/modes" -a
        is "... what was flushed is all there" same "ckpt.1 ckpt.2 ckpt.3" "$(index)"
    done
}

flush_on_restart() {
    fresh
    is "four ranks write to the cache" says "complete 2" job 4 SCR_FLUSH=0 -- "$WORK/modes" -n 2
    echo 2 >"$prefix/LAST"
    is "... SCR_FLUSH_ON_RESTART=1: seven read by themselves" says "restarted 2 of 4" \
        job 7 SCR_FLUSH_ON_RESTART=1 SCR_FETCH=0 -- "$WORK/modes" -ar
    "$TESTBED" wipe
    is "... SCR_FETCH_BYPASS=1: any number reads what was flushed" says "restarted 2 of 4" \
        job 3 SCR_FETCH_BYPASS=1 -- "$WORK/modes" -a
    is "... nothing is copied to the cache" same "" "$(cached)"
    is "... without it, three are told what to do" says "from the beginning" job 3 -- "$WORK/modes"
    is "... by a line on stderr" grep -q "start again with 4 ranks, or with SCR_FETCH_BYPASS=1" "$WORK/out"
}

what_is_kept() {
    fresh
    is "SCR_PREFIX_SIZE=2" says "complete 4" job 4 SCR_FLUSH=1 SCR_PREFIX_SIZE=2 -- "$WORK/modes" -n 4
    is "... keeps the two newest" same "ckpt.3 ckpt.4" "$(index)"
    is "... and deletes the files of the others" same "ckpt.3 ckpt.4" "$(cd "$prefix" && echo ckpt.*)"
    is "SCR_CURRENT" says "restarted 3 of 4" job 4 SCR_CURRENT=ckpt.3 -- "$WORK/modes"
    is "... leaves the cache without those that are newer" same "3" "$(cached)"
    is "... and is current" same ckpt.3 "$(current)"
    is "SCR_DISTRIBUTE=0, SCR_FETCH=0: from the beginning" says "from the beginning" \
        job 4 SCR_DISTRIBUTE=0 SCR_FETCH=0 SCR_FLUSH=0 --nodes node3,node2,node1,node0 -- "$WORK/modes"
    is "... files stay where they are" says "as it was in the cache" job 4 -- "$WORK/modes"
    is "SCR_CACHE_PURGE=1" says "from the beginning" job 4 SCR_CACHE_PURGE=1 SCR_FETCH=0 -- "$WORK/modes"
    is "... leaves nothing in the cache" same "" "$(cached)"
    is "SCR_PREFIX_PURGE=1, by another number of ranks" says "from the beginning" job 3 SCR_PREFIX_PURGE=1 -- "$WORK/modes"
    is "... leaves nothing in the prefix directory" same "" "$(index)$(cd "$prefix" && find . -name 'ckpt*')"
}

another_directory() {
    fresh
    is "in one directory of the nodes" says "complete 2" job 4 SCR_FLUSH=0 -- "$WORK/modes" -n 2
    elsewhere=$(in_node node0 'pwd')/elsewhere
    is "... then in another: what is there is used" says "as it was in the cache" \
        job 4 SCR_FLUSH=0 SCR_CACHE_BASE="$elsewhere" -- "$WORK/modes" -n 2
    is "... and is gone in the end" same "" "$(cached)"
    is "... what is new is in the other" says "restarted 4 of 4" job 4 SCR_CACHE_BASE="$elsewhere" -- "$WORK/modes"
}

mapfile -t list < <(drawn 5 stores_and_descriptors bypass no_cache every_second shared_store shared_store_by_mpi_io store_of_a_node \
    global_restart flush_on_restart what_is_kept another_directory)
for mode in "${list[@]}"; do
    "$mode"
done
fresh
