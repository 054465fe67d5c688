# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016
# Test: one MPI, 50 s
#
# Tests the log of a job under mpirun: text, SQLite, and a real MariaDB server that works,
# hangs or has ended; and how many lines are printed if all ranks have the same message.
. "$(dirname "$0")/lib.bash"

here=$ROOT/test/scripts
strict=(-std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -O2 -I"$BUILD")
is "log.c builds" "$MPICC" "${strict[@]}" -o "$WORK/log" "$here/log.c" -L"$BUILD" -lscr -Wl,-rpath,"$BUILD"
is "the program steps" client steps
is "rows builds" env CGO_ENABLED=0 go build -o "$WORK/rows" "$here/rows"

prefix=$WORK/prefix
fresh() { rm -rf "$prefix"; mkdir "$prefix"; "$TESTBED" wipe; }
job() { # OPTION... -- PROGRAM...: of testbed run, in the prefix directory, with a log
    (cd "$prefix" && exec "$TESTBED" run --mpi "$MPI" --timeout 120 --env SCR_PREFIX="$prefix" \
        --env SCR_JOB_ID=job1 --env SCR_LOG_ENABLE=1 --env SCR_LOG_SYSLOG_ENABLE=0 "$@") </dev/null
}
well() { "$@" >"$WORK/out" 2>&1 || { cat "$WORK/out"; return 1; }; }
steps() { well job -n 4 --env SCR_FLUSH=2 "$@"; }

# Prints the events of the last run, one on each line, with the number of the dataset, without
# NODES, which is in a table of its own. Transfers are in lower case.
events() {
    sed -En '/, (phase|event=NODES)[=,]/d; /event=INIT_START/h; /event=INIT_START/!H; ${g; p}' "$prefix/.scr/log" |
        sed -E 's/.*(event|xfer)=([A-Z_]*)(.*dset=([0-9]+))?.*/\1 \2 \4/; s/^event //; s/^xfer (.*)/\L\1/; s/ $//'
}
# The events of a checkpoint, and of its flush.
took() { printf '%s\n' COMPUTE_END "CHECKPOINT_START $1" "CHECKPOINT_END $1" "encode $1"; }
flushed() { printf '%s\n' "FLUSH_START $1" "FLUSH_SUCCESS $1" "flush $1"; }

is "two nodes" "$TESTBED" up 2 2
fresh
is "a job with a log" steps -- "$WORK/steps" -n 3
is "... says what has happened" same "$(
    printf '%s\n' INIT_START INIT_END COMPUTE_START RESTART_NONE
    took 1; echo COMPUTE_START; took 2; flushed 2; echo COMPUTE_START; took 3
    printf '%s\n' COMPUTE_START COMPUTE_END; flushed 3; echo FINALIZE_END
)" "$(events)"
line='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z: host=[a-z0-9.-]+, jobid=job1, (event|xfer|phase)=[A-Z_]+(, |$)'
is "... in lines like SCR's" same 0 "$(grep -Evc "$line" "$prefix/.scr/log")"
is "... with the place of a checkpoint" grep -E 'event=CHECKPOINT_START, note="/[^"]*", dset=1, name="ckpt.1"$' "$prefix/.scr/log"
is "... and what was copied" grep -E "xfer=FLUSH, from=\"/[^\"]*\", to=\"$prefix\", dset=2, name=\"ckpt.2\", start=[0-9T:.-]*Z, secs=[0-9.]*, bytes=[1-9][0-9]*, files=[1-9][0-9]*$" "$prefix/.scr/log"
is "no database was asked for" test ! -e "$prefix/.scr/log.sqlite"

"$TESTBED" lose node1 2>/dev/null
is "a node is lost" steps -- "$WORK/steps" -n 0
is "... the log has the rebuilding" same "$(
    printf '%s\n' INIT_START "REBUILD_START 3" "REBUILD_SUCCESS 3" INIT_END COMPUTE_START \
        "RESTART_START 3" "RESTART_SUCCESS 3" COMPUTE_END FINALIZE_END
)" "$(events)"
"$TESTBED" wipe
is "all nodes are lost" steps -- "$WORK/steps" -n 0
is "... the log has the fetch" same "$(
    printf '%s\n' INIT_START INIT_END COMPUTE_START "FETCH_START 3" "FETCH_SUCCESS 3" "fetch 3" \
        "RESTART_START 3" "RESTART_SUCCESS 3" COMPUTE_END FINALIZE_END
)" "$(events)"

metrics=$WORK/metrics
mkdir "$metrics"
fresh
is "a job with metrics" steps --env SCR_METRICS_DIR="$metrics" -- "$WORK/steps" -n 3
is "... says nothing of it" same "" "$(grep -i metrics "$WORK/out")"
is "... which Prometheus reads" bash -c '[ -s "$1" ] || { echo "no file"; exit 1; }; out=$(promtool check metrics <"$1" 2>&1) && [ -z "$out" ] || { echo "$out"; cat "$1"; false; }' \
    - "$metrics"/goscr_job1_*.prom
# value NAME: the sum of a metric
value() { awk -v name="$1{" 'index($0, name) == 1 { n += $NF } END { print n + 0 }' "$metrics"/goscr_job1_*.prom; }
is "... as the log has it" same "$(grep -c event=CHECKPOINT_END "$prefix/.scr/log") $(grep -c event=FLUSH_SUCCESS "$prefix/.scr/log") $(
    sed -n 's/.*xfer=FLUSH.*bytes=\([0-9]*\).*/\1/p' "$prefix/.scr/log" | awk '{ n += $1 } END { print n + 0 }') 0" \
    "$(value goscr_checkpoints_total) $(value goscr_flushes_total) $(value goscr_flushed_bytes_total) $(value goscr_job_running)"
fresh
is "a job whose directory for metrics is missing" steps --env SCR_METRICS_DIR="$metrics/none" -- "$WORK/steps" -n 1
is "... says so once" same 1 "$(grep -c "metrics: open $metrics/none/" "$WORK/out")"

recorders() { # pids of processes that write for a job in this prefix directory
    grep -slzxF -e "SCR_PREFIX=$prefix" /proc/[0-9]*/environ | grep -o '[0-9]*' | while read -r p; do
        grep -qsz '^scr_log_recorder$' "/proc/$p/cmdline" && echo "$p"
    done
}
none() { [ -z "$(recorders)" ]; }
# Messages about the log, except those of a job that did not wait for a slow disk.
complaints() { grep 'event log' "$WORK/out" | grep -v 'has not taken all events'; }

fresh
is "a job with SQLite" steps --env SCR_LOG_DB_ENABLE=1 -- "$WORK/steps" -n 2
is "... leaves no process" within 30 none
is "... says nothing of it" same "" "$(complaints)"
is "... has each event in the database" same "$(grep -o 'event=[A-Z_]*' "$prefix/.scr/log" | cut -d= -f2 | grep -vx NODES)" \
    "$("$WORK/rows" "$prefix/.scr/log.sqlite" 'SELECT type FROM events ORDER BY id')"
is "... and its nodes" same "NODES	2	4	node[0-1]" "$("$WORK/rows" "$prefix/.scr/log.sqlite" 'SELECT type, nodes, ranks, nodelist FROM runs')"
is "... and each transfer" same "ENCODE	1
ENCODE	2
FLUSH	2" "$("$WORK/rows" "$prefix/.scr/log.sqlite" 'SELECT type, dset FROM transfers WHERE bytes > 0 AND files > 0 ORDER BY id')"
is "... of one job" same "job1	$prefix" "$("$WORK/rows" "$prefix/.scr/log.sqlite" 'SELECT jobid, prefix FROM jobs')"

fresh
job -n 4 --env SCR_LOG_DB_ENABLE=1 -- "$WORK/log" children >"$WORK/out" 2>&1
sed -n 's/^\(ok\|not ok\) /\1 with a database: /p' "$WORK/out"
is "... it comes to its end" bash -c 'grep -qx end "$1" || { cat "$1"; false; }' - "$WORK/out"

fresh
is "a killed job" bash -c '! "$@"' - "$TESTBED" run --mpi "$MPI" -n 4 --timeout 120 --env SCR_PREFIX="$prefix" --env SCR_LOG_ENABLE=1 \
    --env SCR_LOG_SYSLOG_ENABLE=0 --env SCR_LOG_DB_ENABLE=1 -- "$WORK/steps" -n 3 -k write:50:2:-1
is "... leaves no process" within 30 none

# Without the command beside the library, or in PATH.
mkdir "$WORK/lib"
cp "$BUILD/libscr.so" "$WORK/lib/"
"$MPICC" "${strict[@]}" -o "$WORK/loose" "$here/steps.c" -L"$BUILD" -lscr -lrt
fresh
is "without the commands a job runs" steps --env SCR_LOG_DB_ENABLE=1 --env LD_LIBRARY_PATH="$WORK/lib:${LD_LIBRARY_PATH:-}" \
    -- env PATH="$WORK/lib" "$WORK/loose" -n 1
is "... and says so" same 1 "$(grep -c 'there is no command scr_log_recorder' "$WORK/out")"
is "... with the text log" grep -q FINALIZE_END "$prefix/.scr/log"

# ------------------------------------------------------------------ MariaDB

server=
start_server() { # starts MariaDB on a free port
    local try
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM + $$ + try) % 20000))
        mariadbd "${maria[@]}" --datadir="$WORK/db/data" --socket="$socket" --pid-file="$WORK/db/pid" \
            --bind-address=127.0.0.1 --port=$port --innodb-buffer-pool-size=8M >>"$WORK/db/server" 2>&1 &
        server=$!
        within 60 eval 'sql "SELECT 1" >/dev/null || ! kill -0 $server 2>/dev/null' && kill -0 $server 2>/dev/null && return
        wait $server
    done
    tail "$WORK/db/server"
    return 1
}
sql() { mariadb --no-defaults --socket="$socket" --user=root --batch --skip-column-names -e "$1" 2>&1; }
stop_server() {
    [ -n "$server" ] || return 0
    kill -CONT "$server" 2>/dev/null
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    server=
}
trap stop_server EXIT

PATH=$PATH:/usr/sbin
if command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then

socket=$WORK/db/socket
maria=(--no-defaults --tmpdir="$WORK/db/tmp") # a server that starts empties its directory of the tables of others
mkdir -p "$WORK/db/tmp"
if [ "$(id -u)" = 0 ]; then # MariaDB refuses to run as root
    chmod 711 "$WORK"
    chown nobody "$WORK/db" "$WORK/db/tmp"
    maria+=(--user=nobody)
fi
is "MariaDB is set up" mariadb-install-db "${maria[@]}" --datadir="$WORK/db/data" --auth-root-authentication-method=normal --skip-test-db
start_server >"$WORK/out"
is "... starts" bash -c '[ $1 = 0 ] || { cat "$2"; false; }' - $? "$WORK/out"
sql "CREATE DATABASE scrlog; CREATE USER scr IDENTIFIED BY 'secret'; GRANT ALL ON scrlog.* TO scr" >"$WORK/out"
is "... has a database" same "" "$(<"$WORK/out")"
is "the Go tests with it" bash -c 'out=$("$@" 2>&1) && ! grep -q "^--- SKIP" <<<"$out" && grep -q "^--- PASS: TestDB_MySQL " <<<"$out" || { echo "$out"; false; }' - \
    env GOSCR_TEST_MYSQL="$socket" CGO_ENABLED=0 go test -count=1 -v -run MySQL "$ROOT/internal/observe/eventlog/database"
sql "DROP DATABASE scrlog; CREATE DATABASE scrlog"
is "Grafana's views and queries with it" bash -c 'out=$("$@" 2>&1) && ! grep -q "^--- SKIP" <<<"$out" && grep -q "^--- PASS: TestViews_MySQL " <<<"$out" || { echo "$out"; false; }' - \
    env GOSCR_TEST_MYSQL="$socket" CGO_ENABLED=0 go test -count=1 -v -run MySQL "$ROOT/internal/observe/account"
sql "DROP DATABASE scrlog; CREATE DATABASE scrlog"

db=(--env SCR_LOG_DB_ENABLE=1 --env SCR_LOG_DB_USER=scr --env SCR_LOG_DB_PASS=secret)
for host in "127.0.0.1:$port" "$socket"; do
    fresh
    sql "DROP TABLE IF EXISTS scrlog.jobs, scrlog.events, scrlog.transfers"
    is "a job with MariaDB at $host" steps "${db[@]}" --env SCR_LOG_DB_HOST="$host" -- "$WORK/steps" -n 2
    is "... leaves no process" within 30 none
    is "... says nothing of it" same "" "$(complaints)"
    is "... has each event in the database" same "$(grep -o 'event=[A-Z_]*' "$prefix/.scr/log" | cut -d= -f2 | grep -vx NODES)" \
        "$(sql 'SELECT type FROM scrlog.events ORDER BY id')"
    is "... and each transfer" same 3 "$(sql 'SELECT count(*) FROM scrlog.transfers WHERE bytes > 0 AND secs >= 0')"
done
is "a command adds an event" env SCR_PREFIX="$prefix" SCR_LOG_ENABLE=1 SCR_LOG_SYSLOG_ENABLE=0 SCR_LOG_DB_ENABLE=1 SCR_LOG_DB_USER=scr \
    SCR_LOG_DB_PASS=secret SCR_LOG_DB_HOST="$socket" "$BUILD/scr_log_event" -i job1 -T NODE_FAIL -N "node1: no answer"
is "... in the database" same "node1: no answer" "$(sql "SELECT note FROM scrlog.events WHERE type = 'NODE_FAIL'")"
sql "REVOKE ALL ON scrlog.* FROM scr; GRANT SELECT, INSERT ON scrlog.* TO scr"
fresh
is "a job that may only insert" steps "${db[@]}" --env SCR_LOG_DB_HOST="$socket" -- "$WORK/steps" -n 1
is "... ends" within 30 none
is "... does" same 2 "$(sql 'SELECT count(*) FROM scrlog.events WHERE type = "FINALIZE_END"')"
fresh
is "a job with a wrong password" steps "${db[@]}" --env SCR_LOG_DB_PASS=wrong --env SCR_LOG_DB_HOST="$socket" -- "$WORK/steps" -n 1
is "... says so" grep -q 'Access denied' "$WORK/out"
is "... without a password" same 0 "$(grep -Ec 'wrong|secret' "$WORK/out")"

kill -STOP "$server"
fresh
is "a job whose database hangs" steps "${db[@]}" --env SCR_LOG_DB_HOST="127.0.0.1:$port" -- "$WORK/steps" -n 3
is "... has its text log" same 1 "$(grep -c FINALIZE_END "$prefix/.scr/log")"
is "... says so" grep -q 'event log: the database has not taken all events' "$WORK/out"
is "... leaves no process" within 30 none
kill -CONT "$server"
stop_server
fresh
is "a job whose database is gone" steps "${db[@]}" --env SCR_LOG_DB_HOST="127.0.0.1:$port" -- "$WORK/steps" -n 3
is "... says so" grep -q 'event log: .*connection refused' "$WORK/out"

else
    echo "   no MariaDB here: not tested"
fi

# ----------------------------------------------------- what all ranks say at once

fresh
began=$SECONDS
job -n 24 -- "$WORK/log" misroute >"$WORK/out" 2>&1
minutes=$(((SECONDS - began + 1) / 60)) # after each of which three lines more are permitted
sed -n 's/^\(ok\|not ok\) /\1 misrouted: /p' "$WORK/out"
is "... it comes to its end" grep -qx end "$WORK/out"
count=$(grep -c 'SCR: rank .*/elsewhere' "$WORK/out")
is "24 ranks with the same mistake, three times, write $count lines" bash -c '[ $1 -ge 2 ] && [ $1 -le $((8 + 3 * $3)) ] || { cat "$2"; false; }' - "$count" "$WORK/out" "$minutes"
is "... one says how many ranks have it" grep -q 'also on 23 other ranks, as 1, 6, 12, 18)' "$WORK/out"
is "... nothing of that is left" same "" "$(find "$prefix/.scr" -name 'said.*')"
