package run

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/batch"
	"github.com/goscr/goscr/internal/job/failures"
	"github.com/goscr/goscr/internal/job/halt"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/job/run/migration"
	"github.com/goscr/goscr/internal/job/run/recovery"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/test/accounttest"
	"github.com/goscr/goscr/test/sample"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMain lets the test binary be the program that the loop runs.
func TestMain(m *testing.M) {
	if dir := os.Getenv("RUN_TEST_PROGRAM"); dir != "" && len(os.Args) > 1 && os.Args[1] == "program" {
		os.Exit(program(dir))
	}
	os.Exit(m.Run())
}

// program does in its n-th run what the n-th line of the file plan says, with
// the part of the library played by functions of it.
func program(dir string) int {
	place := os.Getenv("SCR_PREFIX")
	count, _ := os.ReadFile(filepath.Join(dir, "count"))
	n, _ := strconv.Atoi(string(count))
	check(os.WriteFile(filepath.Join(dir, "count"), []byte(strconv.Itoa(n+1)), 0o600))
	plan, err := os.ReadFile(filepath.Join(dir, "plan"))
	check(err)
	lines := strings.Split(strings.TrimSpace(string(plan)), "\n")
	if n >= len(lines) {
		fmt.Println("started too often")
		return 99
	}
	fmt.Println("program", strings.Join(os.Args[2:], " "), os.Getenv("SCR_JOB_ID"))
	var answers *request.Answers
	told := make(chan os.Signal, 1)
	for step := range strings.SplitSeq(lines[n], ";") {
		words := append(strings.Fields(step), "", "")
		number, _ := strconv.Atoi(words[1])
		switch words[0] {
		case "checkpoint":
			check(prefix.Locate(place, checkpoint(number), prefix.InCache, true))
		case "evict":
			check(prefix.Locate(place, checkpoint(number), prefix.InCache, false))
		case "read":
			check(prefix.BeginRestart(place, checkpoint(number)))
		case "has-read":
			check(prefix.EndRestart(place))
		case "finalize":
			check(halt.End(place, ""))
		case "halt":
			check(halt.Change(place, map[halt.Field]string{halt.Because: "scr_halt"}))
		case "halt-now":
			check(halt.Change(place, map[halt.Field]string{
				halt.Because: halt.AskedNow, halt.Immediate: strconv.FormatInt(time.Now().Unix(), 10)}))
		case "busy": // the node fails its next check
			check(os.WriteFile(filepath.Join(dir, "busy."+words[1]), nil, 0o600))
		case "lose":
			check(os.WriteFile(filepath.Join(dir, "dead."+words[1]), nil, 0o600))
		case "layout": // n1,n1,n2: the node of each rank
			layout := map[string][]int{}
			for rank, node := range strings.Split(words[1], ",") {
				layout[node] = append(layout[node], rank)
			}
			answers, err = request.Begin(place, request.Job{ID: os.Getenv("SCR_JOB_ID")}, true) // in this order, as SCR_Init
			check(err)
			check(prefix.RecordNodes(place, len(layout), layout))
			check(migration.Ready(place, 20*time.Millisecond))
		case "asked": // waits until somebody asks for a checkpoint, and writes it
			for yes := false; !yes; time.Sleep(time.Millisecond) {
				yes, err = answers.Wanted()
				check(err)
			}
			if words[2] == "die" {
				return 137
			}
			_, err = answers.Start(number, checkpoint(number).Name())
			check(err)
			check(prefix.Locate(place, checkpoint(number), prefix.InCache, true))
			if words[2] == "full" {
				check(answers.Fail(number, "no room"))
			}
			check(answers.Reach(number, request.Finished, 3<<20))
		case "restart-from": // asks to be started again from a checkpoint
			_, err := migration.Ask(place, migration.Request{Restart: checkpoint(number).Name()})
			check(err)
		case "wait-failed": // until a migration has
			for {
				r, err := migration.Read(place)
				check(err)
				if r.State == migration.Failed {
					break
				}
				time.Sleep(time.Millisecond)
			}
		case "wait-copied": // until scr_copy has run on a node
			for {
				if text, _ := os.ReadFile(filepath.Join(dir, "tool")); strings.Contains(string(text), " copy ") {
					break
				}
				time.Sleep(time.Millisecond)
			}
		case "rank0-ends":
			answers.Close()
		case "rank0-dies", "aborts": // and the launcher ends when scr_run has asked all nodes that are up once more
			asked := func(node string) int {
				text, _ := os.ReadFile(filepath.Join(dir, "tool"))
				return strings.Count(string(text), node+" check_node")
			}
			before := map[string]int{}
			for _, node := range []string{"n1", "n2", "n3", "n4"} {
				if _, err := os.Stat(filepath.Join(dir, "dead."+node)); err != nil {
					before[node] = asked(node)
				}
			}
			if words[0] == "aborts" { // rank 0 lives as long as the launcher
				fmt.Fprintln(os.Stderr, "a non-zero exit code. Per user-direction, the job has been aborted.")
			} else {
				answers.Close()
			}
			for node, times := range before {
				for asked(node) == times {
					time.Sleep(time.Millisecond)
				}
			}
		case "died-on": // what the launcher writes if a process of the node is killed
			fmt.Fprintf(os.Stderr, "noise\nmpirun noticed that process rank 1 with PID 0 on node %s exited on signal 9 (Killed).\n", words[1])
		case "signal-parent":
			check(os.WriteFile(filepath.Join(dir, "signal"), nil, 0o600))
		case "init":
			answers, err = request.Begin(place, request.Job{ID: os.Getenv("SCR_JOB_ID")}, true)
			check(err)
			check(nodesUsed(place, number))
		case "enter": // so many seconds ago
			_, err := failures.Begin(place, os.Getenv("SCR_JOB_ID"), time.Now().Add(-time.Duration(number)*time.Second))
			check(err)
		case "current":
			fmt.Printf("current <%s>\n", os.Getenv("SCR_CURRENT"))
		case "deaf": // does not end by SIGTERM
			signal.Notify(told, unix.SIGTERM)
		case "told": // waits for SIGTERM
			<-told
		case "hang":
			time.Sleep(time.Hour)
		case "movers": // are there, on so many nodes
			for len(moving(dir)) < number {
				time.Sleep(5 * time.Millisecond)
			}
		case "exit":
			return number
		}
	}
	return 0
}

// moving are the nodes on which there is an scr_transfer.
func moving(dir string) []string {
	list, _ := filepath.Glob(filepath.Join(dir, "moving.*"))
	return list
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(98)
	}
}

// nodesUsed is what SCR_Init leaves.
func nodesUsed(place string, n int) error {
	return hash.Update(filepath.Join(place, ".scr/nodes.scr"), func(h *hash.Hash) error {
		h.SetInt("NODES", int64(n))
		return nil
	})
}

func checkpoint(id int) dataset.Dataset {
	return dataset.New(id, fmt.Sprintf("ckpt.%d", id), dataset.Checkpoint, id, dataset.Owner{}, time.Now())
}

// lab is a job on four nodes, n1 to n4, that are reached by an ssh of ours; a
// node is lost when the file dead.NODE is there.
type lab struct {
	every       time.Duration // how often the loop looks
	dir, prefix string
	said        *safeBuffer // by the loop
	printed     *safeBuffer // by the program
	signals     chan os.Signal
	firstOnly   bool // the limits that end a run that hangs are for run 1
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func script(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
}

func newLab(t *testing.T, plan ...string) *lab {
	l := &lab{dir: t.TempDir(), prefix: t.TempDir(), every: 20 * time.Millisecond, said: &safeBuffer{}, printed: &safeBuffer{}, signals: make(chan os.Signal, 4)}
	bin := filepath.Join(l.dir, "bin")
	must(t, os.Mkdir(bin, 0o700))
	must(t, os.WriteFile(filepath.Join(l.dir, "plan"), []byte(strings.Join(plan, "\n")), 0o600))
	must(t, os.WriteFile(filepath.Join(l.dir, "hostfile"), []byte("n1\nn2\nn3\nn4\n"), 0o600))
	// The launcher prints how it was called and is Open MPI's, by what it says.
	script(t, filepath.Join(bin, "mpirun"), fmt.Sprintf(`
		[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
		echo "hosts $(cat %[1]s/.scr/hosts | tr '\n' ' ')"
		while [ "$1" != -- ]; do shift; done; shift
		exec "$@"`, l.prefix))
	script(t, filepath.Join(bin, "ssh"), fmt.Sprintf(`
		while [ "$1" = -n ] || [ "$1" = -o ]; do [ "$1" = -n ] || shift; shift; done
		[ ! -e %[1]s/dead.$1 ] || { echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255; }
		NODE=$1; export NODE; shift
		exec sh -c "$*"`, l.dir))
	script(t, filepath.Join(bin, "scr"), fmt.Sprintf(`
		echo "$NODE $*" >>%[1]s/tool
		case "$1" in
		check_node) [ ! -e %[1]s/busy.$NODE ] || { mv %[1]s/busy.$NODE %[1]s/denied.$NODE; echo "scr_check_node: FAIL: no answer"; exit 1; }
			[ ! -e %[1]s/ill.$NODE ] || { echo "scr_check_node: FAIL: disk full"; exit 1; }; echo scr_check_node: PASS ;;
		copy) [ ! -e %[1]s/spare.$NODE ] || { echo "scr_copy: $NODE: the job has nothing on this node: x"; exit 1; }
			[ ! -e %[1]s/nocopy.$NODE ] || { echo "cannot copy"; exit 1; } ;;
		index) [ ! -e %[1]s/nobuild.$5 ] || { echo "rank 3 is missing"; exit 1; } ;;
		stacks) [ ! -e %[1]s/slow.$NODE ] || exec sleep 600
			[ ! -e %[1]s/nodebugger ] || { echo "neither eu-stack nor gdb"; exit 1; }; echo "#0 in main" ;;
		handover) [ ! -e %[1]s/nohandover.$NODE ] || { echo "connection refused"; exit 1; }
			case "$*" in *--receive*) echo "rank 2: 1048576 bytes"; echo "rank 3: 2097152 bytes" ;; esac ;;
		transfer) case "$*" in
			*--stay*) touch %[1]s/moving.$NODE; while [ -e %[1]s/moving.$NODE ]; do sleep 0.05; done ;;
			*--exit*) rm -f %[1]s/moving.$NODE ;;
			esac ;;
		esac`, l.dir))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "SCR_") || strings.HasPrefix(name, "SLURM_") || strings.HasPrefix(name, "FLUX_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range map[string]string{
		"RUN_TEST_PROGRAM": l.dir, "SCR_PREFIX": l.prefix, "SCR_HOST_FILE": filepath.Join(l.dir, "hostfile"), "SCR_JOB_ID": "job7",
		"SCR_REMOTE_SHELL": "SSH", "SCR_MIN_NODES": "3", "SCR_CNTL_BASE": l.dir, "SCR_CACHE_BASE": l.dir, "SCR_RESOURCE_MANAGER": "NONE", "SCR_LOG_SYSLOG_ENABLE": "0",
	} {
		t.Setenv(name, value)
	}
	return l
}

func (l *lab) job(t *testing.T) *Job {
	t.Helper()
	j, warnings, err := Open("")
	must(t, err)
	if len(warnings) > 0 {
		t.Error(warnings)
	}
	j.Out, j.Tool = l.said, filepath.Join(l.dir, "bin/scr")
	if l.firstOnly {
		j.Out = writer(func(line string) {
			fmt.Fprint(l.said, line)
			if strings.Contains(line, "run 1: exit status") { // the loop says this itself, before it reads the limits for run 2
				j.Config.LaunchTimeout, j.Config.WatchdogTimeout = time.Hour, time.Hour
				// A slow machine may not have come to the program when the run was ended.
				must(t, os.WriteFile(filepath.Join(l.dir, "count"), []byte("1"), 0o600))
			}
		})
	}
	return j
}

// run runs the loop and checks its status, and what it has said.
func (l *lab) run(t *testing.T, status int, said ...string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	loop := &Loop{Job: l.job(t), Program: Program{Argv: []string{"mpirun", "--", self, "program"}, Stdout: l.printed, Stderr: l.printed},
		Signals: l.signals, Poll: l.every, Grace: time.Hour}
	l.runLoop(t, loop, status, said...)
}

func (l *lab) runLoop(t *testing.T, loop *Loop, status int, said ...string) {
	t.Helper()
	var err error
	loop.Program.Launcher, err = batch.FindLauncher(t.Context(), loop.Program.Argv)
	must(t, err)
	got, err := loop.Run(t.Context())
	if err != nil || got != status {
		t.Errorf("status %d, want %d; %v", got, status, err)
	}
	for _, text := range said {
		if !strings.Contains(l.said.String(), text) {
			t.Errorf("it did not say %q", text)
		}
	}
	if t.Failed() {
		t.Logf("said:\n%s\nprogram:\n%s", l.said, l.printed)
	}
}

// hosts are the nodes of each run, in order.
func (l *lab) hosts() string {
	var runs []string
	for line := range strings.Lines(l.printed.String()) {
		if rest, ok := strings.CutPrefix(line, "hosts "); ok {
			runs = append(runs, strings.TrimSpace(rest))
		}
	}
	return strings.Join(runs, ", ")
}

func (l *lab) tool() []string {
	text, _ := os.ReadFile(filepath.Join(l.dir, "tool"))
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool { return strings.Contains(line, "check_node") })
}

// logged returns the records of the job's log.
func (l *lab) logged(t *testing.T) (list []eventlog.Record) {
	t.Helper()
	text, err := os.ReadFile(eventlog.TextFile(l.prefix))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		r, err := eventlog.Parse(line)
		must(t, err)
		if r.Job.ID != "job7" {
			t.Errorf("a record of another job: %s", line)
		}
		list = append(list, r)
	}
	return list
}

func (l *lab) touch(t *testing.T, name string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(l.dir, name), nil, 0o600))
}

func TestLoop_DoneAtOnce(t *testing.T) {
	l := newLab(t, "checkpoint 1; finalize")
	l.run(t, 0, "4 nodes: n[1-4]", "the program has ended by itself")
	if l.hosts() != "n1 n2 n3" {
		t.Errorf("ran on %s", l.hosts())
	}
}

// scr_transfer is on all nodes while the program runs, also when it runs again, and no
// longer.
func TestLoop_Movers(t *testing.T) {
	for setting, want := range map[string]int{"SCR_FLUSH_TYPE=DAEMON": 4, "SCR_FLUSH_TYPE=PTHREAD": 0} {
		l := newLab(t, fmt.Sprintf("movers %d; checkpoint 1; exit 1", want), fmt.Sprintf("movers %d; checkpoint 2; finalize", want))
		t.Setenv("SCR_FLUSH_ASYNC", "1")
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
		l.run(t, 0, "run 2")
		stay, exit := 0, 0
		for _, line := range l.tool() {
			if strings.Contains(line, " transfer --cntldir "+l.dir) {
				stay += strings.Count(line, "--stay")
				exit += strings.Count(line, "--exit")
			}
		}
		if stay != want || exit != want || len(moving(l.dir)) > 0 {
			t.Errorf("%s: started on %d nodes, ended on %d; left: %v", setting, stay, exit, moving(l.dir))
		}
	}
}

func TestLoop_NodeIsLost_SpareIsUsed(t *testing.T) {
	l := newLab(t, "checkpoint 1; lose n2; exit 137", "checkpoint 2; evict 1; finalize")
	l.run(t, 0, "node n2: ssh does not reach it", "run 1: exit status 137", "run 2:")
	if l.hosts() != "n1 n2 n3, n1 n4 n3" { // n3 keeps its ranks
		t.Errorf("ran on %s", l.hosts())
	}
}

// Runs begin at the checkpoint of SCR_CURRENT until there is a newer one, or one of them has
// died while it read it.
func TestLoop_Current(t *testing.T) {
	for what, c := range map[string]struct{ plan, want []string }{
		"a new checkpoint":  {[]string{"current; exit 1", "current; checkpoint 8; exit 1", "current; exit 1", "current; finalize"}, []string{"ckpt.7", "ckpt.7", "", ""}},
		"it cannot be read": {[]string{"current; read 7; exit 1", "current; finalize"}, []string{"ckpt.7", ""}},
		"another cannot":    {[]string{"current; read 6; exit 1", "current; finalize"}, []string{"ckpt.7", "ckpt.7"}},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, c.plan...)
			must(t, hash.MakeDirs(filepath.Join(l.prefix, ".scr")))
			must(t, prefix.UpdateIndex(l.prefix, func(x *prefix.Index) error {
				for id := 6; id <= 7; id++ {
					x.Add(checkpoint(id), true, time.Now())
				}
				return nil
			}))
			t.Setenv("SCR_CURRENT", "ckpt.7")
			l.run(t, 0)
			if got := l.currents(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q\n%s", got, c.want, l.said)
			}
		})
	}
}

// currents are the values of SCR_CURRENT in the runs, in order.
func (l *lab) currents() (list []string) {
	for line := range strings.Lines(l.printed.String()) {
		if rest, ok := strings.CutPrefix(line, "current <"); ok {
			list = append(list, strings.TrimSuffix(rest, ">\n"))
		}
	}
	return list
}

// A program asks to be started again from checkpoint 1. Runs get that one until a run has completed a
// checkpoint, or has died while it read it.
func TestLoop_RestartAsked(t *testing.T) {
	const asks = "current; init 3; checkpoint 1; checkpoint 2; restart-from 1; hang"
	for what, c := range map[string]struct{ plan, want []string }{
		"a new checkpoint":     {[]string{asks, "current; init 3; exit 1", "current; init 3; checkpoint 3; exit 1", "current; finalize"}, []string{"", "ckpt.1", "ckpt.1", ""}},
		"it cannot be read":    {[]string{asks, "current; init 3; read 1; exit 139", "current; finalize"}, []string{"", "ckpt.1", ""}},
		"another cannot":       {[]string{asks, "current; init 3; read 2; exit 139", "current; finalize"}, []string{"", "ckpt.1", "ckpt.1"}},
		"a node is lost, then": {[]string{asks, "current; init 3; read 1; lose n2; exit 139", "current; finalize"}, []string{"", "ckpt.1", "ckpt.1"}},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, c.plan...)
			l.run(t, 0, "the program asks to be started again from checkpoint ckpt.1")
			if got := l.currents(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q\n%s", got, c.want, l.said)
			}
			if q, err := migration.Read(l.prefix); err != nil || q.State != migration.Done {
				t.Errorf("%+v, %v", q, err)
			}
		})
	}
}

// A program that names the checkpoint in its command line gets the one of SCR_CURRENT.
func TestLoop_CurrentByName(t *testing.T) {
	l := newLab(t, "exit 1", "checkpoint 8; exit 1", "finalize")
	must(t, hash.MakeDirs(filepath.Join(l.prefix, ".scr")))
	must(t, prefix.UpdateIndex(l.prefix, func(x *prefix.Index) error {
		for id := 6; id <= 7; id++ {
			x.Add(checkpoint(id), true, time.Now())
		}
		return nil
	}))
	t.Setenv("SCR_CURRENT", "ckpt.6")
	self, err := os.Executable()
	must(t, err)
	loop := &Loop{Job: l.job(t), Program: Program{Argv: []string{"mpirun", "--"}, First: []string{self, "program"}, Again: []string{self, "program", CheckpointName},
		Stdout: l.printed, Stderr: l.printed}, Signals: l.signals, Poll: l.every, Grace: time.Hour}
	l.runLoop(t, loop, 0)
	var got []string
	for line := range strings.Lines(l.printed.String()) {
		if rest, ok := strings.CutPrefix(line, "program "); ok {
			got = append(got, strings.Fields(rest)[0])
		}
	}
	if want := []string{"ckpt.6", "ckpt.6", "ckpt.8"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What counts as a failure of a run, for the time between failures: not that somebody has
// asked it to end. The plan has three of each kind, with a later run that counts them.
func TestLoop_Failures(t *testing.T) {
	const died, moved = "enter 100; checkpoint 1; exit 1", "enter 100; " + sixRanks + "asked 2; hang"
	failed := func(l *lab) time.Duration {
		_, err := failures.Begin(l.prefix, "job7", time.Now())
		must(t, err)
		mtbf, err := failures.MTBF(l.prefix)
		must(t, err)
		return mtbf
	}
	l := newLab(t, died, strings.ReplaceAll(died, " 1;", " 2;"), strings.ReplaceAll(died, " 1;", " 3;"), "finalize")
	l.run(t, 0)
	if failed(l) == 0 {
		t.Error("runs that have failed do not count")
	}
	l = newLab(t, died, strings.ReplaceAll(died, " 1;", " 2;"), moved, sixRanks+"finalize")
	end := l.asks(t, "run 3:", recovery.Wish{Off: []string{"n2"}})
	l.run(t, 0)
	if r := end(); r.State != migration.Done || failed(l) != 0 {
		t.Errorf("a migration counts as a failure, or failed: %+v", r)
	}
	l = newLab(t, died, strings.ReplaceAll(died, " 1;", " 2;"), "enter 100; init 3; halt-now; hang")
	l.run(t, 143)
	if failed(l) != 0 {
		t.Error("scr_halt --immediate counts as a failure")
	}
}

// Nodes are asked while the launcher ends a run that has died, and not again after that.
func TestLoop_AsksWhileTheLauncherEnds(t *testing.T) {
	defer func(usual time.Duration) { stale = usual }(stale)
	stale = time.Hour
	for _, how := range []string{"rank0-dies", "aborts"} {
		l := newLab(t, "init 3; checkpoint 1; "+how+"; exit 1", "finalize")
		l.run(t, 0)
		text, err := os.ReadFile(filepath.Join(l.dir, "tool"))
		must(t, err)
		for _, node := range []string{"n1", "n2", "n3", "n4"} {
			if n := strings.Count(string(text), node+" check_node"); n != 2 {
				t.Errorf("%s: %s was asked %d times for two runs", how, node, n)
			}
		}
	}
	l := newLab(t, "init 3; checkpoint 1; lose n2; rank0-dies; exit 1", "finalize")
	t.Setenv("SCR_MIN_NODES", "2")
	l.run(t, 0, "node n2: ssh does not reach it")
}

// A program can end before scr_run has seen that it asks to be started again. That is no failure, and the
// request does not end the next run.
func TestLoop_RestartAsked_EndsAtOnce(t *testing.T) {
	for _, end := range []string{"exit 1", "exit 0"} {
		l := newLab(t, "enter 100; init 3; checkpoint 1; checkpoint 2; rank0-ends; restart-from 1; "+end,
			"current; enter 100; init 3; checkpoint 3; exit 1", "current; finalize")
		t.Setenv("SCR_LOG_ENABLE", "1")
		l.run(t, 0, "the program has asked to be started again from checkpoint ckpt.1", "run 2: exit status 1")
		if got := l.currents(); !slices.Equal(got, []string{"ckpt.1", ""}) {
			t.Errorf("%s: the next runs began at %q", end, got)
		}
		if q, err := migration.Read(l.prefix); err != nil || q.State != migration.Done {
			t.Errorf("%s: %+v, %v", end, q, err)
		}
		var ends []string // after a HALT, a report does not count the run among the failures
		for _, r := range l.logged(t) {
			if r.Type == "HALT" || r.Type == "RUN_END" {
				ends = append(ends, r.Type)
			}
		}
		if !slices.Equal(ends, []string{"HALT", "RUN_END", "RUN_END", "RUN_END"}) {
			t.Errorf("%s: logged %q", end, ends)
		}
	}
	l := newLab(t, "init 3; checkpoint 1; rank0-ends; restart-from 1; finalize")
	l.run(t, 0, "the program has ended by itself")
	if q, err := migration.Read(l.prefix); err != nil || q.State != migration.Failed || q.Text != "the job is over" {
		t.Errorf("%+v, %v", q, err)
	}
}

// A node that is lost when the program asks to be started again is not used by the next run.
func TestLoop_RestartAsked_NodeIsLost(t *testing.T) {
	for _, plan := range []string{
		"init 3; checkpoint 1; lose n2; restart-from 1; hang",
		"init 3; checkpoint 1; lose n2; rank0-dies; restart-from 1; exit 137",
	} {
		l := newLab(t, plan, "current; init 3; finalize")
		l.run(t, 0, "node n2: ssh does not reach it")
		if got := l.currents(); !slices.Equal(got, []string{"ckpt.1"}) || l.hosts() != "n1 n2 n3, n1 n4 n3" {
			t.Errorf("%s: the next run began at %q on %s", plan, got, l.hosts())
		}
	}
}

// A node that fails after it has answered, while the launcher ends the run, is lost all the same: the
// checkpoint that the run was reading is not to blame, and the next run does not use the node.
func TestLoop_NodeIsLostWhileTheLauncherEnds(t *testing.T) {
	l := newLab(t, "init 3; checkpoint 1; read 1; rank0-dies; lose n2; exit 139", "finalize")
	l.run(t, 0, "node n2: ssh does not reach it")
	if list, err := prefix.Condemned(l.prefix); len(list) > 0 || err != nil {
		t.Errorf("condemned %v, %v", list, err)
	}
	if l.hosts() != "n1 n2 n3, n1 n4 n3" {
		t.Errorf("ran on %s", l.hosts())
	}
	l = newLab(t, "init 3; checkpoint 1; read 1; rank0-dies; exit 139", "finalize")
	l.run(t, 0, "the program died while it read checkpoint ckpt.1, with all nodes up")
}

func TestLoop_LogsLostNodes(t *testing.T) {
	l := newLab(t, "checkpoint 1; lose n2; exit 137", "checkpoint 2; evict 1; finalize")
	t.Setenv("SCR_LOG_ENABLE", "1")
	t.Setenv("SCR_EXCLUDE_NODES", "n4")
	t.Setenv("SCR_MIN_NODES", "2")
	t.Setenv("SCR_FLUSH", "0")
	l.run(t, 0)
	want := []string{"NODE_FAIL n4: excluded by SCR_EXCLUDE_NODES", "RUN_START, run 1 on 2 nodes n[1-2]",
		"NODE_FAIL n2: ssh does not reach it: ssh: connect to host n2 port 22: No route to host",
		"RUN_END exit status 137 after T; lost n2, run 1: 137, signal 9",
		"RUN_START, run 2 on 2 nodes n[1,3]",
		"RUN_END exit status 0 after T; the program has ended by itself, run 2: 0, signal 0"}
	var got []string
	for _, r := range l.logged(t) {
		line := r.Type
		if r.Note != "" {
			line += " " + regexp.MustCompile(`after [0-9.]+m?s`).ReplaceAllString(r.Note, "after T")
		}
		if r.Run != nil {
			line += fmt.Sprintf(", run %d", r.Run.Number)
			if r.Run.NodeList != "" {
				line += fmt.Sprintf(" on %d nodes %s", r.Run.Nodes, r.Run.NodeList)
			}
			if r.Run.Status != nil {
				line += fmt.Sprintf(": %d, signal %d", *r.Run.Status, r.Run.Signal)
			}
		}
		if r.Type == "RUN_END" && (r.Seconds == nil || r.Time.Sub(r.Start) < time.Duration(*r.Seconds*1e9)-time.Millisecond) {
			t.Errorf("%+v took a wrong time", r)
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The metrics of scr_run, without a log.
func TestLoop_Metrics(t *testing.T) {
	metrics := func(code int, wish *recovery.Wish, plan ...string) string {
		t.Helper()
		l := newLab(t, plan...)
		dir := t.TempDir()
		t.Setenv("SCR_METRICS_DIR", dir)
		t.Setenv("SCR_FLUSH", "1")
		if wish != nil {
			end := l.asks(t, "run 1:", *wish)
			defer end()
		}
		l.run(t, code)
		list, err := filepath.Glob(filepath.Join(dir, "goscr_run_job7_*.prom"))
		if err != nil || len(list) != 1 {
			t.Fatalf("%v %v", list, err)
		}
		data, err := os.ReadFile(list[0])
		must(t, err)
		return regexp.MustCompile(`\{jobid="job7",user="[^"]*",?`).ReplaceAllString(string(data), "{")
	}
	off := &recovery.Wish{Off: []string{"n2"}}
	for _, c := range []struct {
		code       int
		wish       *recovery.Wish
		plan, want []string
	}{
		{0, nil, []string{"checkpoint 1; lose n2; exit 137", "checkpoint 2; evict 1; finalize"}, []string{`goscr_run_runs_total{how="died"} 1`,
			`goscr_run_runs_total{how="finished"} 1`, "goscr_run_nodes_lost_total{} 1", `goscr_run_recoveries_total{rung="SPARE"} 1`, "goscr_run_running{} 0"}},
		{143, nil, []string{"checkpoint 1; halt-now; hang"}, []string{`goscr_run_runs_total{how="halted"} 1`}},
		{0, nil, []string{"deaf; checkpoint 1; halt-now; finalize"}, []string{`goscr_run_runs_total{how="halted"} 1`}},
		{0, off, []string{sixRanks + "asked 1; hang", "layout n1,n1,n4,n4,n3,n3; finalize"},
			[]string{`goscr_run_runs_total{how="migrated"} 1`, `goscr_run_runs_total{how="finished"} 1`}},
		{0, nil, []string{"current; init 3; checkpoint 1; checkpoint 2; restart-from 1; hang", "finalize"},
			[]string{`goscr_run_runs_total{how="restarted"} 1`, `goscr_run_runs_total{how="finished"} 1`}},
		{3, nil, []string{"checkpoint 5; lose n1; lose n2; exit 3"}, []string{"goscr_run_scavenges_total{} 1", "goscr_run_nodes_lost_total{} 2"}},
	} {
		got := metrics(c.code, c.wish, c.plan...)
		for _, want := range c.want {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("%q: no %s in\n%s", c.plan, want, got)
			}
		}
	}
}

// When the job ends, its log is summed up, and not those of other jobs.
func TestLoop_SumsUp(t *testing.T) {
	l := newLab(t, "checkpoint 1; finalize")
	t.Setenv("SCR_LOG_ENABLE", "1")
	must(t, os.Mkdir(filepath.Join(l.prefix, ".scr"), 0o700))
	text := accounttest.Job{ID: "job6", Runs: 3, Checkpoints: 1}.Text() + accounttest.Job{ID: "job7", Runs: 2, Checkpoints: 3}.Text()
	must(t, os.WriteFile(eventlog.TextFile(l.prefix), []byte(text), 0o600))
	l.run(t, 0, "3 runs, 1 died; 6 checkpoints, 2 in the prefix directory; 1 node lost", "node-hours and saved", "a checkpoint every 10 s, 3.00 s each")
}

func TestLoop_LogsScavenge(t *testing.T) {
	l := newLab(t, "checkpoint 5; lose n1; lose n2; exit 3")
	t.Setenv("SCR_LOG_ENABLE", "1")
	l.run(t, 3)
	list := l.logged(t)
	if r := list[slices.IndexFunc(list, func(r eventlog.Record) bool { return r.Type == "SCAVENGE" })]; !r.Transfer || r.Dataset != 5 ||
		r.Name != "ckpt.5" || r.From != l.dir || r.To != l.prefix || r.Seconds == nil {
		t.Errorf("%+v", r)
	}
	l = newLab(t, "checkpoint 5; lose n1; lose n2; exit 3")
	t.Setenv("SCR_LOG_ENABLE", "1")
	l.touch(t, "nobuild.5")
	l.run(t, 3)
	const why = "dataset 5 (ckpt.5) could not be completed: rank 3 is missing"
	if list := l.logged(t); !slices.ContainsFunc(list, func(r eventlog.Record) bool { return r.Type == "SCAVENGE_FAIL" && r.Note == why }) {
		t.Errorf("%+v", list)
	}
}

func TestLoop_OnceDownAlwaysDown(t *testing.T) {
	l := newLab(t, "checkpoint 1; lose n1; exit 1", "checkpoint 2; exit 1", "finalize")
	time.AfterFunc(0, func() {
		for { // n1 answers again as soon as the second run is under way
			if strings.Contains(l.said.String(), "run 2") {
				os.Remove(filepath.Join(l.dir, "dead.n1"))
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	l.run(t, 0)
	if l.hosts() != "n1 n2 n3, n4 n2 n3, n4 n2 n3" {
		t.Errorf("ran on %s", l.hosts())
	}
}

// A node on which processes die twice in a row is not used a third time if there is
// another.
func TestLoop_SuspectNode(t *testing.T) {
	for what, c := range map[string]struct {
		plan  []string
		nodes string
		hosts string
		said  string
	}{
		"a spare takes its place": {[]string{"checkpoint 1; died-on n2; exit 137", "checkpoint 2; died-on n2; exit 137", "finalize"},
			"3", "n1 n2 n3, n1 n2 n3, n1 n4 n3", "recovery: SPARE: n4 in the place of n2 (suspect: processes died there in two runs in a row)"},
		"there is no spare": {[]string{"checkpoint 1; died-on n2; exit 137", "checkpoint 2; died-on n2; exit 137", "finalize"},
			"4", "n1 n2 n3 n4, n1 n2 n3 n4, n1 n2 n3 n4", "recovery: SAME: start again on n[1-4], although suspect, because there is no spare: n2"},
		"another node in between": {[]string{"checkpoint 1; died-on n2; exit 137", "checkpoint 2; died-on n1; exit 137", "checkpoint 3; died-on n2; exit 137", "finalize"},
			"3", "n1 n2 n3, n1 n2 n3, n1 n2 n3, n1 n2 n3", "recovery: SAME: start again on n[1-3]"},
		"it stays suspect": {[]string{"checkpoint 1; died-on n2; exit 137", "checkpoint 2; died-on n2; exit 137", "checkpoint 3; lose n1; exit 1", "finalize"},
			"3", "n1 n2 n3, n1 n2 n3, n1 n4 n3, n4 n3 n2", "recovery: SPARE: n2 in addition"},
		"not a node of the job": {[]string{"checkpoint 1; died-on x; exit 137", "checkpoint 2; died-on x; exit 137", "finalize"},
			"3", "n1 n2 n3, n1 n2 n3, n1 n2 n3", "recovery: SAME"},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, c.plan...)
			t.Setenv("SCR_MIN_NODES", c.nodes)
			l.run(t, 0, c.said)
			if l.hosts() != c.hosts {
				t.Errorf("ran on %s", l.hosts())
			}
			if !strings.Contains(l.printed.String(), "noise\n") {
				t.Error("what the launcher writes on stderr is lost")
			}
		})
	}
}

func TestLoop_Recovery(t *testing.T) {
	l := newLab(t, "checkpoint 1; lose n2; exit 137", "finalize")
	t.Setenv("SCR_RECOVERY", "same")
	l.run(t, 137, "recovery: SAME passes on: down: n2", "the job is over: the job cannot continue: SAME: down: n2", "dataset 1 (ckpt.1): in the prefix directory")
	l = newLab(t, "checkpoint 1; exit 137", "finalize")
	t.Setenv("SCR_RECOVERY", "STOP")
	l.run(t, 137, "the job is over: SCR_RECOVERY says to stop", "dataset 1 (ckpt.1): in the prefix directory")
}

// The program continues with another number of ranks, from the prefix directory.
func TestLoop_FewerNodes(t *testing.T) {
	plan := []string{"init 4; checkpoint 1; lose n2; lose n3; exit 137", "init 2; checkpoint 2; exit 1", "init 2; finalize"}
	l := newLab(t, plan...)
	t.Setenv("SCR_MIN_NODES", "")
	t.Setenv("SCR_GLOBAL_RESTART", "1")
	self, err := os.Executable()
	must(t, err)
	loop := &Loop{Job: l.job(t), Program: Program{Argv: []string{"mpirun", "-n", "8", "--", self, "program", "-n", "8"}, Stdout: l.printed, Stderr: l.printed}, Poll: l.every}
	l.runLoop(t, loop, 0, "recovery: SPARE passes on: 2 nodes are left, and 4 are needed (as many as the last run used)",
		"recovery: FEWER: continue with 2 nodes instead of 4: n[1,4]", "dataset 1 (ckpt.1): in the prefix directory",
		"-n 8 -- "+self, "-n 4 -- "+self+" program -n 8")
	if l.hosts() != "n1 n2 n3 n4, n1 n4, n1 n4" {
		t.Errorf("ran on %s", l.hosts())
	}
	for setting, why := range map[string]string{"SCR_GLOBAL_RESTART=0": "SCR_GLOBAL_RESTART is not set", "SCR_MIN_NODES=4": "2 nodes are left, and 4 are needed (SCR_MIN_NODES)"} {
		l := newLab(t, plan...)
		t.Setenv("SCR_MIN_NODES", "")
		t.Setenv("SCR_GLOBAL_RESTART", "1")
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
		l.run(t, 137, "recovery: FEWER passes on: "+why)
	}
}

func TestLoop_TooFewNodes(t *testing.T) {
	l := newLab(t, "checkpoint 5; lose n1; lose n2; exit 3")
	l.run(t, 3, "2 nodes are left, and 3 are needed (SCR_MIN_NODES)", "dataset 5 (ckpt.5): in the prefix directory")
}

func TestLoop_NeedsAllNodesIfNobodySaysOtherwise(t *testing.T) {
	l := newLab(t)
	t.Setenv("SCR_MIN_NODES", "")
	l.touch(t, "ill.n3")
	l.run(t, 1, "node n3: scr_check_node: disk full", "3 nodes are left, and 4 are needed (all")
	l = newLab(t, "finalize")
	t.Setenv("SCR_MIN_NODES", "")
	t.Setenv("SCR_EXCLUDE_NODES", "n[1-2]")
	l.run(t, 0, "node n1: excluded by SCR_EXCLUDE_NODES")
	if l.hosts() != "n3 n4" {
		t.Errorf("ran on %s", l.hosts())
	}
}

func TestLoop_NoProgress(t *testing.T) {
	l := newLab(t, "exit 2", "checkpoint 1; exit 2", "exit 3", "lose n4; exit 4", "exit 5", "finalize")
	l.run(t, 5, "3 runs in a row have failed without completing a checkpoint", "run 3: exit status 3", "run 5: exit status 5")
}

// A run that takes up an older checkpoint and gets as far as the one before has
// not been in vain.
func TestLoop_ProgressFromAnOlderCheckpoint(t *testing.T) {
	l := newLab(t, "checkpoint 6; exit 1", "evict 6; checkpoint 5; exit 1", "evict 5; checkpoint 4; exit 1", "evict 4; checkpoint 3; exit 1", "finalize")
	l.run(t, 0)
}

func TestLoop_Runs(t *testing.T) {
	l := newLab(t, "checkpoint 1; exit 1", "checkpoint 2; exit 7", "finalize")
	t.Setenv("SCR_RUNS", "2")
	l.run(t, 7, "the limit of SCR_RUNS=2 is reached")
}

// SCR_RETRIES says the same with one less, and SCR_RUNS counts if both are set.
func TestLoop_Retries(t *testing.T) {
	l := newLab(t, "checkpoint 1; exit 1", "checkpoint 2; exit 7", "finalize")
	t.Setenv("SCR_RETRIES", "1")
	l.run(t, 7, "the limit of SCR_RETRIES=1 is reached")
	l = newLab(t, "checkpoint 1; exit 1", "checkpoint 2; exit 7", "finalize")
	t.Setenv("SCR_RETRIES", "1")
	t.Setenv("SCR_RUNS", "1")
	l.run(t, 1, "the limit of SCR_RUNS=1 is reached")
}

func TestLoop_DiesWhileReading(t *testing.T) {
	l := newLab(t, "checkpoint 1; checkpoint 2; exit 1", "read 2; exit 139", "finalize")
	l.run(t, 0, "the program died while it read checkpoint ckpt.2")
	list, err := prefix.Condemned(l.prefix)
	if err != nil || len(list) != 1 || list[2].Name != "ckpt.2" {
		t.Errorf("condemned %v, %v", list, err)
	}
	for what, plan := range map[string][]string{
		"it had read":     {"checkpoint 2; exit 1", "read 2; has-read; exit 1", "finalize"},
		"a node was lost": {"checkpoint 2; exit 1", "read 2; lose n3; exit 1", "finalize"},
	} {
		l := newLab(t, plan...)
		l.run(t, 0)
		if list, err := prefix.Condemned(l.prefix); len(list) > 0 || err != nil {
			t.Errorf("%s: condemned %v, %v", what, list, err)
		}
	}
}

func TestLoop_Finalized_IsDoneWhateverTheStatus(t *testing.T) {
	l := newLab(t, "finalize; exit 6")
	l.run(t, 6, "has called SCR_Finalize")
}

// That the job before has ended by itself is no news of this one.
func TestLoop_FinalizedBefore(t *testing.T) {
	l := newLab(t, "exit 1", "finalize")
	must(t, l.job(t).Prerun())
	must(t, halt.End(l.prefix, ""))
	l.run(t, 0, "run 1: exit status 1", "run 2: exit status 0")
}

func TestLoop_Halted(t *testing.T) {
	l := newLab(t)
	must(t, halt.Change(l.prefix, map[halt.Field]string{halt.Because: "maintenance"}))
	l.run(t, 1, "maintenance")
}

// A job without scr_run was told to stop, and has ended without Finalize: scr_run begins another.
// If that job still runs, it has to find the condition.
func TestLoop_HaltedBefore(t *testing.T) {
	for _, runs := range []bool{false, true} {
		l := newLab(t, "finalize")
		must(t, halt.Change(l.prefix, map[halt.Field]string{halt.Because: halt.Asked}))
		must(t, halt.Told(l.prefix, "defjobid", ""))
		if !runs {
			l.run(t, 0, "exit status 0")
			continue
		}
		other, err := request.Begin(l.prefix, request.Job{ID: "defjobid"}, true)
		must(t, err)
		l.run(t, 1, halt.Asked)
		other.Close()
	}
}

func TestLoop_HaltImmediately(t *testing.T) {
	l := newLab(t, "checkpoint 1; halt-now; hang", "finalize")
	l.run(t, 143, "scr_halt --immediate: the run is ended", "dataset 1 (ckpt.1): in the prefix directory")
	l.run(t, 0, "exit status 0") // the same job, submitted again
}

// A program that asks scr_should_exit often sees it before the loop does.
func TestLoop_HaltImmediately_ByItself(t *testing.T) {
	l := newLab(t, "checkpoint 1; halt-now; finalize", "finalize")
	l.every = time.Hour
	l.run(t, 0, "run 1: exit status 0", "stopped by scr_halt --immediate", "dataset 1 (ckpt.1): in the prefix directory")
}

func TestLoop_Watchdog(t *testing.T) {
	l := newLab(t, "checkpoint 1; hang", "finalize")
	l.firstOnly = true
	t.Setenv("SCR_WATCHDOG", "1")
	t.Setenv("SCR_WATCHDOG_TIMEOUT", "4")
	l.run(t, 0, "watchdog: no checkpoint for", "stacks.1.*")
	for _, n := range []string{"n1", "n4"} {
		if text, err := os.ReadFile(filepath.Join(l.prefix, ".scr/stacks.1."+n)); string(text) != "#0 in main\n" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// A run is also ended if there is no debugger, and one line says so for all nodes.
func TestLoop_Watchdog_NoDebugger(t *testing.T) {
	l := newLab(t, "hang", "init 3; checkpoint 1; finalize")
	l.firstOnly = true
	script(t, filepath.Join(l.dir, "nodebugger"), "")
	t.Setenv("SCR_LAUNCH_TIMEOUT", "1")
	l.run(t, 0, "no SCR_Init within ", "no stacks of the ranks on n[1-4]: neither eu-stack nor gdb", "run 2: exit status 0")
}

// A node that does not answer does not keep the run from its end for long, and the stacks of the others are kept.
func TestLoop_Watchdog_NodeIsSilent(t *testing.T) {
	if sample.Now() == sample.Quick {
		return // the others need time to answer on a busy machine, so it takes 20 s
	}
	defer func(usual time.Duration) { stacksTime = usual }(stacksTime)
	stacksTime = -stacksAnswer + 20*time.Second
	l := newLab(t, "hang", "init 3; checkpoint 1; finalize")
	l.firstOnly = true
	script(t, filepath.Join(l.dir, "slow.n2"), "")
	t.Setenv("SCR_LAUNCH_TIMEOUT", "1")
	l.run(t, 0, "no SCR_Init within ", "stacks.1.*", "run 2: exit status 0")
	for n, want := range map[string]bool{"n1": true, "n2": false, "n3": true} {
		if _, err := os.Stat(filepath.Join(l.prefix, ".scr/stacks.1."+n)); (err == nil) != want {
			t.Errorf("%s: %v", n, err)
		}
	}
}

// Options that the launcher does not understand are no reason for another run, unless a run has begun with them.
func TestLoop_LauncherRejectsOptions(t *testing.T) {
	for before, want := range map[string]int{
		"":                                    1,
		`"$@"`:                                3, // the program
		"[ $(wc -l <$RUNS) -gt 1 ] || exit 1": 3, // the first run has failed in another way
	} {
		l := newLab(t, "init 3", "init 3", "init 3")
		file := filepath.Join(l.dir, "runs")
		t.Setenv("RUNS", file)
		script(t, filepath.Join(l.dir, "bin/mpirun"), `[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
			while [ "$1" != -- ]; do shift; done; shift
			echo >>$RUNS
			`+before+`
			echo 'mpirun: Error: unknown option "--bogus"' >&2; echo "Type 'mpirun --help' for usage." >&2; exit 1`)
		said := `the job is over: mpirun does not understand its options, and a further run would end in the same way: mpirun: Error: unknown option "--bogus"`
		if want > 1 {
			said = "3 runs in a row have failed"
		}
		l.run(t, 1, said)
		runs, err := os.ReadFile(file)
		if must(t, err); len(runs) != want {
			t.Errorf("%q: %d runs, want %d", before, len(runs), want)
		}
	}
}

func TestLoop_NeverStarts(t *testing.T) {
	l := newLab(t, "hang", "init 3; checkpoint 1; finalize")
	l.firstOnly = true
	t.Setenv("SCR_LAUNCH_TIMEOUT", "1")
	l.run(t, 0, "no SCR_Init within ", "stacks.1.*", "run 2: exit status 0")
	if sample.Now() == sample.Quick {
		return // each further run that hangs takes a second
	}
	l = newLab(t, "hang", "hang", "hang", "finalize")
	t.Setenv("SCR_LAUNCH_TIMEOUT", "1")
	l.run(t, 143, "3 runs in a row have failed without completing a checkpoint")
}

// With a watchdog, what one run has taken to SCR_Init is the measure of the next.
func TestLoop_LearnsHowLongAStartTakes(t *testing.T) {
	l := newLab(t)
	job := l.job(t)
	must(t, job.Prerun())
	var longest time.Duration
	start := func(number int) *running {
		initCalled, err := newFileChange(job.nodesFile())
		must(t, err)
		return &running{job: job, outcome: attempt{number: number}, initCalled: initCalled, start: starter{began: time.Unix(1000, 0),
			limit: startLimit(0, true, longest)}}
	}
	at := func(seconds int64) time.Time { return time.Unix(1000+seconds, 0) }
	r := start(1)
	if why := r.hasNotStarted(at(119)); why != "" || l.said.String() != "" {
		t.Error(why, l.said)
	}
	r.hasNotStarted(at(120))
	r.hasNotStarted(at(300))
	if said := l.said.String(); strings.Count(said, "run 1 has not called SCR_Init in 2m0s") != 1 || strings.Contains(said, "5m0s") {
		t.Error(said)
	}
	if why := r.hasNotStarted(at(100000)); why != "" {
		t.Errorf("the first run has no measure: %s", why)
	}
	must(t, nodesUsed(l.prefix, 3))
	if why := r.hasNotStarted(at(100001)); why != "" || r.start.took != 100001*time.Second {
		t.Error(why, r.start.took)
	}
	r.hasNotStarted(at(200000)) // it is over since
	if r.start.took != 100001*time.Second {
		t.Error(r.start.took)
	}
	longest = r.start.took
	r = start(2) // what the first has left is not its own
	if why := r.hasNotStarted(at(400003)); why != "" {
		t.Error(why)
	}
	if why := r.hasNotStarted(at(400004)); why != "no SCR_Init within 111h6m44s" {
		t.Error(why)
	}
}

func TestStartLimit(t *testing.T) {
	for _, c := range []struct {
		told    time.Duration
		watched bool
		longest time.Duration
		want    time.Duration
	}{
		{0, false, time.Hour, 0},
		{0, true, 0, 0},
		{0, true, time.Second, 5 * time.Minute},
		{0, true, time.Hour, 4 * time.Hour},
		{time.Second, false, time.Hour, time.Second},
		{time.Second, true, time.Hour, time.Second},
	} {
		if got := startLimit(c.told, c.watched, c.longest); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestLoop_Signal(t *testing.T) {
	l := newLab(t, "checkpoint 1; signal-parent; hang", "finalize")
	time.AfterFunc(0, func() {
		for {
			if _, err := os.Stat(filepath.Join(l.dir, "signal")); err == nil {
				l.signals <- unix.SIGTERM
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	t.Setenv("SCR_LOG_ENABLE", "1")
	l.run(t, 143, "signal terminated is passed on", "stopped by signal terminated", "dataset 1 (ckpt.1): in the prefix directory")
	var ends []string // without the HALT, a report counts the run among the failures
	for _, r := range l.logged(t) {
		switch r.Type {
		case "HALT":
			ends = append(ends, r.Type+" "+r.Note)
		case "RUN_END":
			ends = append(ends, r.Type)
		}
	}
	if !slices.Equal(ends, []string{"HALT stopped by signal terminated", "RUN_END"}) {
		t.Errorf("logged %q", ends)
	}
}

// Slurm's --signal=TERM@60 reaches the program, and us not.
func TestLoop_SignalToTheProgram(t *testing.T) {
	l := newLab(t, "checkpoint 1; exit 143", "finalize")
	t.Setenv("SCR_END_TIME", strconv.FormatInt(time.Now().Add(100*time.Second).Unix(), 10))
	l.run(t, 143, "the program was ended by SIGTERM", "dataset 1 (ckpt.1): in the prefix directory")
	for what, plan := range map[string][]string{
		"a node was lost":       {"checkpoint 1; lose n3; exit 143", "finalize"},
		"it has another status": {"checkpoint 1; exit 142", "finalize"},
	} {
		l := newLab(t, plan...)
		t.Setenv("SCR_END_TIME", strconv.FormatInt(time.Now().Add(100*time.Second).Unix(), 10))
		t.Log(what)
		l.run(t, 0)
	}
	l = newLab(t, "checkpoint 1; exit 143", "finalize")
	t.Setenv("SCR_END_TIME", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
	l.run(t, 0)
}

func TestLoop_RunAndRestartCommand(t *testing.T) {
	l := newLab(t, "checkpoint 3; exit 1", "finalize")
	self, err := os.Executable()
	must(t, err)
	l.runLoop(t, &Loop{Job: l.job(t), Program: Program{Argv: []string{"mpirun", "-n", "4", "--"}, Stdout: l.printed, Stderr: l.printed,
		First: []string{self, "program", "new"}, Again: []string{self, "program", "from=SCR_CKPT_NAME.h5", "SCR_CKPT_NAME"}}, Poll: time.Hour}, 0)
	if text := l.printed.String(); !strings.Contains(text, "program new job7\n") || !strings.Contains(text, "program from=ckpt.3.h5 ckpt.3 job7\n") {
		t.Error(text)
	}
}

func TestLoop_TurnedOff(t *testing.T) {
	l := newLab(t, "exit 5")
	t.Setenv("SCR_ENABLE", "0")
	script(t, filepath.Join(l.dir, "bin/mpirun"), `[ "$1" != --version ] || exit 0; shift; exec "$@"`)
	l.run(t, 5)
	if _, err := os.Stat(filepath.Join(l.prefix, ".scr")); !os.IsNotExist(err) {
		t.Error("it has touched the prefix directory")
	}
}

func TestLoop_DoneWithoutFlushing(t *testing.T) {
	l := newLab(t, "checkpoint 1; finalize")
	t.Setenv("SCR_FLUSH", "0")
	l.run(t, 0)
	if got := l.tool(); len(got) > 0 && got[0] != "" {
		t.Errorf("nobody wants its checkpoints any more: %q", got)
	}
	l = newLab(t, "checkpoint 1; halt 1; finalize")
	t.Setenv("SCR_FLUSH", "0")
	l.run(t, 0, "dataset 1 (ckpt.1): in the prefix directory")
}

func TestScavenge_TwoRounds(t *testing.T) {
	l := newLab(t)
	for id := 1; id <= 3; id++ {
		must(t, prefix.Locate(l.prefix, checkpoint(id), prefix.InCache, true))
	}
	output := dataset.New(2, "out", dataset.Output, 0, dataset.Owner{}, time.Unix(0, 0))
	must(t, prefix.Locate(l.prefix, output, prefix.InCache, true))
	l.touch(t, "nocopy.n3")
	l.touch(t, "spare.n4")
	must(t, l.job(t).Postrun(t.Context(), map[string]string{"n2": "lost"}))
	if said := l.said.String(); !strings.Contains(said, "scr_copy on n3: cannot copy") || strings.Contains(said, "n4") {
		t.Error(said)
	}
	var want []string
	for _, id := range []string{"2", "3"} { // output first, then the newest checkpoint only
		copying := fmt.Sprintf("copy --cntldir %s/root/scr.job7 --id %s --prefix %s --buf 1048576 --crc", l.dir, id, l.prefix)
		copying = strings.Replace(copying, "/root/", "/"+l.job(t).Config.UserName+"/", 1)
		for _, n := range []string{"n1", "n3", "n4"} {
			want = append(want, n+" "+copying+" n2")
		}
		want = append(want, "n1 "+copying+" --partner n2 n3 n4")
		want = append(want, " index --prefix "+l.prefix+" --build "+id)
	}
	got := l.tool()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestScavenge_FallsBackToAnOlderCheckpoint(t *testing.T) {
	l := newLab(t)
	for id := 1; id <= 3; id++ {
		must(t, prefix.Locate(l.prefix, checkpoint(id), prefix.InCache, true))
	}
	must(t, prefix.Locate(l.prefix, checkpoint(1), prefix.InPrefix, true))
	l.touch(t, "nobuild.3")
	must(t, l.job(t).Postrun(t.Context(), nil))
	if said := l.said.String(); !strings.Contains(said, "ckpt.2): in the prefix") || strings.Contains(said, "ckpt.1") {
		t.Error(said)
	}
	l.touch(t, "nobuild.2")
	if err := l.job(t).Postrun(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "rank 3 is missing") {
		t.Error(err)
	}
	all := map[string]string{"n1": "x", "n2": "x", "n3": "x", "n4": "x"}
	if err := l.job(t).Postrun(t.Context(), all); err == nil || !strings.Contains(err.Error(), "no node is left") {
		t.Error(err)
	}
}

func TestScavenge_NothingToDo(t *testing.T) {
	l := newLab(t)
	must(t, l.job(t).Postrun(t.Context(), nil))
	must(t, prefix.Locate(l.prefix, checkpoint(1), prefix.InCache, true))
	must(t, prefix.Locate(l.prefix, checkpoint(1), prefix.InPrefix, true))
	must(t, l.job(t).Postrun(t.Context(), nil))
	if got := l.tool(); len(got) > 1 || got[0] != "" {
		t.Error(got)
	}
}

func TestWatchdog(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	learning := newWatchdog(0, 0, at(-50), start)
	for _, c := range []struct {
		latest, second int
		want           time.Duration
	}{
		{-50, 100000, 0}, // never before the first checkpoint of the run
		{100, 100100, 0}, // which took long
		{200, 100200, 0}, // and the second less
		{200, 500599, 0}, // four times the longest is 400400
		{200, 500600, 400400 * time.Second},
	} {
		if got := learning.update(at(c.latest), false, at(c.second)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	quick := newWatchdog(0, 0, time.Time{}, start)
	quick.update(at(0), false, at(1))
	if quick.update(at(0), false, at(60)) != 0 || quick.update(at(0), false, at(61)) == 0 {
		t.Error("a learned time is a minute at least")
	}
	told := newWatchdog(10*time.Second, 100*time.Second, start, start)
	if told.update(start, false, at(9)) != 0 || told.update(start, true, at(99)) != 0 || told.update(start, false, at(10)) == 0 || told.update(start, true, at(100)) == 0 {
		t.Error("the times that were told do not hold")
	}
	if same := newWatchdog(10*time.Second, 0, start, start); same.update(start, true, at(10)) == 0 {
		t.Error("without a time for flushes they have the other")
	}
}

func TestWatchdog_AsConfigured(t *testing.T) {
	l := newLab(t)
	now := time.Now()
	if dog := l.job(t).watchdog(now, now); dog != nil {
		t.Errorf("without SCR_WATCHDOG: %+v", dog)
	}
	t.Setenv("SCR_WATCHDOG", "1")
	t.Setenv("SCR_WATCHDOG_TIMEOUT", "10")
	t.Setenv("SCR_WATCHDOG_TIMEOUT_PFS", "100.5")
	if dog := l.job(t).watchdog(now, now); dog.limit != 10*time.Second || dog.limitPFS != 100500*time.Millisecond {
		t.Errorf("%+v", dog)
	}
}

// How much room a node has to have is said by lines of the configuration.
func TestCheckCommand(t *testing.T) {
	l := newLab(t)
	lines := []string{"CNTLDIR=" + l.dir + " BYTES=4k", "CACHEDIR=" + l.dir + " BYTES=2m", "CACHEDIR=/elsewhere BYTES=1g"}
	must(t, os.WriteFile(filepath.Join(l.prefix, ".scrconf"), []byte(strings.Join(lines, "\n")), 0o600))
	j := l.job(t)
	want := []string{j.Tool, "check_node", "--free", "--cntl=" + l.dir + ":4096", "--cache=" + l.dir + ":2097152"}
	if got := j.checkCommand(true); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCheckDirs(t *testing.T) {
	dir := t.TempDir()
	must(t, CheckDirs(dir+","+dir+"/new:1000,", false))
	must(t, CheckDirs(dir+":1k", true))
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	for list, want := range map[string]string{
		dir + ":99999999999999999": "are needed",
		dir + "/new," + dir + ":x": "number of bytes",
		dir + "/file":              "not a directory",
		"/proc/none," + dir:        "/proc/none",
		dir + ":-1":                "number of bytes",
	} {
		if err := CheckDirs(list, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", list, err)
		}
	}
	if files, _ := filepath.Glob(dir + "/.scr-check*"); len(files) > 0 {
		t.Error(files)
	}
}

// The commands that reach many nodes at once, played by scripts.
func TestOnNodes_Together(t *testing.T) {
	for shell, text := range map[string]string{
		"srun": `
			for a; do case $a in --nodelist=*) list=${a#*=} ;; esac; done
			while [ "$1" != sh ]; do shift; done
			IFS=,; for n in $list; do
				case $n in n3) [ "$list" = n3 ] || continue ;; n4) continue ;; esac
				SLURMD_NODENAME=$n "$@"
			done`,
		"pdsh": `
			while [ "$1" != -w ]; do shift; done
			IFS=,; for n in $2; do
				case $n in n3|n4) continue ;; esac
				sh -c "$(printf "$3")" | sed "s/^/$n: /"
			done`,
	} {
		t.Run(shell, func(t *testing.T) {
			l := newLab(t)
			script(t, filepath.Join(l.dir, "bin", shell), text)
			l.touch(t, "dead.n4")
			t.Setenv("SCR_REMOTE_SHELL", strings.ToUpper(shell))
			got := l.job(t).OnNodes(t.Context(), []string{"n1", "n2", "n3", "n4"}, time.Hour, "sh", "-c", `echo "it's 100%"; echo x y; exit 3`)
			for _, n := range []string{"n1", "n2", "n3"} {
				if a := got[n]; a.Err != nil || a.Status != 3 || a.Out != "it's 100%\nx y" {
					t.Errorf("%s: %+v", n, a)
				}
			}
			if a := got["n4"]; a.Err == nil {
				t.Errorf("n4: %+v", a)
			}
		})
	}
}

// Slurm starts nothing more in a job that was cancelled.
func TestOnNodes_CancelledJob(t *testing.T) {
	l := newLab(t)
	t.Setenv("SCR_REMOTE_SHELL", "SRUN")
	script(t, filepath.Join(l.dir, "bin/srun"), `echo "srun: error: Slurm job 2 has expired" >&2
		echo "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 2" >&2; exit 1`)
	l.touch(t, "dead.n2")
	got := l.job(t).OnNodes(t.Context(), []string{"n1", "n2", "n3"}, time.Hour, "echo", "here")
	if got["n1"].Out != "here" || got["n3"].Out != "here" || got["n2"].Err == nil {
		t.Error(got)
	}
	script(t, filepath.Join(l.dir, "bin/srun"), `echo "srun: error: Unable to create step" >&2; exit 1`)
	got = l.job(t).OnNodes(t.Context(), []string{"n1", "n3"}, time.Hour, "echo", "here")
	if a := got["n1"]; a.Err == nil || a.Err.Error() != "srun does not reach it: srun: error: Unable to create step" {
		t.Error(a)
	}
}

// A command for many nodes that fails for one of them is not repeated for each.
func TestOnNodes_OneLostAmongMany(t *testing.T) {
	l := newLab(t)
	script(t, filepath.Join(l.dir, "bin/srun"), fmt.Sprintf(`
		for a; do case $a in --nodelist=*) list=${a#*=} ;; esac; done
		echo "$list" >>%s/asked
		case ,$list, in *,n77,*) exit 1 ;; esac
		IFS=,; for n in $list; do echo "$n: %s 0"; done`, l.dir, exitMark))
	t.Setenv("SCR_REMOTE_SHELL", "SRUN")
	var nodes []string
	for i := range 300 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	got := l.job(t).OnNodes(t.Context(), nodes, time.Hour, "true")
	for _, n := range nodes {
		if a, ok := got[n]; !ok || (a.Err == nil) == (n == "n77") {
			t.Errorf("%s: %+v", n, a)
		}
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "asked"))
	must(t, err)
	// All; groups of 5; those of the group of n77, each alone.
	if calls := strings.Count(string(text), "\n"); calls != 1+60+5 {
		t.Errorf("%d calls", calls)
	}
}

// What runs here needs no way to get here, by whatever name.
func TestOnNodes_ThisNode(t *testing.T) {
	l := newLab(t)
	script(t, filepath.Join(l.dir, "bin/ssh"), "exit 255")
	self, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := strings.Cut(self, ".")
	nodes := []string{"localhost", short, short + ".cluster", "n1"}
	if short != self {
		nodes[2] = self
	}
	got := l.job(t).OnNodes(t.Context(), nodes, time.Hour, "echo", "here")
	for _, n := range nodes[:3] {
		if a := got[n]; a.Err != nil || a.Out != "here" {
			t.Errorf("%s: %+v", n, a)
		}
	}
	if a := got["n1"]; a.Err == nil {
		t.Errorf("n1: %+v", a)
	}
}

// A line says for which nodes a command waits.
func TestOnNodes_SaysForWhomItWaits(t *testing.T) {
	l := newLab(t)
	defer func(usual time.Duration) { notice = usual }(notice)
	notice = time.Millisecond
	// n2 answers when the line is there.
	said := filepath.Join(l.dir, "said")
	script(t, filepath.Join(l.dir, "bin/ssh"), `case "$*" in *n2*) until [ -e `+said+` ]; do sleep 0.01; done ;; esac`)
	j := l.job(t)
	j.Out = writer(func(line string) {
		if strings.Contains(line, "to answer, each for 1h0m0s at most: ") {
			must(t, os.WriteFile(said, nil, 0o600))
		}
	})
	got := j.OnNodes(t.Context(), []string{"n1", "n2"}, time.Hour, "true")
	if got["n1"].failed() || got["n2"].failed() {
		t.Errorf("%v", got)
	}
}

type writer func(line string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func TestOnNodes_HangingNodeIsNotWaitedFor(t *testing.T) {
	l := newLab(t)
	script(t, filepath.Join(l.dir, "bin/ssh"), "exec sleep 1000")
	got := l.job(t).OnNodes(t.Context(), []string{"n1", "n2"}, 100*time.Millisecond, "true")
	if got["n1"].Err == nil || got["n2"].Err == nil {
		t.Errorf("%v", got)
	}
}

func TestJob_WhatTheCommandsPrint(t *testing.T) {
	l := newLab(t)
	t.Setenv("SCR_NODELIST", "a[1-2],a1")
	j := l.job(t)
	nodes, err := j.Nodes(t.Context())
	if err != nil || fmt.Sprint(nodes) != "[a1 a2]" {
		t.Error(nodes, err)
	}
	if id, err := j.ID(t.Context()); id != "job7" || err != nil {
		t.Error(id, err)
	}
	t.Setenv("SCR_JOB_ID", "")
	t.Setenv("SLURM_JOB_ID", "12")
	t.Setenv("SCR_RESOURCE_MANAGER", "")
	if id, err := l.job(t).ID(t.Context()); id != "12" || err != nil {
		t.Error(id, err)
	}
	if dir, err := j.Below(t.Context(), "/x", "me", "3"); dir != "/x/me/scr.3" || err != nil {
		t.Error(dir, err)
	}
	if n, err := j.NodesUsed(); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// If no node answers they are asked again, also if those that have answered were slow; else a node of several that does
// not answer is down.
func TestDown_AsksAgain(t *testing.T) {
	defer func(usual time.Duration) { slowAnswer = usual }(slowAnswer)
	for _, x := range []struct {
		refused string // nodes whose first connection fails
		slow    time.Duration
		down    int
	}{{"n1 n2 n3 n4", time.Hour, 0}, {"n1 n2 n3", time.Hour, 3}, {"n1 n2 n3", time.Nanosecond, 0}} {
		slowAnswer = x.slow
		l := newLab(t)
		for _, n := range strings.Fields(x.refused) {
			must(t, os.WriteFile(filepath.Join(l.dir, "refused."+n), nil, 0o600))
		}
		script(t, filepath.Join(l.dir, "bin/ssh"), `
			while [ "$1" = -n ] || [ "$1" = -o ]; do [ "$1" = -n ] || shift; shift; done
			! rm `+l.dir+`/refused.$1 2>/dev/null || { echo "ssh: connect to host $1 port 22: Connection timed out" >&2; exit 255; }
			shift; exec sh -c "$*"`)
		down, err := l.job(t).Down(t.Context(), []string{"n1", "n2", "n3", "n4"}, nil, false)
		if err != nil || len(down) != x.down {
			t.Errorf("first refused %s, answers slow after %v: down %v, %v", x.refused, x.slow, down, err)
		}
	}
}
