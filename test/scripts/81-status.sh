# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 30 s
#
# What scr_status says of a job that runs, is killed, loses a node, flushes in the background
# and halts is compared with what is on the nodes and in the prefix directory, and with what
# the next run restarts from.
. "$(dirname "$0")/lib.bash"

is "the program steps" client steps
is "four nodes and a spare" "$TESTBED" up 4 1

prefix=$WORK/prefix log=$WORK/log
settings=()
run() { # OPTION...: of steps; output in $WORK/out
    (cd "$prefix" && exec "$TESTBED" run -n 8 --mpi "$MPI" --timeout 300 --env SCR_PREFIX="$prefix" --env SCR_COPY_TYPE=XOR --env SCR_JOB_ID=status \
        --env SCR_LOG_ENABLE=1 --env SCR_LOG_SYSLOG_ENABLE=0 "${settings[@]}" -- "$WORK/steps" -l "$log" "$@") >"$WORK/out" 2>&1 </dev/null
}
fresh() { "$TESTBED" wipe; rm -rf "$prefix"; mkdir "$prefix"; : >"$log"; }

# status FIELD, or DATASET:FIELD: of scr_status; cache, flushing and prefix list the checkpoints that
# are there
status() {
    "$BUILD/scr_status" -p "$prefix" --json | python3 -c '
import json, sys
s, field = json.load(sys.stdin), sys.argv[1]
if field in ("cache", "flushing", "prefix"):
    print(*sorted(d["name"] for d in s["datasets"] if d[field]))
elif field == "next_flush":
    print((s[field] or {}).get("name", "-"))
elif "." in field:
    name, what = field.rsplit(":", 1)
    print(*[d.get(what, "-") for d in s["datasets"] if d["name"] == name])
elif field == "newest":
    print(s["datasets"][0]["name"])
else:
    print({None: "all", True: "yes", False: "no"}.get(s[field], s[field]))' "$1"
}
# The checkpoints of which all 8 ranks have all files on the nodes, by their names.
on_nodes() {
    local n
    for n in $("$TESTBED" nodes); do
        "$TESTBED" exec "$n" env SCR_JOB_ID=status SCR_PREFIX="$prefix" "$BUILD/scr_inspect_cache" | awk 'NR > 1 && $(NF - 1) == "YES" { print $NF }'
    done | sort | uniq -c | awk '$1 == 8 { print $2 }' | paste -sd ' '
}
# The checkpoints in the prefix directory, of which every byte is as it was written.
on_pfs() { "$BUILD/scr_index" -p "$prefix" --verify 2>/dev/null | grep -o 'ckpt[.][0-9]*' | sort -u | paste -sd ' '; }
restarted() { # NAME: the last run has restarted from it
    same "restarted ${1#ckpt.}" "$(grep ^restarted "$log" | tail -n 1)" || { cat "$WORK/out"; false; }
}
lines() { "$BUILD/scr_status" -p "$prefix" --all; }
says() { lines | grep -E "$1" || { lines; false; }; }
state() { [ "$(status state)" = "$1" ]; }
lose() { # PID: a node of the run is lost. mpirun may end before the last process on the nodes that are left.
    "$TESTBED" lose node1 2>/dev/null
    wait "$1"
    within 60 state DIED
}

fresh
slowly=(--env SCR_FLUSH=3 --env SCR_FLUSH_ASYNC=1 --env SCR_FLUSH_ASYNC_BW=100)
settings=("${slowly[@]}")
run -n 1000 &
is "a job runs" within 60 state RUNNING
is "... and writes checkpoints" within 60 grep -q '^complete 4' "$log"
is "... and scr_status says so" says '^job status of .* run 1, RUNNING '
is "... ckpt.3 is being flushed, slowly" says 'ckpt.3 .*being flushed'
is "... on which nodes it runs, which scr_run has not told" same "node[0-3]" "$(status nodes)"
is "... ckpt.3 is protected" same "XOR in sets of 4 1" "$(status ckpt.3:scheme) $(status ckpt.3:bears)"
lose $!
is "a node is lost, and with it the job" state DIED
is "... one node of a set of 4 may be lost" says 'XOR in sets of 4.*survives the loss of any one node'
newest=$(status newest)
settings=(--env SCR_FLUSH=0 --env SCR_COPY_TYPE=SINGLE)
is "... which was: the next run restarts" run -n 0
is "... from the newest that scr_status knew" restarted "$newest"
is "... which has kept its scheme in a run with another" same "XOR in sets of 4" "$(status "$newest:scheme")"
run -n 1
newest=$(status newest)
is "... what this run writes has another" same "SINGLE in sets of 1 0" "$(status "$newest:scheme") $(status "$newest:bears")"
is "... of which no node may be lost" says "$newest .*does not survive the loss of a node"

# The next flush is the one that scr_status has announced.
fresh
settings=(--env SCR_FLUSH=3)
run -n 1000 &
flushed() { sed -n 's/.*event=FLUSH_START.*name="\([^"]*\)".*/\1/p' "$prefix/.scr/log"; }
announced() { before=$(flushed) next=$(status next_flush); [[ $next = ckpt.* ]]; }
is "a job that flushes every third checkpoint" within 60 grep -q '^complete 4' "$log"
next=-
within 60 announced
is "... the next flush is of $next, which was not flushed yet" bash -c '[[ $1 = ckpt.* ]] && ! grep -qx "$1" <<<"$2"' - "$next" "$before"
is "... and is flushed" within 60 eval 'flushed | grep -qx "$next"'
lose $!

# How much of a flush is done is compared with the size of what is copied. Rank 0 has a file of
# 40,000,003 bytes, which is copied in pieces of 1 MiB.
for type in $(drawn 1 PTHREAD DAEMON); do
    fresh
    settings=(--env SCR_FLUSH=1 --env SCR_FLUSH_ASYNC=1 --env "SCR_FLUSH_TYPE=$type" --env SCR_FLUSH_ASYNC_BW=1000000 --env SCR_FILE_BUF_SIZE=1048576
        --env SCR_CACHE_SIZE=3)
    run -n 1000 -p uneven &
    there() { find "$prefix/ckpt.1/rank_0" -name '.scr.1.*' -printf '%s\n' 2>/dev/null; }
    part() { status ckpt.1:copied; }
    bytes() { awk -v p="$1" 'BEGIN { printf "%d", p * 40000003 + 0.5 }'; }
    begun() { first=$(part); [[ $first = 0.* ]]; }
    # flush.scr is written once a second at most, so what it says may be older than $size.
    caught_up() { now=$(part); [[ $now = 0.* && $now != "$first" ]] && [ "$(bytes "$now")" -ge $((size - 1048576)) ]; }
    within 120 begun
    size=$(there)
    is "a flush by $type, of which $first is copied" same 1 "$(awk -v p="$first" 'BEGIN { print (p > 0 && p < 1) }')"
    is "... which is there" bash -c '[ "$1" -le "$2" ] || { echo "$1 bytes, there are $2"; false; }' - "$(bytes "$first")" "$size"
    is "... in percent, too" says 'ckpt.1 .*being flushed \([0-9]+ %\)'
    is "... and of which not less is copied later than was there" within 120 caught_up
    lose $!
    is "... and the job is lost: it is not said to continue" says 'ckpt.1 .*its flush was not finished \([0-9]+ %\)'
done

fresh
settings=("${slowly[@]}")
run -n 4 -k write:50:4:-1
is "a job is killed while it writes its fourth checkpoint" within 60 state DIED
is "... in the cache is what is on the nodes" same "$(on_nodes)" "$(status cache)"
is "... ckpt.3 among them" grep -qw ckpt.3 <<<"$(status cache)"
is "... ckpt.3 was being flushed" same ckpt.3 "$(status flushing)"
is "... so nothing is in the prefix directory" same "$(on_pfs)|all" "$(status prefix)|$(status lose_all)"
is "... and one node may be lost" bash -c '[[ $1 =~ ^[0-9.e-]+$ ]]' - "$(status lose_one)"

settings=(--env SCR_FLUSH=3)
run -n 4
is "the next run ends" state FINISHED
is "... in the prefix directory is what scr_index verifies" same "$(on_pfs)" "$(status prefix)"
newest=$(status newest)
is "... the newest among them" grep -qw "$newest" <<<"$(status prefix)"
is "... nothing is being flushed" same "" "$(status flushing)"
is "... in the cache is what is on the nodes" same "$(on_nodes)" "$(status cache)"
is "... all nodes may be lost" says "$newest .*survives the loss of all nodes"
"$TESTBED" wipe
run -n 0
is "... and are: the next run fetches that" restarted "$newest"

fresh
settings=(--env SCR_HALT_EXIT=1 --env SCR_FLUSH=0)
is "scr_halt after two checkpoints" "$BUILD/scr_halt" --next -c 2 "$prefix"
run -n 5
is "a job that halts is no job that died" state STOPPED
is "... it has two checkpoints" same 2 "$(grep -c '^complete\|^begun' "$log" | awk '{ print int(($1 + 1) / 2) }')"
is "... which are on the nodes" same "$(on_nodes)" "$(status cache)"

rm "$prefix/.scr/log"
is "without a log places are known" same "$(on_nodes)" "$(status cache)"
is "... and that no run is" says '^no job runs here; there is no log'
