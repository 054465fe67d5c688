# shellcheck shell=bash
# shellcheck disable=SC1091,SC2016,SC2154
# Test: openmpi, 40 s
#
# A job under scr_run loses a node. What its log, scr_report, scr_status, scr_ckpt_interval and the
# metrics say of it is compared with what has happened. Of the log's default nothing is changed:
# scr_run turns it on.
. "$(dirname "$0")/lib.bash"

# Not with MPICH: over TCP between nodes, that of Debian 12 sometimes hangs in MPI_Finalize.
. "$(dirname "$0")/slurm.bash"

slurm up 5 || { echo "not ok slurm"; exit 1; }
printf 'node%d slots=2\n' 0 1 2 3 4 >"$WORK/hosts"
metrics=$WORK/metrics
mkdir "$metrics"
chmod 1777 "$metrics"
events() { grep -F "event=$1, " "$prefix/.scr/log"; }
# field NAME: of the lines of the log on stdin
field() { sed -nE "s/.*[, ]$1=(\"([^\"]*)\"|([^,]*)).*/\2\3/p"; }
status() { "$BUILD/scr_status" -p "$prefix"; }
tells() { status | grep -E -- "$1" || { status; false; }; }
value() { cat "$metrics"/$1 | grep -E "^$2[{ ]" | awk '{ n += $NF } END { print n + 0 }'; }

fresh
outside SCR_JOB_ID=report SCR_JOB_NAME='<b>heat' SCR_CHECKPOINT_INTERVAL=2 SCR_FLUSH=3 SCR_METRICS_DIR="$metrics" SCR_HOST_FILE="$WORK/hosts" SCR_MIN_NODES=4 SCR_LOG_SYSLOG_ENABLE=0 -- \
    "$BUILD/scr_run" mpirun --mca plm rsh -n 8 "$BUILD/heat" -x 256 -y 256 -s 20000 -c 100 -o "$prefix/final"
until_said 'heat\.[0-9]+ complete.*'
is "a job under scr_run: scr_status says on which nodes" within 60 tells '^job report of [^ ]+, <b>heat   run 1, RUNNING .*nodes node\[0-3\]'
within 60 tells '^in prefix +heat' >/dev/null
slurm cut node1 2>/dev/null
is "a node loses power: the job continues" ends 0 'run 2: exit status 0'
is "... scr_status says that it was lost, and when" tells 'run 2, FINISHED .*nodes node\[0,2-4\]   lost node1 [0-9:]{8}'

is "two runs are logged" same "1 2|1 2" "$(events RUN_START | field run | paste -sd ' ')|$(events RUN_END | field run | paste -sd ' ')"
first=$(events RUN_END | head -n 1) last=$(events RUN_END | tail -n 1)
is "... the first with why it ended" bash -c '[[ $1 != 0 && $2 = *lost\ node1* ]] || { echo "$3"; false; }' - \
    "$(field status <<<"$first")" "$(field note <<<"$first")" "$first"
is "... the second has ended well" same 0 "$(field status <<<"$last")"
is "... with their nodes" same "node[0-3] node[0,2-4]" "$(events RUN_START | field nodelist | paste -sd ' ')"
is "... and their ranks" same "8 8" "$(events NODES | field ranks | paste -sd ' ')"
is "... and as long as they took" bash -c 'awk -v a="$1" "BEGIN { exit !(a > 0) }"' - "$(field secs <<<"$first")"
is "the lost node is logged" grep -E 'event=NODE_FAIL, note="node1: ' "$prefix/.scr/log"
for phase in ROUTE WRITE ENCODE FLUSH; do
    is "the phase $phase has least, median and most, and a rank on a node" bash -c \
        'l=$(grep -F "phase=$1, " "$2" | tail -n 1); [[ $l =~ least=[0-9.]+,\ median=[0-9.]+,\ most=[0-9.]+,\ rank=[0-7],\ node=\"node[0-4]\" ]] || { echo "$l"; false; }' - $phase "$prefix/.scr/log"
done

took=$(events CHECKPOINT_END | wc -l) flushed=$(events FLUSH_SUCCESS | wc -l)
"$BUILD/scr_report" "$prefix" >"$WORK/report"
is "scr_report has both runs" bash -c 'grep -qE "^1 .* died " "$1" && grep -qE "^2 .* finished" "$1" || { cat "$1"; false; }' - "$WORK/report"
is "... the checkpoints, flushes and lost nodes of the log" grep -F "2 runs, 1 died; $took checkpoints, $flushed in the prefix directory; 1 node lost" "$WORK/report"
is "scr_run has printed the same three lines" same "$(grep -A2 '^2 runs, 1 died' "$WORK/report")" \
    "$(grep -A2 ' 2 runs, 1 died' "$log" | sed -E 's/^SCR: [0-9:]{8} //')"
best=$(sed -nE 's/.*: every (.*) \(Daly\)$/\1/p' "$WORK/report")
is "... with the best interval, $best" test -n "$best"
interval=$("$BUILD/scr_ckpt_interval" --from-log "$prefix" --stats 2>"$WORK/said")
is "scr_ckpt_interval finds it, too" bash -c 'awk -v a="$1" -v b="$2" "BEGIN { exit !(a - b <= 1 && b - a <= 1) }" || { echo "$1, $2"; cat "$3"; false; }' - \
    "$interval" "${best% *}" "$WORK/said"

# A process counts from zero, as Prometheus expects of counters.
is "the metrics of the job count its last run's checkpoints" same "$(sed -n '/event=NODES/h; /event=NODES/!H; ${g; p}' "$prefix/.scr/log" | grep -c event=CHECKPOINT_END)" "$(value 'goscr_report_*.prom' goscr_checkpoints_total)"
is "... those of scr_run its runs and lost nodes" same "2 1" "$(value 'goscr_run_report_*.prom' goscr_run_runs_total) $(value 'goscr_run_report_*.prom' goscr_run_nodes_lost_total)"
if command -v promtool >/dev/null; then
    for file in "$metrics"/*.prom; do
        is "Prometheus reads $(basename "$file")" bash -c 'out=$(promtool check metrics <"$1" 2>&1) && [ -z "$out" ] || { echo "$out"; cat "$1"; false; }' - "$file"
    done
fi

is "a page" "$BUILD/scr_report" "$prefix" --html "$WORK/report.html" --trace "$WORK/report.json"
is "... in which names are text" bash -c '! grep -q "<b>heat" "$1"' - "$WORK/report.html"
is "... and a trace that is JSON" python3 -m json.tool "$WORK/report.json" /dev/null
