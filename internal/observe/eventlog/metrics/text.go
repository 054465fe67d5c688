package metrics

// The collector reads this format, in which a counter has its _total also in the lines about it:
//
//	# HELP goscr_checkpoints_total Checkpoints that are complete.
//	# TYPE goscr_checkpoints_total counter
//	goscr_checkpoints_total{jobid="4711",user="alice"} 12

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// family is a metric with its name.
type family struct {
	name, kind, help string
}

// The families. Names and units are as https://prometheus.io/docs/practices/naming has them.
var (
	info             = family{"goscr_job_info", "gauge", "What is known of the job, 1."}
	up               = family{"goscr_job_running", "gauge", "1: SCR_Init was called, SCR_Finalize was not; the job may have died since."}
	checkpoints      = family{"goscr_checkpoints_total", "counter", "Checkpoints that are complete."}
	outputs          = family{"goscr_outputs_total", "counter", "Datasets that are complete and are no checkpoints."}
	failed           = family{"goscr_dataset_failures_total", "counter", "Datasets that could not be completed."}
	written          = family{"goscr_written_bytes_total", "counter", "Bytes that the program has written to the cache."}
	redundancy       = family{"goscr_redundancy_bytes_total", "counter", "Bytes of redundancy that were made."}
	flushes          = family{"goscr_flushes_total", "counter", "Datasets that were copied to the prefix directory."}
	flushFailures    = family{"goscr_flush_failures_total", "counter", "Flushes that have failed."}
	flushed          = family{"goscr_flushed_bytes_total", "counter", "Bytes that were copied to the prefix directory."}
	fetched          = family{"goscr_fetched_bytes_total", "counter", "Bytes that were copied from the prefix directory."}
	phaseSeconds     = family{"goscr_phase_seconds_total", "counter", "Seconds that the slowest rank has taken, by phase and redundancy scheme."}
	phases           = family{"goscr_phases_total", "counter", "How many phases goscr_phase_seconds_total counts."}
	failures         = family{"goscr_failures_total", "counter", "Earlier runs of the job that have not ended by themselves."}
	survived         = family{"goscr_failures_survived_total", "counter", "Failures after which the job has restarted from a checkpoint."}
	restarts         = family{"goscr_restarts_total", "counter", "Restarts, by where the checkpoint was: cache, rebuilt, prefix; or from the beginning."}
	restartFailures  = family{"goscr_restart_failures_total", "counter", "Checkpoints from which the program could not restart."}
	newest           = family{"goscr_newest_checkpoint_timestamp_seconds", "gauge", "When the newest checkpoint was begun that is in the cache, or in the prefix directory."}
	fill             = family{"goscr_cache_used_ratio", "gauge", "How full the fullest store of a node was after the last checkpoint."}
	cacheBytes       = family{"goscr_cache_bytes", "gauge", "Bytes of the program's files in the caches of all nodes after the last checkpoint."}
	runs             = family{"goscr_run_runs_total", "counter", "Runs of the program that scr_run has seen end, by how: finished, halted, migrated, restarted, died."}
	runUp            = family{"goscr_run_running", "gauge", "1: the program runs."}
	nodes            = family{"goscr_run_nodes", "gauge", "Nodes of the newest run."}
	recoveries       = family{"goscr_run_recoveries_total", "counter", "Recoveries from a run that has failed, by the rung of SCR_RECOVERY."}
	nodesLost        = family{"goscr_run_nodes_lost_total", "counter", "Nodes that could not be used any more."}
	scavenges        = family{"goscr_run_scavenges_total", "counter", "Datasets that were scavenged."}
	scavengeFailures = family{"goscr_run_scavenge_failures_total", "counter", "Datasets that could not be scavenged."}
	scavenged        = family{"goscr_run_scavenged_bytes_total", "counter", "Bytes that were scavenged."}
)

// label is a label of a metric with its value.
type label struct{ name, value string }

// sums has the values of metrics, by family and labels.
type sums map[family]map[string]float64

func (s *sums) of(m family) map[string]float64 {
	if *s == nil {
		*s = sums{}
	}
	if (*s)[m] == nil {
		(*s)[m] = map[string]float64{}
	}
	return (*s)[m]
}

// count adds to a counter.
func (f *File) count(m family, n float64, labels ...label) {
	f.sums.of(m)[f.named(labels)] += max(n, 0)
}

// set sets a gauge to a number or a time.
func (f *File) set(m family, value any, labels ...label) {
	var v float64
	switch value := value.(type) {
	case int:
		v = float64(value)
	case int64:
		v = float64(value)
	case float64:
		v = value
	case time.Time:
		v = float64(value.UnixMicro()) / 1e6
	}
	f.sums.of(m)[f.named(labels)] = v
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// named writes labels as the format has them, those of the job first.
func (f *File) named(labels []label) string {
	var parts []string
	for _, l := range slices.Concat(f.labels, labels) {
		parts = append(parts, fmt.Sprintf(`%s="%s"`, l.name, escaped.Replace(strings.ToValidUTF8(l.value, "\uFFFD"))))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// text is the contents of the file.
func (s sums) text() string {
	var b strings.Builder
	families := slices.SortedFunc(maps.Keys(s), func(a, b family) int { return strings.Compare(a.name, b.name) })
	for _, m := range families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for _, labels := range slices.Sorted(maps.Keys(s[m])) {
			fmt.Fprintf(&b, "%s%s %s\n", m.name, labels, strconv.FormatFloat(s[m][labels], 'f', -1, 64))
		}
	}
	return b.String()
}
