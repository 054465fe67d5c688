package run

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/test/sample"
)

// asks enters a request for a migration as soon as a run has said a text. It returns a
// function that waits for the end of the request.
func (l *lab) asks(t *testing.T, after string, w recovery.Wish) func() migration.Request {
	t.Helper()
	return l.requests(t, after, migration.Request{Wish: w})
}

func (l *lab) requests(t *testing.T, after string, q migration.Request) func() migration.Request {
	t.Helper()
	answered := make(chan migration.Request, 1)
	go func() {
		for !strings.Contains(l.said.String(), after) {
			time.Sleep(time.Millisecond)
		}
		id, err := migration.Ask(l.prefix, q)
		if err != nil {
			t.Error(err)
		}
		for {
			r, err := migration.Read(l.prefix)
			if err != nil || r.ID != id || r.State.Over() {
				answered <- r
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() migration.Request { return <-answered }
}

// sumOf is the sum of the times that a text has at the end of its parts.
func sumOf(t *testing.T, text string) (sum float64) {
	t.Helper()
	for part := range strings.SplitSeq(text, "; ") {
		_, number, found := strings.Cut(part, ": ")
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(number, " s"), 64)
		if !found || err != nil {
			t.Errorf("%q has no time", part)
		}
		sum += seconds
	}
	return sum
}

// handovers are the calls of scr_handover: the node, and what it does.
func (l *lab) handovers() string {
	var list []string
	for _, line := range l.tool() {
		words := strings.Fields(line)
		if len(words) > 2 && words[1] == "handover" {
			list = append(list, words[0]+" "+words[len(words)-1])
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

const sixRanks = "layout n1,n1,n2,n2,n3,n3; "

func TestLoop_Migrate(t *testing.T) {
	l := newLab(t, sixRanks+"asked 1; hang", "layout n1,n1,n4,n4,n3,n3; checkpoint 2; exit 1", sixRanks+"finalize")
	t.Setenv("SCR_RUNS", "2") // a migration is not a run that has failed
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n2"}})
	l.run(t, 0, "migration: 2 ranks on another node: 2 from n2 to n4, 3 from n2 to n4", "recovery: MIGRATE: start again with 2 ranks",
		"migration: done: ", "checkpoint ckpt.1 (3.0 MiB): ", "move, which took ", "rank 2 1.0 MiB, rank 3 2.0 MiB, after that: ", "SCR_Init: ")
	if r := end(); r.State != migration.Done || !strings.Contains(r.Text, "checkpoint ckpt.1") {
		t.Errorf("%+v", r)
	} else if sum := sumOf(t, r.Text); sum < r.Took.Seconds()-0.05 || sum > r.Took.Seconds()+0.05 {
		t.Errorf("the parts are %.2f s, the whole is %v: %s", sum, r.Took, r.Text)
	}
	// The run that follows a failure keeps the nodes of the ranks.
	if l.hosts() != "n1 n2 n3, n1 n1 n4 n4 n3 n3, n1 n1 n4 n4 n3 n3" {
		t.Errorf("ran on %s", l.hosts())
	}
	if got := l.handovers(); got != "n2 --send=2,3, n4 --receive" {
		t.Error(got)
	}
	if request.Restarts(l.prefix) {
		t.Error("somebody looks for requests after the end of the job")
	}
}

// scr_run looks for requests more often than for the rest, and asks the nodes once between two
// runs.
func TestLoop_MigrateAtOnce(t *testing.T) {
	defer func(usual time.Duration) { stale = usual }(stale)
	stale = time.Hour
	l := newLab(t, sixRanks+"asked 1; hang", "layout n1,n1,n4,n4,n3,n3; checkpoint 2; exit 1", sixRanks+"finalize")
	l.every = time.Hour
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n2"}})
	l.run(t, 0, "migration: done: ")
	if r := end(); r.State != migration.Done {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "tool"))
	must(t, err)
	if n := strings.Count(string(text), "n3 check_node"); n != 3 {
		t.Errorf("node n3 was asked %d times for 3 runs:\n%s", n, text)
	}
}

// A node that does not answer while files are copied is asked again, and is used.
func TestLoop_MigrateToABusyNode(t *testing.T) {
	l := newLab(t, sixRanks+"deaf; busy n3; asked 1; told; exit 1", "layout n1,n1,n4,n4,n3,n3; finalize")
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n2"}})
	l.run(t, 0, "migration: done: ")
	if r := end(); r.State != migration.Done {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "denied.n3")); err != nil {
		t.Error("n3 was not asked while files were copied")
	}
}

// A node that has died before files are carried is not used.
func TestLoop_MigrateLosesANode(t *testing.T) {
	l := newLab(t, sixRanks+"lose n3; asked 1; hang", "finalize")
	t.Setenv("SCR_MIN_NODES", "2")
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n2"}})
	l.run(t, 0, "node n3: ", "recovery: MIGRATE passes on: ")
	end()
	if hosts := l.hosts(); strings.Contains(strings.TrimPrefix(hosts, "n1 n2 n3"), "n3") {
		t.Errorf("ran on %s", hosts)
	}
}

// A program that has written another checkpoint before it ended: the older may have left the
// cache.
func TestLoop_MigrateWithTheNewestCheckpoint(t *testing.T) {
	l := newLab(t, sixRanks+"deaf; asked 1; told; checkpoint 2; exit 1", "layout n1,n1,n4,n4,n3,n3; finalize")
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n2"}})
	l.run(t, 0)
	if r := end(); r.State != migration.Done {
		t.Errorf("%+v", r)
	}
	var ids []string // those of dataset 1 may have begun before
	for _, line := range l.tool() {
		if _, rest, found := strings.Cut(line, " handover --id "); found {
			ids = append(ids, rest[:1])
		}
	}
	if n := len(ids); n < 2 || !slices.Equal(ids[n-2:], []string{"2", "2"}) {
		t.Errorf("copied datasets %q", ids)
	}
}

// A request waits until it is known where the ranks run.
func TestLoop_MigrateBeforeInit(t *testing.T) {
	l := newLab(t, "checkpoint 1; exit 1", sixRanks+"asked 2; hang", "layout n4,n4,n2,n2,n3,n3; finalize")
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n1"}})
	l.run(t, 0)
	if r := end(); r.State != migration.Done || l.hosts() != "n1 n2 n3, n1 n2 n3, n4 n4 n2 n2 n3 n3" {
		t.Errorf("%+v; ran on %s", r, l.hosts())
	}
}

// Ranks whose old nodes take part in the next run fetch their files there.
func TestLoop_MigrateRanks(t *testing.T) {
	l := newLab(t, sixRanks+"asked 1; hang", "layout n2,n1,n1,n2,n3,n3; finalize")
	end := l.asks(t, "run 1:", recovery.Wish{Ranks: []int{0, 2}, Onto: []string{"n2", "n1"}})
	l.run(t, 0, "rank 0 in SCR_Init, rank 2 in SCR_Init")
	if r := end(); r.State != migration.Done || l.hosts() != "n1 n2 n3, n2 n1 n1 n2 n3 n3" || l.handovers() != "" {
		t.Errorf("%+v; ran on %s; %s", r, l.hosts(), l.handovers())
	}
}

// Whatever fails during a migration, the job continues as if nobody had asked for one.
// Users and programs may name a node with its domain.
func TestLoop_MigrateOntoAFullName(t *testing.T) {
	l := newLab(t, sixRanks+"asked 1; hang", "layout n1,n1,n4,n4,n3,n3; checkpoint 2; exit 1", sixRanks+"finalize")
	end := l.asks(t, "run 1:", recovery.Wish{Off: []string{"n2.cluster"}, Onto: []string{"n4.cluster"}})
	l.run(t, 0, "migration: 2 ranks on another node: 2 from n2 to n4, 3 from n2 to n4")
	if r := end(); r.State != migration.Done {
		t.Errorf("%+v", r)
	}
}

func TestLoop_MigrationFails(t *testing.T) {
	off := recovery.Wish{Off: []string{"n2"}}
	cases := map[string]struct {
		plan  []string
		w     recovery.Wish
		file  string // that makes a command fail
		set   string
		text  string // why the migration has failed
		hosts string // of the second run
	}{
		"the run fails before the checkpoint": {[]string{sixRanks + "asked 1 die", sixRanks + "finalize"}, off, "", "",
			"the run has ended before the checkpoint was complete", "n1 n2 n3"},
		"a node is lost before the checkpoint": {[]string{sixRanks + "lose n4; asked 1 die", sixRanks + "finalize"}, off, "", "",
			"the run has ended before the checkpoint was complete", "n1 n2 n3"},
		"the checkpoint fails": {[]string{sixRanks + "asked 1 full; wait-failed; checkpoint 2; exit 1", sixRanks + "finalize"}, off, "", "",
			"the checkpoint has failed: no room", "n1 n2 n3"},
		"the files do not arrive": {[]string{sixRanks + "asked 1; hang", sixRanks + "finalize"}, off, "nohandover.n4", "",
			"n4: connection refused", "n1 n2 n3"},
		"the new node is lost": {[]string{sixRanks + "lose n4; asked 1; hang", sixRanks + "finalize"}, off, "", "",
			"n4: ssh does not reach it", "n1 n2 n3"},
		"the new node is lost, and no file was to be copied": {[]string{sixRanks + "lose n4; asked 1; hang", sixRanks + "finalize"},
			recovery.Wish{Ranks: []int{1}}, "", "", "the job continues in another way", "n1 n2 n3"},
		"the next run does not start": {[]string{sixRanks + "asked 1; hang", "exit 1", sixRanks + "finalize"}, off, "", "",
			"the run on the new nodes has ended before SCR_Init", "n1 n1 n4 n4 n3 n3"},
		// It ends by itself, whether it is told to end before or after it has called SCR_Finalize.
		"the job is over":       {[]string{sixRanks + "deaf; asked 1; finalize", ""}, off, "", "", "the ", ""},
		"the job is over early": {[]string{sixRanks + "finalize; asked 1; wait-failed", ""}, off, "", "", "the job is over", ""},
		"no such node": {[]string{sixRanks + "wait-failed; checkpoint 1; exit 1", sixRanks + "finalize"}, recovery.Wish{Off: []string{"n9"}}, "", "",
			"n9 is not a node of the job", "n1 n2 n3"},
		"the user wants none": {[]string{sixRanks + "wait-failed; checkpoint 1; exit 1", sixRanks + "finalize"}, off, "", "SCR_RECOVERY=SAME,STOP",
			"SCR_RECOVERY does not name MIGRATE", "n1 n2 n3"},
		"no record of the ranks": {[]string{"init 3; wait-failed; checkpoint 1; exit 1", sixRanks + "finalize"}, off, "", "",
			"ranks.scr", "n1 n2 n3"},
	}
	for _, what := range sample.Of(t, slices.Sorted(maps.Keys(cases)), 3, sample.Every) {
		c := cases[what]
		t.Run(what, func(t *testing.T) {
			l := newLab(t, c.plan...)
			if c.file != "" {
				l.touch(t, c.file)
			}
			if name, value, found := strings.Cut(c.set, "="); found {
				t.Setenv(name, value)
			}
			end := l.asks(t, "run 1:", c.w)
			l.run(t, 0)
			r := end()
			if r.State != migration.Failed || !strings.Contains(r.Text, c.text) {
				t.Errorf("%+v", r)
			}
			runs := strings.Split(l.hosts(), ", ")
			if second := append(runs, "", "")[1]; second != c.hosts {
				t.Errorf("ran on %s", l.hosts())
			}
			if _, err := os.Stat(l.prefix); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is done about a prediction depends on the time that is left.
func TestLoop_Predicted(t *testing.T) {
	for what, c := range map[string]struct {
		q     migration.Request
		plan  []string
		state migration.State
		text  string
		hosts string
		save  bool // what the node has is copied
	}{
		"there is time": {migration.Request{Within: time.Minute, Assurance: 1}, []string{sixRanks + "asked 1; hang", "layout n1,n1,n4,n4,n3,n3; finalize"},
			migration.Done, "checkpoint ckpt.1 (", "n1 n2 n3, n1 n1 n4 n4 n3 n3", false},
		"not known when": {migration.Request{Within: -1, Assurance: 1}, []string{sixRanks + "asked 1; hang", "layout n1,n1,n4,n4,n3,n3; finalize"},
			migration.Done, "checkpoint ckpt.1 (", "n1 n2 n3, n1 n1 n4 n4 n3 n3", false},
		"for a checkpoint only": {migration.Request{Within: 15 * time.Second, Assurance: 1}, []string{sixRanks + "asked 1; finalize"},
			migration.Done, "n2 predicted to fail (scr_migrate --predicted) in 15s; a checkpoint takes 10s, and a move 30s: a checkpoint is asked for", "n1 n2 n3", false},
		"too late": {migration.Request{Within: time.Second, Assurance: 1}, []string{"checkpoint 1; " + sixRanks + "wait-copied; finalize"},
			migration.Done, "what they have is copied to the prefix directory", "n1 n2 n3", true},
		"unlikely": {migration.Request{Within: time.Minute, Assurance: 0.4}, []string{sixRanks + "wait-failed; finalize"},
			migration.Failed, "the probability is 0.4, and SCR_PREDICT_ASSURANCE=0.5", "n1 n2 n3", false},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, c.plan...)
			c.q.Predicted, c.q.Wish = true, recovery.Wish{Off: []string{"n2"}}
			end := l.requests(t, "run 1:", c.q)
			l.run(t, 0)
			if r := end(); r.State != c.state || !strings.Contains(r.Text, c.text) {
				t.Errorf("%+v", r)
			}
			if l.hosts() != c.hosts {
				t.Errorf("ran on %s", l.hosts())
			}
			saved := slices.ContainsFunc(l.tool(), func(line string) bool { return strings.HasPrefix(line, "n2 copy ") })
			if c.save && !saved {
				t.Errorf("%q", l.tool())
			}
		})
	}
}

// A command that predicts falsely costs one migration, and then checkpoints.
func TestLoop_PredictCommand(t *testing.T) {
	l := newLab(t, sixRanks+"asked 1; hang", "layout n1,n1,n4,n4,n3,n3; asked 2; finalize")
	script(t, l.dir+"/bin/predict", `echo "n2 600 0.9 fan"; echo "n9 1"; [ ! -e `+l.dir+`/next ] || echo "n3 - 1 memory"`)
	t.Setenv("SCR_PREDICT_COMMAND", "predict --all")
	t.Setenv("SCR_PREDICT_SECONDS", "1")
	go func() {
		for !strings.Contains(l.said.String(), "migration: done") {
			time.Sleep(time.Millisecond)
		}
		if err := os.WriteFile(l.dir+"/next", nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	l.run(t, 0, "n2 predicted to fail (fan) in 10m0s", "its ranks are moved", "migration: done",
		"n3 predicted to fail (memory); the last migration because of a prediction was less than SCR_PREDICT_HOLDOFF ago: a checkpoint is asked for")
	if l.hosts() != "n1 n2 n3, n1 n1 n4 n4 n3 n3" {
		t.Errorf("ran on %s", l.hosts())
	}
}
