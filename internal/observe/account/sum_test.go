package account

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/test/accounttest"
)

// sums checks that the spans of each run sum to the run, and do not overlap, and that the totals sum
// to all runs and what is between them.
func sums(t *testing.T, a *Account) {
	t.Helper()
	for _, run := range a.Runs {
		sum, end := time.Duration(0), run.Start
		for _, s := range run.Spans {
			switch s.Kind {
			case Background, Rebuild, Fetch, Down:
				continue
			}
			if s.Start.Before(end) || s.End.After(run.End) {
				t.Fatalf("run %d: %s from %v to %v, after %v, in a run until %v", run.Number, s.Kind, s.Start, s.End, end, run.End)
			}
			sum, end = sum+s.Took(), s.End
		}
		if length := max(run.End.Sub(run.Start), 0); sum != length {
			t.Fatalf("run %d: spans of %v in a run of %v", run.Number, sum, length)
		}
	}
	got := a.Totals()
	if want := got.Ran + got.Seconds.Down; math.Abs(got.Seconds.All()-want) > 1e-9*max(want, 1e3) {
		t.Fatalf("the times sum to %v, the runs and the times between them to %v", got.Seconds.All(), want)
	}
}

// Wherever a log ends, and whichever of its lines are missing, the times sum to the runs.
func TestSums(t *testing.T) {
	long, err := os.ReadFile("page/testdata/heat.log")
	must(t, err)
	for _, text := range []string{
		accounttest.Job{ID: "j", Runs: 1, Checkpoints: 0}.Text(),
		accounttest.Job{ID: "j", Runs: 3, Checkpoints: 4}.Text(),
		accounttest.Job{ID: "j", Runs: 2, Checkpoints: 200}.Text(),
		string(long),
	} {
		lines := strings.SplitAfter(text, "\n")
		for cut := 1; cut <= len(lines); cut += 1 + len(lines)/50 {
			for _, part := range [][]string{lines[:cut], lines[cut-1:], append(append([]string{}, lines[:cut-1]...), lines[cut:]...)} {
				c := NewCollector()
				_, err := ReadText(strings.NewReader(strings.Join(part, "")), c.Add)
				must(t, err)
				sums(t, c.Account(accounttest.Epoch))
			}
		}
	}
}

// The time before SCR_Init, after the last event, and in a checkpoint that was not completed are in
// the account.
func TestSums_NothingIsMissing(t *testing.T) {
	const at = `2026-11-21T00:00:`
	text := at + `00.000000Z: host=n, jobid=j, event=RUN_START, run=1, nodes=2
` + at + `03.000000Z: host=n, jobid=j, event=INIT_START, start=2026-11-21T00:00:03.000000Z
` + at + `04.000000Z: host=n, jobid=j, event=INIT_END, start=2026-11-21T00:00:03.000000Z, secs=1
` + at + `04.000000Z: host=n, jobid=j, event=COMPUTE_START
` + at + `06.000000Z: host=n, jobid=j, event=RESTART_SUCCESS, name="c.0", dset=1, start=2026-11-21T00:00:04.000000Z, secs=2
` + at + `14.000000Z: host=n, jobid=j, event=COMPUTE_END, start=2026-11-21T00:00:04.000000Z, secs=10
` + at + `15.000000Z: host=n, jobid=j, event=CHECKPOINT_START, dset=2, name="c.1"
`
	ends := `2026-11-21T00:00:40.000000Z: host=n, jobid=j, event=RUN_END, note="exit status 137", run=1, status=137
`
	finished := at + `16.000000Z: host=n, jobid=j, event=CHECKPOINT_END, dset=2, name="c.1", start=2026-11-21T00:00:15.000000Z, secs=1
` + at + `20.000000Z: host=n, jobid=j, event=FINALIZE_END
`
	for name, c := range map[string]struct {
		text string
		want Seconds
	}{
		"killed in a checkpoint": {text + ends, Seconds{Computing: 8, Restarting: 3, Launching: 3, Other: 1, Writing: 25}},
		"long in its end":        {text + finished + ends, Seconds{Computing: 8, Restarting: 3, Launching: 3, Other: 1, Writing: 1, Ending: 24}},
	} {
		a, err := Read(write(t, c.text))
		must(t, err)
		sums(t, a)
		if got := a.Totals().Seconds; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
