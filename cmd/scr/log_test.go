package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/observe/report"
	"github.com/goscr/goscr/test/sample"
)

// The test binary is every command by whose name it is called, as the recorder of
// the logs of tests is, and those that a command starts here or on nodes.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "scr" || findCommand(name) != nil {
		main()
	}
	if len(os.Args) > 1 && findCommand("scr_"+os.Args[1]) != nil {
		os.Exit(execute(append([]string{"scr"}, os.Args[1:]...), &context{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
	}
	os.Exit(sample.Run(m))
}

// logEnv makes a prefix directory in which jobs and commands log.
func logEnv(t *testing.T, env ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".scr"), 0o777))
	for _, e := range append([]string{"SCR_PREFIX=" + dir, "SCR_LOG_ENABLE=1", "SCR_LOG_SYSLOG_ENABLE=0", "SCR_LOG_TXT_ENABLE=1",
		"SCR_LOG_DB_ENABLE=1", "SCR_NODE_NAME=node0", "SCR_JOB_ID=job1", "SCR_USER_NAME=user1", "SCR_JOB_NAME="}, env...) {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	return dir
}

func TestLogCommands(t *testing.T) {
	dir := logEnv(t)
	run(t, 0, "scr_log_event", "-T", "NODE_FAIL", "-N", "node7: ping", "-i", "job2", "-u", "other", "-j", "heat", "-p", dir)
	run(t, 0, "scr_log_event", "--type", "SCAVENGE_START", "-D", "5", "-S", "1700000000", "-L", "2.5", "-n", "ckpt.5")
	run(t, 0, "scr", "log_transfer", "-T", "SCAVENGE", "-X", "/from", "-Y", "/to", "-d", "5", "-S", "1700000000", "-L", "2",
		"-B", "1e9", "-F", "12")
	run(t, 0, "scr_log_event", "-T", "RUN_END", "--run", "2", "--status", "0", "--signal", "9", "--nodes", "3", "--ranks", "12",
		"--nodelist", "n[0-2]", "--time", "1700000000.25", "-N", "why")
	out, said := run(t, 0, "scr_log_transfer", "-T", "BARE")
	if out != "" || said != "" {
		t.Errorf("%q %q", out, said)
	}
	text, err := os.ReadFile(eventlog.TextFile(dir))
	must(t, err)
	start := "2023-11-14T22:13:20.000000Z"
	want := []string{`host=node0, jobid=job2, event=NODE_FAIL, note="node7: ping"`,
		`host=node0, jobid=job1, event=SCAVENGE_START, dset=5, name="ckpt.5", start=` + start + `, secs=2.500000`,
		`host=node0, jobid=job1, xfer=SCAVENGE, from="/from", to="/to", dset=5, start=` + start + `, secs=2.000000, bytes=1000000000, files=12`,
		`host=node0, jobid=job1, event=RUN_END, note="why", run=2, status=0, signal=9, nodes=3, ranks=12, nodelist="n[0-2]"`,
		`host=node0, jobid=job1, xfer=BARE`}
	var got []string
	for line := range strings.Lines(string(text)) {
		when, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if _, err := time.Parse("2006-01-02T15:04:05.000000Z", when); err != nil {
			t.Error(err)
		}
		got = append(got, rest)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := count(t, dir, "SELECT count(*) FROM events JOIN jobs ON jobs.id = job_id WHERE username = 'other' AND jobid = 'job2'"); n != 1 {
		t.Errorf("%d events of the other job", n)
	}
	if n := count(t, dir, "SELECT count(*) FROM runs WHERE run = 2 AND status = 0 AND signum = 9 AND ranks = 12 AND time = '2023-11-14 22:13:20.250000'"); n != 1 {
		t.Errorf("%d runs", n)
	}
	if n := count(t, dir, "SELECT count(*) FROM transfers WHERE bytes = 1000000000 AND files = 12 OR bytes IS NULL"); n != 2 {
		t.Errorf("%d transfers", n)
	}
}

func TestLogCommands_Misused(t *testing.T) {
	dir := logEnv(t)
	for _, argv := range [][]string{
		{"scr_log_event"}, {"scr_log_event", "-N", "note"}, {"scr_log_event", "-T", "A", "argument"},
		{"scr_log_event", "-T", "A", "-S", "yesterday"}, {"scr_log_event", "-T", "A", "-L", "NaN"}, {"scr_log_event", "-T", "A", "-S", "NaN"},
		{"scr_log_event", "-T", "A", "-X", "/"}, {"scr_log_event", "-T", "A", "-d", "x"},
		{"scr_log_transfer", "-X", "/"}, {"scr_log_transfer", "-T", "A", "-N", "note"},
		{"scr_log_transfer", "-T", "A", "-B", "-1"}, {"scr_log_transfer", "-T", "A", "-B", "NaN"}, {"scr_log_transfer", "-T", "A", "-F", "-1"},
		{"scr_log_recorder", "argument"}, {"scr_log_recorder"},
	} {
		if out, said := run(t, 2, argv...); out != "" || said == "" {
			t.Errorf("%q: output %q, error %q", argv, out, said)
		}
	}
	if names, err := os.ReadDir(filepath.Join(dir, ".scr")); err != nil || len(names) != 0 {
		t.Errorf("%v %v", names, err)
	}
	t.Setenv("SCR_LOG_ENABLE", "0")
	if out, said := run(t, 0, "scr_log_event", "-T", "A"); out+said != "" {
		t.Errorf("%q %q", out, said)
	}
	t.Setenv("SCR_LOG_ENABLE", "1")
	if _, said := run(t, 1, "scr_log_event", "-T", "A", "-p", filepath.Join(dir, "none")); !strings.Contains(said, "none/.scr/log") {
		t.Error(said)
	}
}

func TestVersion(t *testing.T) {
	for _, argv := range [][]string{{"scr", "--version"}, {"scr", "version"}} {
		if out, _ := run(t, 0, argv...); !regexp.MustCompile(`^goscr \S+, with the interface of SCR v3\.1\.0\n$`).MatchString(out) {
			t.Errorf("%q", out)
		}
	}
}

// count is the number that a query of the database of a prefix directory gives.
func count(t *testing.T, dir, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", eventlog.DatabaseFile(dir))
	must(t, err)
	defer db.Close()
	must(t, db.QueryRow(query).Scan(&n))
	return n
}

// said is what a logger has written.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// recordedJob begins the log of a job that has a recorder in PATH.
func recordedJob(t *testing.T, env ...string) (dir string, l *eventlog.Log, told *said) {
	t.Helper()
	dir = logEnv(t, env...)
	self, err := os.Executable()
	must(t, err)
	bin := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(bin, eventlog.Command)))
	t.Setenv("PATH", bin)
	cfg, _, err := config.Read("")
	must(t, err)
	told = &said{}
	return dir, eventlog.Open(cfg, &report.Logger{Out: told, Node: "node0"}, nil), told
}

// recorders are the processes that log to a prefix directory.
func recorders(dir string) (pids []int) {
	environ, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environ {
		proc := filepath.Dir(path)
		env, err1 := os.ReadFile(path)
		args, err2 := os.ReadFile(filepath.Join(proc, "cmdline"))
		pid, err3 := strconv.Atoi(filepath.Base(proc))
		if errors.Join(err1, err2, err3) == nil && bytes.HasPrefix(args, []byte(eventlog.Command+"\x00")) &&
			slices.Contains(strings.Split(string(env), "\x00"), "SCR_PREFIX="+dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hasEnded reports whether a process has closed all that it had open. Its arguments are
// gone before that, and its first thread may have ended before others.
func hasEnded(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	return err != nil || bytes.Contains(status, []byte("\nState:\tZ")) && len(threads) == 1
}

// until waits for something, however long it takes on a loaded machine: go test ends a
// test that waits for good, and says what for.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	t.Log("waiting: " + what)
	for !f() {
		time.Sleep(time.Millisecond)
	}
}

func TestRecorder(t *testing.T) {
	file, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // for children, as MPIs open theirs
	must(t, err)
	defer unix.Close(file)
	// As in a library whose threads leave signals to the program.
	runtime.LockOSThread()
	blocked, before := unix.Sigset_t{}, unix.Sigset_t{}
	for i := range blocked.Val {
		blocked.Val[i] = ^blocked.Val[i]
	}
	must(t, unix.PthreadSigmask(unix.SIG_SETMASK, &blocked, &before))
	dir, l, told := recordedJob(t)
	must(t, unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil))
	runtime.UnlockOSThread()
	const events = 50
	for i := range events {
		l.Add(eventlog.Record{Type: "A", Dataset: i + 1})
	}
	pids := recorders(dir)
	if len(pids) != 1 {
		t.Fatalf("recorders: %v; %s", pids, told)
	}
	pid := pids[0]
	// The job has no child, whatever it is waited for with.
	if child, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("the job has a child: %d, %v", child, err)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d, %v", sid, err)
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || cwd != "/" {
		t.Errorf("works in %s, %v", cwd, err)
	}
	until(t, "it blocks no signal", func() bool { // as Go does for moments
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return err == nil && strings.Contains(string(status), "\nSigBlk:\t0000000000000000\n")
	})
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	for _, fd := range fds {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if err == nil && to == "/dev/null" {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
	l.Close() // which does not wait for a slow disk, as the recorder does
	until(t, "the recorder ends", func() bool { return len(recorders(dir)) == 0 })
	if n := count(t, dir, "SELECT count(DISTINCT dset) FROM events"); n != events {
		t.Errorf("%d events; %s", n, told)
	}
}

func TestRecorder_IsKilled(t *testing.T) {
	dir, l, told := recordedJob(t)
	var pids []int // a moment after its start it has other arguments
	until(t, "it is there", func() bool { pids = recorders(dir); return len(pids) == 1 })
	must(t, syscall.Kill(pids[0], syscall.SIGKILL))
	until(t, "it is gone", func() bool { return hasEnded(pids[0]) })
	for range 10 {
		l.Add(eventlog.Record{Type: "A"}) // raises no SIGPIPE, which would end this process
	}
	l.Close()
	if n := strings.Count(told.String(), "\n"); n != 1 || !strings.Contains(told.String(), "no more events are logged to the database") {
		t.Errorf("%s", told)
	}
	if text, err := os.ReadFile(eventlog.TextFile(dir)); err != nil || strings.Count(string(text), "\n") != 10 {
		t.Errorf("the text log is %q, %v", text, err)
	}
}

// A server that lets one connect and never says a word.
func TestRecorder_DatabaseHangs(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dir, l, told := recordedJob(t, "SCR_LOG_DB_HOST="+server.Addr().String())
	for range 10 {
		l.Add(eventlog.Record{Type: "A"})
	}
	l.Close()
	if !strings.Contains(told.String(), "the database has not taken all events within") {
		t.Errorf("%s", told)
	}
	if text, err := os.ReadFile(eventlog.TextFile(dir)); err != nil || strings.Count(string(text), "\n") != 10 {
		t.Errorf("the text log is %q, %v", text, err)
	}
	must(t, server.Close())
	until(t, "the recorder ends by itself", func() bool { return len(recorders(dir)) == 0 })
}

func TestRecorder_TellsWhatIsWrong(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone.Close()
	_, l, told := recordedJob(t, "SCR_LOG_DB_HOST="+gone.Addr().String())
	l.Add(eventlog.Record{Type: "A"})
	l.Close()
	for _, want := range []string{"connection refused", gone.Addr().String(), "1 events from A on are not in the database"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("no %q in %s", want, told)
		}
	}
}

func TestRecorder_CannotBeStarted(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := logEnv(t)
	cfg, _, err := config.Read("")
	must(t, err)
	for _, c := range []struct{ script, want string }{
		{"", "there is no command " + eventlog.Command},
		{"#!/bin/sh\necho it is broken >&2\nexit 3\n", "exit status 3: it is broken"},
		{"not a program", "exec format error"},
	} {
		if c.script != "" {
			path := filepath.Join(os.Getenv("PATH"), eventlog.Command)
			must(t, os.RemoveAll(path))
			must(t, os.WriteFile(path, []byte(c.script), 0o755))
		}
		told := &said{}
		l := eventlog.Open(cfg, &report.Logger{Out: told}, nil)
		l.Add(eventlog.Record{Type: "A"})
		l.Close()
		if !strings.Contains(told.String(), c.want) {
			t.Errorf("no %q in %s", c.want, told)
		}
	}
	if text, err := os.ReadFile(eventlog.TextFile(dir)); err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("the text log is %q, %v", text, err)
	}
}
