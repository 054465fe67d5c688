package page

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goscr/goscr/internal/observe/account"
	"github.com/goscr/goscr/test/accounttest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, text string) *account.Account {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	a, err := account.Read(path)
	must(t, err)
	return a
}

func TestLines(t *testing.T) {
	t.Setenv("TZ", "UTC")
	got := strings.Join(Lines(read(t, accounttest.Job{ID: "job1", Name: "heat\x1b[31m", Node: "node2", Runs: 2, Checkpoints: 3}.Text())), "\n")
	for _, want := range []string{
		`job job1 of alice ("heat\x1b[31m")`,
		"       45 s     4     3  died      exit status 137", "finished",
		"job1 of alice (\"heat\\x1b[31m\")\n1 failure, 5.00 s of work lost, finished; checkpoints cost 16 % of the time\n",
		"computing            70 s     63 %",
		"recomputed         5.00 s    4.5 %",
		"down                 20 s",
		"all                 111 s    100 %",
		"2 runs, 1 died; 6 checkpoints, 2 in the prefix directory; 1 node lost",
		"checkpoints and restarts took 0.0233 node-hours and saved 0.0333; 200.0 MiB went to the prefix directory, 400.0 MiB stayed in the caches",
		"a checkpoint every 10 s, 3.00 s each: 16 % of the time; best for a failure every 91 s: every 21 s (Daly)",
		"slowest node: node2 in 12 of 12 phases: look at it",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// Without scr_run the log has no lost nodes, so the report makes no statement on them; and none of
	// node-hours if it does not know the nodes.
	alone := strings.Join(Summary(read(t, `2026-11-21T00:00:01.000000Z: host=n, jobid=j, event=INIT_START
2026-11-21T00:00:02.000000Z: host=n, jobid=j, event=INIT_END
2026-11-21T00:00:09.000000Z: host=n, jobid=j, event=FINALIZE_END
`)), "\n")
	if !strings.Contains(alone, "1 run, 0 died; 0 checkpoints, 0 in the prefix directory; only scr_run logs lost nodes\n") ||
		!strings.Contains(alone, " hours of the job and saved ") {
		t.Error(alone)
	}
	long := Lines(read(t, accounttest.Job{ID: "j", Runs: 500, Checkpoints: 1}.Text()))
	if len(long) > 50 || !strings.Contains(strings.Join(long, "\n"), "... 480 more") {
		t.Errorf("%d lines for 500 runs", len(long))
	}
}

// The headline reports failures, the end and the overhead; what is small is not written as zero.
func TestHeadline(t *testing.T) {
	job := accounttest.Job{ID: "j", Runs: 1, Checkpoints: 2}.Text()
	end := strings.Index(job, "event=FINALIZE_END")
	end = strings.LastIndex(job[:end], "\n") + 1
	for text, want := range map[string]string{
		job:                                      "no failure, finished; checkpoints cost 19 % of the time",
		job[:end]:                                "no failure, the log has no end; checkpoints cost 19 % of the time",
		accounttest.Job{ID: "j", Runs: 3}.Text(): "2 failures, finished; no checkpoint was completed",
		heat(t):                                  "2 failures, 16 s of work lost, finished; checkpoints cost 7.9 % of the time",
	} {
		if got := Headline(read(t, text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for seconds, want := range map[float64]string{0: "0.00 s", 1e-5: "<1 ms", 0.004: "4 ms", 0.0996: "0.10 s", 9.5: "9.50 s", 10: "10 s"} {
		if got := length(seconds); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
	for part, want := range map[float64]string{0: "0.0 %", 0.01: "<0.1 %", 1.44: "1.4 %", 10.4: "10 %", 100: "100 %"} {
		if got := share(part, 100); got != want {
			t.Errorf("%v: %q, want %q", part, got, want)
		}
	}
}

// The lengths in the table of the page sum to its last line.
func TestUses(t *testing.T) {
	for _, text := range []string{heat(t), accounttest.Job{ID: "j", Runs: 3, Checkpoints: 3}.Text(), accounttest.Job{ID: "j", Runs: 1, Checkpoints: 200}.Text()} {
		sum, all := 0.0, 0.0
		for _, u := range uses(read(t, text).Totals()) {
			switch {
			case u.What == "all":
				all = u.Seconds
			case !u.Beside:
				sum += u.Seconds
			}
		}
		if all == 0 || math.Abs(sum-all) > 1e-6 {
			t.Errorf("%v s, of %v s", sum, all)
		}
	}
}

// The trace has what Perfetto needs of each span, and no two of a lane overlap but those
// that are parts of others.
func TestTrace(t *testing.T) {
	a := read(t, accounttest.Job{ID: "j", Runs: 2, Checkpoints: 3}.Text())
	var b bytes.Buffer
	must(t, Trace(&b, a))
	var trace struct {
		Events []struct {
			Name, Ph string
			Ts       *int64
			Dur      *int64
			Pid, Tid *int
		} `json:"traceEvents"`
	}
	must(t, json.Unmarshal(b.Bytes(), &trace))
	spans, ends := map[string]int{}, map[[2]int]int64{}
	for _, e := range trace.Events {
		if e.Name == "" || e.Pid == nil || e.Tid == nil || e.Ts == nil {
			t.Fatalf("%+v", e)
		}
		spans[e.Ph+" "+e.Name]++
		if e.Ph != "X" {
			continue
		}
		lane := [2]int{*e.Pid, *e.Tid}
		if e.Dur == nil || *e.Dur < 0 || *e.Ts < ends[lane] {
			t.Errorf("%s at %d overlaps what ends at %d", e.Name, *e.Ts, ends[lane])
		}
		ends[lane] = *e.Ts + *e.Dur
	}
	for what, n := range map[string]int{"X write": 6, "X encode": 6, "X compute": 8, "X down": 1, "X background": 3, "i died": 1, "i node lost": 1, "M process_name": 2} {
		if spans[what] != n {
			t.Errorf("%d times %s, want %d", spans[what], what, n)
		}
	}
}
