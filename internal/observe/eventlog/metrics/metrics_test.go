package metrics

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/observe/eventlog"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	job  = eventlog.Job{Host: "node0", User: "alice", ID: "4711", Name: "heat", Cluster: "big", Prefix: "/p/run7"}
	when = time.Unix(1_800_000_000, 250_000_000)
)

// recorded returns what a file has after some records.
func recorded(t *testing.T, part string, job eventlog.Job, records ...eventlog.Record) string {
	t.Helper()
	dir := t.TempDir()
	f := Open(dir, part, job)
	for _, r := range records {
		r.Job = job
		if r.Time.IsZero() {
			r.Time = when
		}
		must(t, f.Write(r))
	}
	must(t, f.Close())
	list, err := os.ReadDir(dir)
	must(t, err)
	if len(list) != 1 || !strings.HasSuffix(list[0].Name(), ".prom") {
		t.Fatalf("%v", list)
	}
	if info, err := list[0].Info(); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v %v: node_exporter cannot read it", info.Mode(), err)
	}
	data, err := os.ReadFile(filepath.Join(dir, list[0].Name()))
	must(t, err)
	return string(data)
}

// has compares the lines of a file that are no comments.
func has(t *testing.T, text string, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), `jobid="4711",user="alice"`, "J"))
		}
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s\nwant\n%s", g, w)
	}
}

// allRecords are those of a run that restarts after a failure, and of scr_run.
func allRecords() []eventlog.Record {
	spread := func(kind string, most float64, bytes int64) eventlog.Record {
		return eventlog.Record{Type: kind, Dataset: 2, Name: "ckpt.2", Bytes: &bytes, Spread: &eventlog.Spread{Most: most}}
	}
	fill := spread("FILL", 12.5, 300)
	fill.Note = "/dev/shm"
	copied := func(kind string) eventlog.Record {
		return eventlog.Record{Transfer: true, Type: kind, Dataset: 2, Bytes: eventlog.Count(200)}
	}
	return []eventlog.Record{
		{Type: "EARLIER_RUN_DIED"},
		{Type: "INIT_START"},
		{Type: "REBUILD_START", Dataset: 1},
		{Type: "REBUILD_SUCCESS", Dataset: 1, Note: "rebuilt from redundancy"},
		{Type: "INIT_END", Note: "XOR in sets of 4, bears 1"},
		{Type: "COMPUTE_START"},
		{Type: "RESTART_START", Dataset: 1},
		{Type: "RESTART_SUCCESS", Dataset: 1},
		{Type: "CHECKPOINT_START", Dataset: 2, Time: when.Add(time.Minute)},
		{Type: "CHECKPOINT_END", Dataset: 2, Time: when.Add(2 * time.Minute)},
		copied("ENCODE"),
		spread("WRITE", 1.5, 0), spread("ENCODE", 0.25, 50), fill,
		{Type: "CHECKPOINT_START", Dataset: 3, Time: when.Add(3 * time.Minute)},
		{Type: "CHECKPOINT_FAIL", Dataset: 3},
		{Type: "FLUSH_START", Dataset: 2},
		{Type: "FLUSH_SUCCESS", Dataset: 2},
		copied("FLUSH"),
		spread("FLUSH", 4, 0),
		{Type: "FLUSH_FAIL", Dataset: 3},
	}
}

func TestFile_OfAJob(t *testing.T) {
	has(t, recorded(t, "", job, allRecords()...),
		`goscr_cache_bytes{J} 300`,
		`goscr_cache_used_ratio{J,store="/dev/shm"} 0.125`,
		`goscr_checkpoints_total{J} 1`,
		`goscr_dataset_failures_total{J} 1`,
		`goscr_failures_survived_total{J} 1`,
		`goscr_failures_total{J} 1`,
		`goscr_flush_failures_total{J} 1`,
		`goscr_flushed_bytes_total{J} 200`,
		`goscr_flushes_total{J} 1`,
		`goscr_job_info{J,jobname="heat",cluster="big",prefix="/p/run7",host="node0"} 1`,
		`goscr_job_running{J} 1`,
		`goscr_newest_checkpoint_timestamp_seconds{J,place="cache"} 1800000060.25`,
		`goscr_newest_checkpoint_timestamp_seconds{J,place="prefix"} 1800000060.25`,
		`goscr_phase_seconds_total{J,phase="encode",scheme="XOR"} 0.25`,
		`goscr_phase_seconds_total{J,phase="flush",scheme="XOR"} 4`,
		`goscr_phase_seconds_total{J,phase="write",scheme="XOR"} 1.5`,
		`goscr_phases_total{J,phase="encode",scheme="XOR"} 1`,
		`goscr_phases_total{J,phase="flush",scheme="XOR"} 1`,
		`goscr_phases_total{J,phase="write",scheme="XOR"} 1`,
		`goscr_redundancy_bytes_total{J} 50`,
		`goscr_restarts_total{J,from="rebuilt"} 1`,
		`goscr_written_bytes_total{J} 200`)
	has(t, recorded(t, "", job, eventlog.Record{Type: "INIT_START"}, eventlog.Record{Type: "RESTART_NONE"}, eventlog.Record{Type: "FINALIZE_END"}),
		`goscr_job_info{J,jobname="heat",cluster="big",prefix="/p/run7",host="node0"} 1`,
		`goscr_job_running{J} 0`,
		`goscr_restarts_total{J,from="beginning"} 1`)
	has(t, recorded(t, "", job, eventlog.Record{Type: "FETCH_SUCCESS", Dataset: 1}, eventlog.Record{Type: "RESTART_SUCCESS", Dataset: 1},
		eventlog.Record{Type: "RESTART_SUCCESS", Dataset: 2}),
		`goscr_restarts_total{J,from="cache"} 1`, `goscr_restarts_total{J,from="prefix"} 1`)
}

// The newest checkpoint in a place is one that is there.
func TestFile_Newest(t *testing.T) {
	at := func(minutes int, kind string, id int, note string) eventlog.Record {
		return eventlog.Record{Type: kind, Dataset: id, Note: note, Time: when.Add(time.Duration(minutes) * time.Minute)}
	}
	text := recorded(t, "", job,
		at(1, "CHECKPOINT_START", 1, "/dev/shm"), at(2, "CHECKPOINT_END", 1, ""),
		at(3, "CHECKPOINT_START", 2, job.Prefix), at(4, "CHECKPOINT_END", 2, ""), // bypasses the cache
		at(5, "OUTPUT_START", 3, "/dev/shm"), at(6, "OUTPUT_END", 3, ""), at(7, "FLUSH_SUCCESS", 3, "")) // is no checkpoint
	for _, want := range []string{`place="cache"} 1800000060.25`, `place="prefix"} 1800000180.25`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// A job without flushes does not remember all of its checkpoints.
func TestFile_ManyCheckpoints(t *testing.T) {
	f := Open(t.TempDir(), "", job)
	const last = 3 * remembered
	record := func(kind string, id int) {
		must(t, f.Write(eventlog.Record{Type: kind, Dataset: id, Job: job, Time: when.Add(time.Duration(id) * time.Second)}))
	}
	for id := range last {
		record("CHECKPOINT_START", id+1)
	}
	if n := len(f.state.begun); n != remembered {
		t.Errorf("it remembers %d", n)
	}
	for id := last; id > last-remembered; id-- {
		if f.state.begun[id].at == 0 {
			t.Fatalf("it does not remember %d", id)
		}
	}
	record("CHECKPOINT_FAIL", last)
	if n := len(f.state.begun); n != remembered-1 {
		t.Errorf("it remembers %d after one has failed", n)
	}
}

// Another user who guesses the name of the temporary file cannot have another file of the
// job's user overwritten.
func TestFile_Link(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(t.TempDir(), "mine")
	must(t, os.WriteFile(mine, []byte("precious"), 0o600))
	f := Open(dir, "", job)
	must(t, os.Symlink(mine, fmt.Sprintf("%s.%d", f.path, os.Getpid())))
	must(t, f.Write(eventlog.Record{Type: "INIT_START", Job: job}))
	if text, err := os.ReadFile(mine); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	if info, err := os.Lstat(f.path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
}

// runRecords are what scr_run logs of runs.
func runRecords() []eventlog.Record {
	end := func(how string) eventlog.Record {
		return eventlog.Record{Type: "RUN_END", Note: how, Run: &eventlog.Run{Status: new(int)}}
	}
	return []eventlog.Record{
		{Type: "RUN_START", Run: &eventlog.Run{Nodes: 4}},
		end("died"), end("migrated"), end("migrated"),
		{Type: "NODE_FAIL"}, {Type: "RECOVERY", Note: "SPARE"},
		{Type: "RUN_START", Run: &eventlog.Run{Nodes: 3}},
		end("finished"),
		{Transfer: true, Type: "SCAVENGE", Bytes: eventlog.Count(7)}, {Type: "SCAVENGE_FAIL"},
	}
}

func TestFile_OfScrRun(t *testing.T) {
	has(t, recorded(t, "run_", job, runRecords()...),
		`goscr_run_nodes{J} 3`,
		`goscr_run_nodes_lost_total{J} 1`,
		`goscr_run_recoveries_total{J,rung="SPARE"} 1`,
		`goscr_run_running{J} 0`,
		`goscr_run_runs_total{J,how="died"} 1`,
		`goscr_run_runs_total{J,how="finished"} 1`,
		`goscr_run_runs_total{J,how="migrated"} 2`,
		`goscr_run_scavenge_failures_total{J} 1`,
		`goscr_run_scavenged_bytes_total{J} 7`,
		`goscr_run_scavenges_total{J} 1`)
}

// Whatever names a job has, Prometheus reads the file.
func TestFile_Promtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool; scripts/deps prometheus installs it")
	}
	odd := job
	odd.ID, odd.User, odd.Name = "../<b>\"4\\711\n", "x\xffy", `'; DROP TABLE jobs; --`
	for _, of := range []eventlog.Job{job, odd} {
		text := recorded(t, "", of, allRecords()...)
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s\n%s", err, out, text)
		}
	}
	cmd := exec.Command(promtool, "check", "metrics") // it can fail
	cmd.Stdin = strings.NewReader("goscr_a{x=\"1\n")
	if cmd.Run() == nil {
		t.Error("promtool takes anything")
	}
}

// Who reads the file sees an old or a new one, never a part.
func TestFile_Whole(t *testing.T) {
	dir := t.TempDir()
	f := Open(dir, "", job)
	must(t, f.Write(eventlog.Record{Type: "INIT_START", Job: job}))
	done := make(chan error)
	go func() {
		var err error
		for range 500 {
			err = errors.Join(err, f.Write(eventlog.Record{Type: "CHECKPOINT_END", Job: job}))
		}
		done <- err
	}()
	for n := 0; ; n++ {
		select {
		case err := <-done:
			must(t, err)
			return
		default:
		}
		data, err := os.ReadFile(f.path)
		must(t, err)
		if !strings.HasSuffix(string(data), "\n") || !strings.Contains(string(data), "goscr_job_running") {
			t.Fatalf("after %d: %q", n, data)
		}
	}
}

// Files of jobs that are long over leave, and nothing else.
func TestOpen_Sweeps(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * stale)
	for _, name := range []string{"goscr_1.prom", "goscr_run_1.prom", "other.prom", "goscr_1.txt"} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, old, old))
	}
	must(t, os.WriteFile(filepath.Join(dir, "goscr_2.prom"), nil, 0o600))
	f := Open(dir, "", job)
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	if got := strings.Join(list, " "); got != "goscr_1.txt goscr_2.prom other.prom" {
		t.Error(got)
	}
	must(t, os.RemoveAll(dir))
	if err := f.Write(eventlog.Record{Type: "INIT_START", Job: job}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	other := job
	other.Prefix = "/p/run8"
	if fileName(job) == fileName(other) || strings.ContainsAny(fileName(eventlog.Job{ID: "../a/b\n"}), "/.\n") {
		t.Error(fileName(job), fileName(other))
	}
}
