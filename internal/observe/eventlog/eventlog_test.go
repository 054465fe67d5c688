package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/observe/report"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load is the configuration of a job in dir with these settings, NAME=value.
func load(t testing.TB, dir string, settings ...string) *config.Config {
	t.Helper()
	env := map[string]string{"SCR_PREFIX": dir, "SCR_LOG_ENABLE": "1", "SCR_LOG_SYSLOG_ENABLE": "0",
		"SCR_NODE_NAME": "node0", "SCR_JOB_ID": "job1", "SCR_USER_NAME": "user1"}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		env[name] = value
	}
	must(t, os.MkdirAll(filepath.Join(dir, ".scr"), 0o777))
	cfg, _, err := config.Load(nil, nil, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	must(t, err)
	return cfg
}

// lines collects the output of a logger for a test.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func logger() (*report.Logger, *lines) {
	l := &lines{}
	return &report.Logger{Out: l, Node: "node0"}, l
}

func TestRecord_Line(t *testing.T) {
	when := time.Date(2026, 11, 21, 0, 1, 55, 250e3, time.UTC)
	seconds := 1.25
	job := Job{Host: "node0", ID: "job1"}
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Record{Type: "CHECKPOINT_START", Note: "/tmp", Dataset: 1, Name: "ckpt.1"},
			`event=CHECKPOINT_START, note="/tmp", dset=1, name="ckpt.1"`},
		{Record{Type: "INIT_END", Start: when, Seconds: &seconds}, `event=INIT_END, start=2026-11-21T00:01:55.000250Z, secs=1.250000`},
		{Record{Transfer: true, Type: "FLUSH", From: "/dev/shm", To: "/p", Dataset: 7, Name: "x", Start: when, Seconds: &seconds,
			Bytes: Count(1 << 40), Files: Count(0)},
			`xfer=FLUSH, from="/dev/shm", to="/p", dset=7, name="x", start=2026-11-21T00:01:55.000250Z, secs=1.250000, bytes=1099511627776, files=0`},
		{Record{Type: "A B", Note: "two\nlines, \"quoted\", \x00 \xff é", Name: `back\slash`},
			`event="A B", note="two\nlines, \"quoted\", \x00 \xff é", name="back\\slash"`},
		{Record{Type: "ENCODE", Dataset: 7, Name: "x", Bytes: Count(5), Spread: &Spread{Least: .5, Median: 1, Most: 2.25, Rank: 3, Node: "<b>, n"}},
			`phase=ENCODE, dset=7, name="x", bytes=5, least=0.500000, median=1.000000, most=2.250000, rank=3, node="<b>, n"`},
		{Record{Type: "RUN_END", Note: "why", Start: when, Run: &Run{Number: 2, Status: new(int), Signal: 9, Nodes: 3, Ranks: 12, NodeList: "n[0,2-3]"}},
			`event=RUN_END, note="why", start=2026-11-21T00:01:55.000250Z, run=2, status=0, signal=9, nodes=3, ranks=12, nodelist="n[0,2-3]"`},
	} {
		c.r.Time, c.r.Job = when, job
		if got, want := c.r.Line(), "2026-11-21T00:01:55.000250Z: host=node0, jobid=job1, "+c.want; got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if back, err := Parse(c.r.Line()); err != nil || !reflect.DeepEqual(back, c.r) {
			t.Errorf("%s is read as %+v, %v", c.r.Line(), back, err)
		}
	}
	r := Record{Job: Job{Host: "a,b", ID: "x\ny"}, Type: "T"}
	if got, want := r.Text(), `host="a,b", jobid="x\ny", event=T`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLog_TextFile(t *testing.T) {
	dir := t.TempDir()
	log, said := logger()
	for range 2 {
		l := Open(load(t, dir), log, nil)
		l.Add(Record{Type: "A"})
		l.Add(Record{Type: "B", Dataset: 3})
		l.Close()
		l.Add(Record{Type: "TOO_LATE"})
		l.Close()
	}
	text, err := os.ReadFile(TextFile(dir))
	must(t, err)
	line := `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z: host=node0, jobid=job1, event=`
	if !regexp.MustCompile(`^(` + line + "A\n" + line + "B, dset=3\n){2}$").Match(text) {
		t.Errorf("%s", text)
	}
	if said.String() != "" {
		t.Error(said)
	}
}

func TestLog_IsOff(t *testing.T) {
	dir := t.TempDir()
	log, said := logger()
	for _, off := range []string{"SCR_LOG_ENABLE=0", "SCR_LOG_TXT_ENABLE=0"} {
		l := Open(load(t, dir, off), log, nil)
		l.Add(Record{Type: "A"})
		l.Close()
	}
	if names, err := os.ReadDir(filepath.Join(dir, ".scr")); err != nil || len(names) != 0 || said.String() != "" {
		t.Errorf("%v %v %s", names, err, said)
	}
}

func TestLog_CannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	log, said := logger()
	l := Open(load(t, dir), log, nil)
	must(t, os.Mkdir(TextFile(dir), 0o777))
	for range 100 {
		l.Add(Record{Type: "A"})
	}
	l.Close()
	if n := strings.Count(said.String(), "\n"); n != 1 || !strings.Contains(said.String(), TextFile(dir)) {
		t.Error(said)
	}
}

// server is a syslog daemon.
func server(t *testing.T) (path string, receive func() string) {
	path = filepath.Join(t.TempDir(), "socket")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return path, func() string {
		buf := make([]byte, 1<<16)
		n, err := c.Read(buf)
		must(t, err)
		return string(buf[:n])
	}
}

func TestLog_Syslog(t *testing.T) {
	socket, receive := server(t)
	dir := t.TempDir()
	log, said := logger()
	on := []string{"SCR_LOG_SYSLOG_ENABLE=1", "SCR_LOG_SYSLOG_SOCKET=" + socket, "SCR_LOG_TXT_ENABLE=0"}
	l := Open(load(t, dir, on...), log, nil)
	l.Add(Record{Type: "A", Name: "ckpt"})
	l.Close()
	// 23, which is local7, times 8 plus 6, which is info.
	want := fmt.Sprintf(`^<190>.* SCR\[%d\]: host=node0, jobid=job1, event=A, name="ckpt"\n$`, os.Getpid())
	if got := receive(); !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("%q, want %s", got, want)
	}
	on = append(on, "SCR_LOG_SYSLOG_PREFIX=me", "SCR_LOG_SYSLOG_FACILITY=log_local0", "SCR_LOG_SYSLOG_LEVEL=LOG_ERR")
	must(t, Once(load(t, dir, on...), Record{Type: "B"}, nil))
	if got := receive(); !strings.HasPrefix(got, "<131>") || !strings.Contains(got, " me[") {
		t.Errorf("%q", got)
	}
	if said.String() != "" {
		t.Error(said)
	}
	for _, name := range config.SyslogFacilities {
		if _, ok := facilities[name]; !ok {
			t.Errorf("facility %s is accepted and not known", name)
		}
	}
	for _, name := range config.SyslogLevels {
		if _, ok := levels[name]; !ok {
			t.Errorf("level %s is accepted and not known", name)
		}
	}
}

func TestLog_NoSyslog(t *testing.T) {
	dir := t.TempDir()
	log, said := logger()
	on := []string{"SCR_LOG_SYSLOG_ENABLE=1", "SCR_LOG_SYSLOG_SOCKET=" + filepath.Join(dir, "none")}
	cfg := load(t, dir, on...)
	l := Open(cfg, log, nil)
	l.Add(Record{Type: "A"})
	l.Close()
	if !strings.Contains(said.String(), "SCR_LOG_SYSLOG_ENABLE=0") {
		t.Error(said)
	}
	if err := Once(cfg, Record{Type: "B", Job: JobOf(cfg)}, nil); err == nil {
		t.Error("no error of a command")
	}
	if text, err := os.ReadFile(TextFile(dir)); err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("the other log does not continue: %s, %v", text, err)
	}
	// Without SCR_LOG_SYSLOG_ENABLE in the settings there is no warning.
	said.b.Reset()
	cfg = load(t, dir, "SCR_LOG_SYSLOG_ENABLE=", on[1])
	Open(cfg, log, nil).Close()
	if err := Once(cfg, Record{Type: "B", Job: JobOf(cfg)}, nil); err != nil || said.String() != "" {
		t.Error(err, said)
	}
}

// stuck is a sink that does not return from Write until release is closed.
type stuck struct{ release chan struct{} }

func (s stuck) Write(Record) error { <-s.release; return nil }
func (s stuck) Close() error       { return nil }

func TestLog_DoesNotWaitForASlowSink(t *testing.T) {
	log, said := logger()
	s := stuck{make(chan struct{})}
	l := &Log{report: log, patience: 10 * time.Millisecond}
	l.add("the slow one", s)
	l.add("another", stuck{s.release})
	const n = backlog + 100
	for range n {
		l.Add(Record{Type: "A"}) // would hang here
	}
	l.Close() // or here
	close(s.release)
	for _, want := range []string{"the slow one was too slow", "the slow one has not taken all events", "another has not taken"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

func TestOnce_AllErrors(t *testing.T) {
	dir := t.TempDir()
	cfg := load(t, dir, "SCR_LOG_DB_ENABLE=1", "SCR_LOG_DB_HOST=db:99", "SCR_LOG_DB_PASS=secret")
	if at := DatabaseOf(load(t, dir, "SCR_LOG_DB_USER=me", "SCR_LOG_DB_NAME=jobs", "SCR_LOG_DB_DEBUG=1")); at.User != "me" || at.Name != "jobs" || !at.Debug {
		t.Errorf("%+v", at)
	}
	must(t, os.Mkdir(TextFile(dir), 0o777))
	none := errors.New("no database")
	err := Once(cfg, Record{Type: "A", Job: JobOf(cfg)}, func(at Database) (Sink, error) {
		if at.Host != "db:99" || at.Password != "secret" || at.User == "" || at.Name != "scrlog" || at.Debug || at.File != DatabaseFile(dir) {
			t.Errorf("%+v", at)
		}
		return nil, none
	})
	if !errors.Is(err, none) || !strings.Contains(err.Error(), TextFile(dir)) {
		t.Error(err)
	}
}

func TestParse_OldLines(t *testing.T) {
	r, err := Parse(`2026-11-21T00:01:56: host=node0, jobid=job1, xfer=FLUSH, from="/dev/shm", to="/p", dset=1, name="ckpt.1", start=2026-11-21T00:01:55, secs=0.912000, bytes=8589934592, files=256`)
	must(t, err)
	if want := time.Date(2026, 11, 21, 0, 1, 56, 0, time.Local); !r.Time.Equal(want) || !r.Start.Equal(want.Add(-time.Second)) ||
		!r.Transfer || *r.Files != 256 || r.To != "/p" {
		t.Errorf("%+v", r)
	}
	for _, bad := range []string{"", "\n", "x", "2026-11-21T00:01:56: ", "2026-11-21T00:01:56: hello", "2026-13-21T00:01:56: event=A",
		`2026-11-21T00:01:56: event="A`, `2026-11-21T00:01:56: event="A"B`, "2026-11-21T00:01:56: event=A, secs=NaN",
		"2026-11-21T00:01:56: event=A, dset=x", "2026-11-21T00:01:56: host=a, jobid=b", "2026-11-21T00:01:56: event=A, start=now"} {
		if r, err := Parse(bad); !errors.Is(err, ErrForeign) {
			t.Errorf("%q: %+v, %v", bad, r, err)
		}
	}
}

// A log that is too large or too old is renamed, and four older ones are kept.
func TestLog_Rotates(t *testing.T) {
	dir := t.TempDir()
	log, said := logger()
	l := Open(load(t, dir, "SCR_LOG_MAX_SIZE=1000"), log, nil)
	const n = 100
	for i := range n {
		l.Add(Record{Type: "A", Dataset: i + 1, Note: strings.Repeat("x", 150)})
	}
	l.Close()
	next := n
	for i := range Rotated + 1 {
		text, err := os.ReadFile(Rotation(TextFile(dir), i))
		if i == 0 && os.IsNotExist(err) {
			continue // the last line has filled a log
		}
		must(t, err)
		if i > 0 && (len(text) < 1000 || len(text) > 1300) {
			t.Errorf("log.%d has %d bytes", i, len(text))
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for j := len(lines) - 1; j >= 0; j-- {
			if r, err := Parse(lines[j]); err != nil || r.Dataset != next {
				t.Fatalf("log.%d: %s, want dataset %d", i, lines[j], next)
			}
			next--
		}
	}
	if list, _ := filepath.Glob(filepath.Join(dir, ".scr", "log.[0-9]*")); len(list) != Rotated || said.String() != "" {
		t.Error(list, said)
	}

	old := t.TempDir()
	cfg := load(t, old, "SCR_LOG_MAX_AGE=3600")
	line := (&Record{Time: time.Now().Add(-2 * time.Hour), Type: "OLD"}).Line() + "\n"
	must(t, os.WriteFile(TextFile(old), []byte(line), 0o600))
	must(t, Once(cfg, Record{Time: time.Now(), Job: JobOf(cfg), Type: "NEW"}, nil))
	must(t, Once(cfg, Record{Time: time.Now(), Job: JobOf(cfg), Type: "NEWER"}, nil))
	if text, err := os.ReadFile(Rotation(TextFile(old), 1)); err != nil || string(text) != line {
		t.Errorf("%s, %v", text, err)
	}
	if text, err := os.ReadFile(TextFile(old)); err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%s, %v", text, err)
	}
}

// panics is a sink that panics at every second record, and when it is closed.
type panics struct{ got int }

func (p *panics) Write(Record) error {
	if p.got++; p.got%2 == 0 {
		panic("no such record")
	}
	return nil
}

func (p *panics) Close() error { panic("closed twice") }

// A sink that panics does not end the program: it says so, and takes the other records.
func TestLog_SinkPanics(t *testing.T) {
	log, said := logger()
	l := &Log{report: log, patience: time.Hour}
	sink := &panics{}
	l.add("it", sink)
	for range 6 {
		l.Add(Record{Type: "INIT_START"})
	}
	l.Close()
	if sink.got != 6 {
		t.Errorf("%d records have come, want 6", sink.got)
	}
	for _, want := range []string{"internal error: no such record", "internal error: closed twice"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}
