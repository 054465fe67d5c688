package status

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/test/accounttest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// job is a prefix directory as a job leaves it.
type job struct {
	t   *testing.T
	dir string
	now time.Time
	id  string // of the job, "" for 7

	protected string // datasets in the cache are
}

func newJob(t *testing.T) *job {
	j := &job{t: t, dir: t.TempDir(), now: accounttest.Epoch, protected: "XOR in sets of 4, bears 1"}
	must(t, os.Mkdir(filepath.Join(j.dir, prefix.Metadata), 0o700))
	return j
}

func (j *job) log(records ...eventlog.Record) {
	f, err := os.OpenFile(eventlog.TextFile(j.dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(j.t, err)
	defer f.Close()
	for _, r := range records {
		r.Time, r.Job.ID, r.Job.User = j.now, cmp.Or(j.id, "7"), "alice"
		_, err := f.WriteString(r.Line() + "\n")
		must(j.t, err)
	}
}

// has enters a checkpoint, begun so long ago, as being in these places.
func (j *job) has(id int, ago time.Duration, places ...prefix.Location) {
	d := j.dataset(id, ago)
	for _, p := range places {
		if p == prefix.InPrefix {
			must(j.t, prefix.UpdateIndex(j.dir, func(x *prefix.Index) error { x.Add(d, true, j.now); return nil }))
			continue
		}
		if p == prefix.InCache && !slices.Contains(places, prefix.Exposed) {
			must(j.t, prefix.EnterCached(j.dir, prefix.Cached{Dataset: d, Protected: j.protected, Read: true}, j.now.Add(-ago+time.Second)))
			continue
		}
		must(j.t, prefix.Locate(j.dir, d, p, true))
	}
}

func (j *job) dataset(id int, ago time.Duration) dataset.Dataset {
	d := dataset.New(id, "ckpt."+strconv.Itoa(id), dataset.Checkpoint, id, dataset.Owner{}, j.now.Add(-ago))
	d.SetTotals(4, 2<<20)
	d.SetComplete(true)
	return d
}

func (j *job) says(state State, want ...string) {
	j.t.Helper()
	s, err := Read(j.dir, j.now)
	must(j.t, err)
	text := strings.Join(s.Lines(j.now, 0), "\n")
	if s.State != state {
		j.t.Errorf("state %s, want %s", s.State, state)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			j.t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func TestStatus_OfAJob(t *testing.T) {
	j := newJob(t)
	j.says(Unknown, "no job runs here; there is no log", "newest     none")

	status := 137
	j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: 1, Nodes: 4, NodeList: "node[0-3]"}},
		eventlog.Record{Type: "INIT_START"}, eventlog.Record{Type: "INIT_END", Note: "XOR in sets of 4, bears 1"})
	j.now = j.now.Add(7 * time.Second)
	j.has(1, 9*time.Second, prefix.InCache, prefix.InPrefix)
	j.has(2, 4*time.Second, prefix.InCache, prefix.Flushing)
	j.says(Running, "job 7 of alice   run 1, RUNNING 7.00 s (last sign 7.00 s ago)   nodes node[0-3]",
		"newest     ckpt.2              2.0 MiB  4.00 s old   cache (XOR in sets of 4), being flushed: survives the loss of any one node",
		"in prefix  ckpt.1              2.0 MiB  9.00 s old",
		"SAFE: survives the loss of any one node: back to ckpt.2, 4.00 s of work is lost. If all nodes are lost: back to ckpt.1, 9.00 s of work is lost\njob 7",
		"cache (XOR in sets of 4), prefix directory: survives the loss of all nodes; flushed 0.00 s ago; verified 8.00 s ago",
		"nodes node[0-3]\nnewest")

	// It dies with a node; then it is over.
	j.log(eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: 1, Status: &status, Signal: 9}},
		eventlog.Record{Type: "NODE_FAIL", Note: "node1: no answer"})
	j.now = j.now.Add(time.Minute)
	j.says(Died, "run 1, DIED 7.00 s (ended ", "lost node1 ", "SAFE: the next run can go back to ckpt.2, 4.00 s of work is lost, if the caches of all nodes but one node are there. Without them: back to ckpt.1, 9.00 s of work is lost")
	status = 0
	j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: 2, Nodes: 3, NodeList: "node[0,2-3]"}},
		eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: 2, Status: &status}})
	j.says(Finished, "run 2, FINISHED 0.00 s", "nodes node[0,2-3]", "lost node1")
}

// The verdict is the first line; a few datasets follow, unless all are asked for.
func TestStatus_Verdict(t *testing.T) {
	j := newJob(t)
	verdict := func(want string, most, lines int) {
		t.Helper()
		s, err := Read(j.dir, j.now)
		must(t, err)
		if got := s.Lines(j.now, most); got[0] != want || len(got) != lines {
			t.Errorf("%d lines, want %d and %q first:\n%s", len(got), lines, want, strings.Join(got, "\n"))
		}
	}
	j.protected = "SINGLE in sets of 1, bears 0"
	j.log(eventlog.Record{Type: "INIT_START"})
	verdict("AT RISK: there is no checkpoint; a failure loses all work", 3, 4)
	for id := 1; id <= 6; id++ {
		j.has(id, time.Duration(20-id)*time.Second, prefix.InCache)
	}
	verdict("AT RISK: ckpt.6 does not survive the loss of a node. If one is lost: all work is lost. If all nodes are lost: all work is lost", 0, 4+1+6)
	verdict("AT RISK: ckpt.6 does not survive the loss of a node. If one is lost: all work is lost. If all nodes are lost: all work is lost", 3, 4+1+3+1)
	s, err := Read(j.dir, j.now)
	must(t, err)
	if got := s.Lines(j.now, 3); !strings.Contains(got[8], "3 older ones (--all shows them)") {
		t.Error(got[8])
	}
	j.protected = ""
	j.has(7, time.Second, prefix.InCache)
	verdict("AT RISK: it is unknown whether ckpt.7 survives the loss of a node. If all nodes are lost: all work is lost", 1, 4+1+1+1)
	j.has(8, time.Second, prefix.InCache, prefix.InPrefix)
	verdict("SAFE: survives the loss of all nodes: back to ckpt.8, 1.00 s of work is lost", 1, 4+1+1+1)
}

// After a run that has died it matters which nodes can still be used.
func TestStatus_NodesAreGone(t *testing.T) {
	j := newJob(t)
	j.log(eventlog.Record{Type: "INIT_START"}, eventlog.Record{Type: "INIT_END", Note: "XOR in sets of 4, bears 1"})
	j.has(1, 9*time.Second, prefix.InCache, prefix.InPrefix)
	j.has(2, 4*time.Second, prefix.InCache)
	read := func() *Status {
		t.Helper()
		s, err := Read(j.dir, j.now)
		must(t, err)
		return s
	}
	if s := read(); s.NeedsNodes() != nil {
		t.Error("a job that runs needs no answer")
	}
	status := 1
	j.log(eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: 1, Status: &status}})
	all := []string{"n1", "n2", "n3", "n4"}
	asked := all
	verdict := func(want string, gone ...string) {
		t.Helper()
		s := read()
		if d := s.NeedsNodes(); d == nil || d.Name != "ckpt.2" && d.Name != "ckpt.3" {
			t.Fatalf("it needs the nodes of %v", d)
		}
		s.Asked, s.Gone = asked, gone
		if got := s.Lines(j.now, 3)[0]; !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	verdict("SAFE: the next run can go back to ckpt.2, 4.00 s of work is lost, if the caches of all nodes but one node are there")
	verdict("SAFE: the next run can go back to ckpt.2, 4.00 s of work is lost: it can be rebuilt, although n3 of its 4 nodes cannot be used. "+
		"Without more of them: back to ckpt.1, 9.00 s of work is lost", "n3")
	verdict("AT RISK: ckpt.2 can be rebuilt only if no set has lost more than one node, and n[2-3] of its 4 nodes cannot be used. If not: back to ckpt.1", "n2", "n3")
	verdict("AT RISK: none of the nodes asked (n[1-4]) can be used, so ckpt.2 can be rebuilt only if enough other nodes have files of it. If not: back to ckpt.1", "n1", "n2", "n3", "n4")
	asked = []string{"n3"} // only that is in the allocation
	verdict("AT RISK: none of the nodes asked (n3) can be used, so ckpt.2 can be rebuilt only if enough other nodes have files of it. If not: back to ckpt.1, 9.00 s of work is lost", "n3")
	asked = nil
	verdict("SAFE: the next run can go back to ckpt.2, 4.00 s of work is lost, if the caches of all nodes but one node are there. Without them: back to ckpt.1")
	asked = all
	j.protected = "SINGLE in sets of 1, bears 0"
	j.has(3, 2*time.Second, prefix.InCache)
	verdict("LOST: ckpt.3 does not survive the loss of a node, and n3 of its 4 nodes cannot be used: back to ckpt.2", "n3")
	verdict("LOST: ckpt.3 does not survive the loss of a node, and n[2-3] of its 4 nodes cannot be used: back to ckpt.1", "n2", "n3")
	j.has(4, time.Second, prefix.InCache, prefix.InPrefix)
	if s := read(); s.NeedsNodes() != nil {
		t.Error("a checkpoint in the prefix directory needs no node")
	}
}

// A launch that has failed has computed nothing, so the next run does not lose more because of it.
func TestStatus_FailedLaunch(t *testing.T) {
	status, seconds := 1, 0.5
	for name, begun := range map[string][]eventlog.Record{
		"the protection is known": {{Type: "INIT_START"}, {Type: "INIT_END", Note: "XOR in sets of 4, bears 1"}},
		"SCR 3.1":                 {{Type: "INIT_START"}, {Type: "COMPUTE_END", Start: accounttest.Epoch, Seconds: &seconds}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			launch := func(number int) {
				j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: number, Nodes: 4, NodeList: "node[0-3]"}})
			}
			end := func(number int) {
				j.log(eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: number, Status: &status}})
			}
			launch(1)
			j.log(begun...)
			j.now = j.now.Add(9 * time.Second)
			j.has(1, 2*time.Second, prefix.InCache, prefix.InPrefix)
			end(1)
			want := "SAFE: the next run can go back to ckpt.1, 2.00 s of work is lost\n"
			j.says(Died, want, "run 1, DIED 9.00 s")
			j.now = j.now.Add(time.Minute)
			launch(2)
			j.now = j.now.Add(time.Second)
			end(2)
			j.says(Died, want, "run 2, DIED 1.00 s")
			j.now = j.now.Add(time.Hour)
			launch(3) // the library finds that it cannot start
			j.log(eventlog.Record{Type: "INIT_START"}, eventlog.Record{Type: "INIT_FAIL", Note: "no room"})
			j.now = j.now.Add(time.Second)
			end(3)
			j.says(Died, want, "run 3, DIED 1.00 s")
		})
	}
}

// The time between two runs, and work that was lost before, are not lost once more.
func TestStatus_RestartedAfterAWait(t *testing.T) {
	status, second, seconds := 1, 1.0, 3.0
	j := newJob(t)
	launch := func(number int, records ...eventlog.Record) {
		j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: number, Nodes: 4, NodeList: "node[0-3]"}}, eventlog.Record{Type: "INIT_START"})
		j.now = j.now.Add(time.Second)
		j.log(append([]eventlog.Record{{Type: "INIT_END", Note: "XOR in sets of 4, bears 1", Start: j.now.Add(-time.Second), Seconds: &second}}, records...)...)
		j.log(eventlog.Record{Type: "COMPUTE_START"})
	}
	write := func(id int, where ...prefix.Location) {
		begun := j.now.Add(-3 * time.Second)
		name := "ckpt." + strconv.Itoa(id)
		j.log(eventlog.Record{Type: "CHECKPOINT_START", Dataset: id, Name: name}, eventlog.Record{Type: "CHECKPOINT_END", Dataset: id, Name: name, Start: begun, Seconds: &seconds})
		j.has(id, 3*time.Second, where...)
	}
	dies := func(number int) {
		j.log(eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: number, Status: &status}})
		j.now = j.now.Add(time.Hour)
	}
	launch(1)
	j.now = j.now.Add(10 * time.Second)
	write(1, prefix.InPrefix)
	j.now = j.now.Add(20 * time.Second)
	write(2, prefix.InCache)
	j.now = j.now.Add(40 * time.Second)
	j.says(Running, "back to ckpt.2, 43 s of work is lost. If all nodes are lost: back to ckpt.1, 63 s of work is lost\n")
	dies(1)
	launch(2, eventlog.Record{Type: "RESTART_SUCCESS", Dataset: 2, Name: "ckpt.2"})
	j.now = j.now.Add(5 * time.Second)
	want := "back to ckpt.2, 5.00 s of work is lost. If all nodes are lost: back to ckpt.1, 25 s of work is lost\n"
	j.says(Running, want)
	dies(2)
	launch(3, eventlog.Record{Type: "RESTART_SUCCESS", Dataset: 2, Name: "ckpt.2"})
	j.now = j.now.Add(5 * time.Second)
	j.says(Running, want)
	j.now = j.now.Add(5 * time.Second)
	write(3, prefix.InCache)
	j.says(Running, "back to ckpt.3, 3.00 s of work is lost. If all nodes are lost: back to ckpt.1, 30 s of work is lost\n")
	// It reads that back, which is no restart of the run.
	j.now = j.now.Add(20 * time.Second)
	j.log(eventlog.Record{Type: "RESTART_START", Dataset: 3, Name: "ckpt.3"})
	j.now = j.now.Add(time.Second)
	j.log(eventlog.Record{Type: "RESTART_SUCCESS", Dataset: 3, Name: "ckpt.3"}, eventlog.Record{Type: "COMPUTE_START"})
	j.says(Running, "back to ckpt.3, 24 s of work is lost. If all nodes are lost: back to ckpt.1, 51 s of work is lost\n")
	dies(3)
	// The log does not say whether this one has begun again: no less may be lost than the time since then.
	launch(4)
	j.now = j.now.Add(5 * time.Second)
	write(4, prefix.InCache)
	j.says(Running, "back to ckpt.4, 3.00 s of work is lost. If all nodes are lost: back to ckpt.1, 3:01 h of work is lost\n")
}

// A run of which the log has no end, before one of another job, has worked until its last sign.
func TestStatus_KilledBeforeAnotherJob(t *testing.T) {
	second := 1.0
	j := newJob(t)
	begin := func(number int, records ...eventlog.Record) {
		j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: number, Nodes: 4}}, eventlog.Record{Type: "INIT_START"})
		j.now = j.now.Add(time.Second)
		j.log(append([]eventlog.Record{{Type: "INIT_END", Note: "XOR in sets of 4, bears 1", Start: j.now.Add(-time.Second), Seconds: &second}}, records...)...)
		j.log(eventlog.Record{Type: "COMPUTE_START"})
	}
	begin(1)
	j.now = j.now.Add(4 * time.Second)
	j.log(eventlog.Record{Type: "CHECKPOINT_START", Dataset: 1, Name: "ckpt.1"}, eventlog.Record{Type: "CHECKPOINT_END", Dataset: 1, Name: "ckpt.1", Start: j.now, Seconds: &second})
	j.has(1, 0, prefix.InPrefix)
	j.now = j.now.Add(2 * time.Second)
	j.log(eventlog.Record{Type: "COMPUTE_END", Start: j.now, Seconds: &second})
	j.now = j.now.Add(time.Hour)
	j.id = "8"
	j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: 1, Nodes: 4}})
	j.now = j.now.Add(time.Second)
	j.says(Running, "back to ckpt.1, 2.00 s of work is lost") // nothing is computed while it starts
	begin(2, eventlog.Record{Type: "RESTART_SUCCESS", Dataset: 1, Name: "ckpt.1"})
	j.now = j.now.Add(5 * time.Second)
	j.says(Running, "back to ckpt.1, 5.00 s of work is lost")
}

// Without a log, once no job runs any more, the verdict is what the next run can go back to; then follows what is unknown.
func TestStatus_NoLog(t *testing.T) {
	j := newJob(t)
	first := func(want string) {
		t.Helper()
		s, err := Read(j.dir, j.now)
		must(t, err)
		got := s.Lines(j.now, 3)
		if got[0] != want || !strings.HasPrefix(got[1], "no job runs here; there is no log, so it is unknown how the last run ended (SCR_LOG_ENABLE=1") {
			t.Errorf("%s\nwant %s", strings.Join(got[:2], "\n"), want)
		}
		wantNext := "next: if the job is not done, start it again, with the same prefix directory; scr_index -p DIR shows from what it can restart"
		if len(s.Datasets) == 0 {
			wantNext = "next: look at the program's own output, which may say why there is no checkpoint; if the job is not done, start it again, with the same prefix directory"
		}
		if next := s.Next("DIR"); next != wantNext {
			t.Errorf("%s\nwant %s", next, wantNext)
		}
	}
	if s, err := Read(j.dir, j.now); err != nil || !s.Empty() || s.Next("DIR") != "" || !strings.HasPrefix(s.Lines(j.now, 3)[0], "no job runs here; ") {
		t.Errorf("nobody has used it: %+v, %v", s, err)
	}
	must(t, prefix.RecordNodes(j.dir, 4, nil)) // of a run all of whose checkpoints have failed
	first("AT RISK: a job has run here, and has no complete checkpoint that can be used; the next run starts from the beginning")
	j.has(1, 9*time.Second, prefix.InCache, prefix.InPrefix)
	first("SAFE: the next run can go back to ckpt.1, the work after it is lost")
	j.has(2, 4*time.Second, prefix.InCache)
	first("SAFE: the next run can go back to ckpt.2, the work after it is lost, if the caches of all nodes but one node are there. Without them: back to ckpt.1, the work after it is lost")
	if s, err := Read(j.dir, j.now); err != nil || s.NeedsNodes() == nil || *s.LoseOne != 4 || *s.LoseAll != 9 {
		t.Errorf("%+v, %v", s, err)
	}
	j.protected = "SINGLE in sets of 1, bears 0"
	j.has(3, 2*time.Second, prefix.InCache)
	first("AT RISK: the next run can go back to ckpt.3 only if the caches of all nodes are there. Without one of them: back to ckpt.2, the work after it is lost. " +
		"If all nodes are lost: back to ckpt.1, the work after it is lost")
}

// If runs have died before there was a checkpoint, the index does not help, and the next run may die, too.
func TestStatus_DiedWithoutCheckpoint(t *testing.T) {
	j := newJob(t)
	status := 1
	j.log(eventlog.Record{Type: "RUN_START", Run: &eventlog.Run{Number: 1}}, eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: 1, Status: &status}})
	j.says(Died, "LOST: there is no checkpoint; the next run starts from the beginning\n")
	s, err := Read(j.dir, j.now)
	must(t, err)
	if next := s.Next("DIR"); next != "next: look at scr_report -p DIR and at the program's own output, which may say why the job has died; then start the job again, with the same prefix directory" {
		t.Error(next)
	}
}

// What survives follows from the scheme.
func TestStatus_Schemes(t *testing.T) {
	for note, want := range map[string]string{
		"SINGLE in sets of 1, bears 0": "cache (SINGLE in sets of 1): does not survive the loss of a node",
		"RS in sets of 8, bears 3":     "survives the loss of any 3 nodes",
		"":                             "it is unknown whether it survives the loss of a node",
		"\x1b[2Jevil":                  `cache ("\x1b[2Jevil")`,
	} {
		j := newJob(t)
		j.protected = note
		j.log(eventlog.Record{Type: "INIT_START"})
		j.has(3, time.Second, prefix.InCache)
		j.says(Running, want)
		s, err := Read(j.dir, j.now)
		must(t, err)
		if safe := s.LoseOne != nil; safe != (s.Datasets[0].Tolerates > 0) || s.LoseAll != nil {
			t.Errorf("%s: %+v", note, s)
		}
	}
}

// A dataset that is not protected yet does not survive a lost node: the one before counts.
func TestStatus_Exposed(t *testing.T) {
	j := newJob(t)
	j.log(eventlog.Record{Type: "INIT_START"}, eventlog.Record{Type: "INIT_END", Note: "XOR in sets of 4, bears 1"})
	j.has(1, 9*time.Second, prefix.InCache)
	j.has(2, 4*time.Second, prefix.InCache, prefix.Exposed)
	j.says(Running, "newest     ckpt.2              2.0 MiB  4.00 s old   cache, being protected: does not survive the loss of a node until it is protected",
		"AT RISK: ckpt.2 does not survive the loss of a node. If one is lost: back to ckpt.1, 9.00 s of work is lost. If all nodes are lost: all work is lost\n")
	must(t, prefix.EnterCached(j.dir, prefix.Cached{Dataset: j.dataset(2, 4*time.Second), Protected: j.protected, Read: true}, j.now))
	must(t, prefix.Locate(j.dir, j.dataset(2, 4*time.Second), prefix.Exposed, false))
	j.says(Running, "SAFE: survives the loss of any one node: back to ckpt.2, 4.00 s of work is lost")
	two := j.dataset(2, 4*time.Second)
	must(t, prefix.BeginRun(j.dir, []prefix.Cached{{Dataset: two, Read: true, Exposed: true}}, 0, j.now))
	j.says(Running, "cache (XOR in sets of 4), not protected any more: does not survive the loss of a node: files or redundancy of it are lost, and are not rebuilt")
	must(t, prefix.BeginRun(j.dir, []prefix.Cached{{Dataset: two, Protected: j.protected, Read: true}}, 0, j.now))
	j.says(Running, "SAFE: survives the loss of any one node: back to ckpt.2, 4.00 s of work is lost")

	// After the run the next one protects it first, if no node is lost.
	j.has(3, 2*time.Second, prefix.InCache, prefix.Exposed)
	status := 1
	j.log(eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: 1, Status: &status}})
	j.says(Died, "newest     ckpt.3              2.0 MiB  2.00 s old   cache as the run left it, not protected yet: the next run does it first: does not survive the loss of a node until it is protected")
	j.log(eventlog.Record{Type: "NODE_FAIL", Note: "node1: no answer"})
	j.says(Died, "newest     ckpt.3              2.0 MiB  2.00 s old   cache as the run left it, not protected: does not survive the loss of a node until it is protected")
}

// Where nobody has asked the nodes, the places in their caches are what was recorded.
func TestStatus_Recorded(t *testing.T) {
	j := newJob(t)
	at := time.Date(2026, 11, 29, 12, 34, 56, 0, time.Local)
	line := "\nin caches  as recorded at 2026-11-29 12:34:56; the nodes were not asked\n"
	shows := func(want bool, change func(s *Status)) {
		t.Helper()
		must(t, os.Chtimes(filepath.Join(j.dir, prefix.Metadata, "flush.scr"), at, at))
		s, err := Read(j.dir, j.now)
		must(t, err)
		change(s)
		if text := strings.Join(s.Lines(j.now, 0), "\n"); strings.Contains(text, line) != want {
			t.Errorf("want it: %v\n%s", want, text)
		}
	}
	nothing := func(*Status) {}
	j.has(1, 9*time.Second, prefix.InCache)
	shows(true, nothing)
	shows(false, func(s *Status) { s.Asked = []string{"node1"} })
	j.log(eventlog.Record{Type: "INIT_START"}, eventlog.Record{Type: "INIT_END"})
	shows(false, nothing) // a job that runs knows
	status := 1
	j.log(eventlog.Record{Type: "RUN_END", Run: &eventlog.Run{Number: 1, Status: &status}})
	shows(true, nothing)
	must(t, prefix.Locate(j.dir, j.dataset(1, 9*time.Second), prefix.InCache, false))
	j.has(1, 9*time.Second, prefix.InPrefix)
	shows(false, nothing)
}

// Of a flush that is under way the part that is copied is known, and of a job that runs what is
// flushed next.
func TestStatus_Flushes(t *testing.T) {
	j := newJob(t)
	begin := func(every int) { must(t, prefix.BeginRun(j.dir, nil, every, j.now)) }
	begin(3)
	j.log(eventlog.Record{Type: "INIT_START"})
	j.says(Running, "in prefix  none                                      next flush: the last of 3 more checkpoints")
	j.has(1, 3*time.Second, prefix.InCache)
	j.has(2, 2*time.Second, prefix.InCache)
	j.says(Running, "next flush: ckpt.3\n")
	j.has(3, time.Second, prefix.InCache, prefix.Flushing)
	j.says(Running, "next flush: ckpt.6\n", "cache (XOR in sets of 4), being flushed: survives")

	d := j.dataset(3, time.Second)
	must(t, os.MkdirAll(prefix.Dir(j.dir, 3), 0o700))
	file := filepath.Join(prefix.Dir(j.dir, 3), "flushing.scr")
	record := func(d dataset.Dataset, copied, size int64) {
		h := hash.New()
		h.Set("DSETDESC", d.Encode())
		h.SetInt("COPIED", copied)
		h.SetInt("BYTES", size)
		must(t, hash.WriteFile(file, h))
	}
	record(d, 43, 100)
	j.says(Running, "being flushed (43 %): survives")
	for _, bad := range []func(){
		func() { record(j.dataset(3, time.Hour), 43, 100) }, // another of that id
		func() { record(d, 101, 100) },
		func() { record(d, -1, 100) },
		func() { record(d, 0, 0) },
		func() { must(t, os.WriteFile(file, []byte("43 %"), 0o600)) },
	} {
		bad()
		j.says(Running, "being flushed: survives")
	}
	record(d, 43, 100)
	j.log(eventlog.Record{Type: "FINALIZE_END"})
	j.says(Finished, "its flush was not finished (43 %): survives")
	if s, err := Read(j.dir, j.now); err != nil || s.NextFlush != nil {
		t.Errorf("%+v %v", s, err)
	}
	begin(0)
	j.log(eventlog.Record{Type: "INIT_START"})
	j.says(Running, "newest     none\nin prefix  none")
}

func TestExtrapolate(t *testing.T) {
	for _, c := range []struct {
		names   string
		numbers []int
		n       int
		want    string
	}{
		{"ckpt.150 ckpt.100 ckpt.50", []int{3, 2, 1}, 2, "ckpt.250"},
		{"step_9_out step_8_out", []int{9, 8}, 1, "step_10_out"},
		{"ckpt.5 ckpt.3", []int{5, 3}, 1, "ckpt.6"}, // the fourth has left the cache
		{"ckpt.90 ckpt.60 ckpt.50", []int{7, 4, 3}, 2, "ckpt.110"},
		{"ckpt.150", []int{1}, 1, ""},                        // how they continue cannot be seen
		{"ckpt.150 ckpt.100 ckpt.90", []int{3, 2, 1}, 1, ""}, // the step changes
		{"ckpt.150 ckpt.100", []int{4, 1}, 1, ""},            // it is no whole number
		{"ckpt.150 ckpt.100 ckpt.50", []int{2, 2, 1}, 1, ""}, // an older run has written one of them
		{"ckpt.100 ckpt.150", []int{2, 1}, 1, ""},
		{"ckpt.2 chk.1", []int{2, 1}, 1, ""},
		{"ckpt.002 ckpt.001", []int{2, 1}, 1, ""},
		{"b a", []int{2, 1}, 1, ""},
		{"ckpt.99999999999999999999 ckpt.1", []int{2, 1}, 1, ""},
	} {
		if got := extrapolate(strings.Fields(c.names), c.numbers, c.n); got != c.want {
			t.Errorf("%s, %d: %q, want %q", c.names, c.n, got, c.want)
		}
	}
}

// A log that is damaged in part is used, and one that is no log is none; a damaged index is
// an error.
func TestStatus_Broken(t *testing.T) {
	j := newJob(t)
	j.log(eventlog.Record{Type: "INIT_START"})
	j.has(1, time.Second, prefix.InCache)
	f, err := os.OpenFile(eventlog.TextFile(j.dir), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("half a li")
	must(t, err)
	must(t, f.Close())
	j.says(Running, "ckpt.1")
	if s, err := Read(j.dir, j.now); err != nil || !strings.Contains(s.Problem, "has no end") {
		t.Errorf("%+v %v", s, err)
	}
	must(t, os.WriteFile(eventlog.TextFile(j.dir), []byte(strings.Repeat("x\n", 10)), 0o600))
	j.says(Unknown, "ckpt.1")
	must(t, os.WriteFile(filepath.Join(j.dir, prefix.Metadata, "index.scr"), []byte("damaged"), 0o600))
	if _, err := Read(j.dir, j.now); err == nil || !strings.Contains(err.Error(), "scr_index --repair") {
		t.Error(err)
	}
	if _, err := Read(filepath.Join(j.dir, "none"), j.now); err == nil {
		t.Error("no error")
	}
}

// Whether a run continues whose end is not in the log, the locks say.
func TestStatus_Locks(t *testing.T) {
	j := newJob(t)
	held := func(path string) *lock.Lock {
		t.Helper()
		l, err := lock.Try(path, lock.Exclusive)
		must(t, err)
		return l
	}
	rank0 := held(request.LockPath(j.dir))
	j.says(Running, "a job runs here; there is no log")
	j.log(eventlog.Record{Type: "INIT_START"})
	j.says(Running, "run 1, RUNNING")
	loop := held(request.LoopPath(j.dir))
	rank0.Release()
	j.says(Running, "run 1, RUNNING") // scr_run will log the end of the run, or start it
	loop.Release()
	j.says(Died, "run 1, DIED 0.00 s (last sign ")
	j.log(eventlog.Record{Type: "FINALIZE_END"})
	j.says(Finished, "run 1, FINISHED 0.00 s (ended ")
	loop = held(request.LoopPath(j.dir))
	j.says(Running, "run 1, RUNNING") // as after a migration
	loop.Release()
	j.says(Finished, "run 1, FINISHED 0.00 s (ended ")
}

// A run that somebody has asked to end is to be continued, and has not finished.
func TestStatus_Stopped(t *testing.T) {
	for _, why := range []string{"scr_halt: after 2 checkpoints", "stopped by signal terminated"} {
		j := newJob(t)
		j.has(1, 3*time.Second, prefix.InCache)
		j.log(eventlog.Record{Type: "INIT_START"})
		j.log(eventlog.Record{Type: eventlog.Halt, Note: why})
		j.log(eventlog.Record{Type: "FINALIZE_END"})
		j.says(Stopped, "SAFE: the next run can go back to ckpt.1", "if the caches of all nodes but one node are there", "run 1, STOPPED 0.00 s (ended ", ": "+why+")",
			"cache as the run left it (XOR in sets of 4)")
		s, err := Read(j.dir, j.now)
		must(t, err)
		loop, err := lock.Try(request.LoopPath(j.dir), lock.Exclusive)
		must(t, err)
		if again, err := Read(j.dir, j.now); err != nil || again.State != Running || again.Halted != "" { // scr_run starts another
			t.Errorf("%+v, %v", again, err)
		}
		loop.Release()
		if s.Halted != why || s.NeedsNodes() == nil || !strings.Contains(s.Next("DIR"), "start the job again") {
			t.Errorf("%+v, next %s", s, s.Next("DIR"))
		}
	}
	j := newJob(t)
	j.log(eventlog.Record{Type: "INIT_START"})
	j.log(eventlog.Record{Type: eventlog.Halt, Note: halt.Finalized}) // as SCR 3.1 logs the end
	j.says(Finished, "run 1, FINISHED")
}

// Of the job of another user it cannot be seen whether it runs, and the command does not say that
// none does.
func TestStatus_OfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	j := newJob(t)
	l, err := lock.Try(request.LockPath(j.dir), lock.Exclusive)
	must(t, err)
	defer l.Release()
	for d := j.dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755))
	}
	must(t, filepath.WalkDir(filepath.Join(j.dir, ".scr"), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Name() != "job.lock" {
			err = os.Chmod(path, 0o755)
		}
		return err
	}))
	as := func(do func()) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(65533))
		defer unix.Setfsuid(0)
		do()
	}
	as(func() {
		j.says(Unknown, "whether a job runs here cannot be seen: only user root (0) and root can (")
		if s, err := Read(j.dir, j.now); err != nil || s.Next("DIR") != "next: scr_index -p DIR shows its checkpoints" {
			t.Errorf("%+v, %v", s, err)
		}
	})
	must(t, os.Chmod(filepath.Join(j.dir, ".scr/job.lock"), 0o644))
	as(func() { j.says(Running, "a job runs here") })
}
