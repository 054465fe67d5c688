package mover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/lifecycle/background"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/prefix/transfer"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/lock"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node has files in its cache, and a prefix directory that wants them.
type node struct {
	t                      *testing.T
	control, cache, prefix string
}

func newNode(t *testing.T) *node {
	dir := t.TempDir()
	n := &node{t, filepath.Join(dir, "control"), filepath.Join(dir, "cache"), filepath.Join(dir, "prefix")}
	for _, d := range []string{n.control, n.cache, n.prefix} {
		must(t, os.Mkdir(d, 0o700))
	}
	return n
}

// load makes a load of some files, each of so many bytes, of a dataset that is on its
// way.
func (n *node) load(id, rank, files, size int) *Request {
	n.t.Helper()
	d := dataset.New(id, fmt.Sprintf("ckpt.%d", id), dataset.Checkpoint, id, dataset.Owner{}, time.Unix(1000, 0))
	must(n.t, prefix.Locate(n.prefix, d, prefix.Flushing, true))
	must(n.t, os.MkdirAll(prefix.Dir(n.prefix, id), 0o700))
	var list []redundancy.File
	for i := range files {
		name := fmt.Sprintf("ckpt.%d/rank_%d.%d", id, rank, i)
		path := filepath.Join(n.cache, name)
		must(n.t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(n.t, os.WriteFile(path, bytes.Repeat([]byte{byte(id + rank + i)}, size), 0o600))
		md := meta.New(name, meta.Full, 2)
		must(n.t, md.Record(path))
		md.SetComplete(true)
		list = append(list, redundancy.File{Path: path, Meta: md})
	}
	return NewRequest(d, rank, 2, n.prefix, list)
}

// eventually returns when done is true, however long that takes: go test ends a test that
// makes no progress.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		time.Sleep(time.Millisecond)
	}
}

// check fails the test unless all of a load has arrived.
func (n *node) check(l *Request) {
	n.t.Helper()
	part, err := prefix.ReadPart(n.prefix, l.Dataset.ID(), l.Rank)
	must(n.t, err)
	if len(part.Files) != len(l.Files) || part.Ranks != 2 {
		n.t.Errorf("a list of %d files, %d ranks", len(part.Files), part.Ranks)
	}
	for _, f := range l.Files {
		want, err := os.ReadFile(f.Path)
		must(n.t, err)
		if got, err := os.ReadFile(l.destination(f)); err != nil || !bytes.Equal(got, want) {
			n.t.Errorf("%s: %d bytes of %d, %v", f.Path, len(got), len(want), err)
		}
	}
}

// destination is where a file is when it has been copied.
func (r *Request) destination(f redundancy.File) string {
	return r.aside(filepath.Join(r.Prefix, f.Meta.File()))
}

func (n *node) read() *hash.Hash {
	n.t.Helper()
	h, err := hash.ReadFile(filePath(n.control))
	must(n.t, err)
	return h
}

// served is a Daemon with servers in this process.
func (n *node) served() (d *Daemon, wait func()) {
	var wg sync.WaitGroup
	return &Daemon{Control: n.control, First: true, Manner: Manner{Buffer: 100}, Launch: func(control string) error {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := (&Server{Control: control}).Run(); err != nil {
				n.t.Error(err)
			}
		}()
		return nil
	}}, wg.Wait
}

// The transfer file has the keys of the manual of SCR 1.1, and a server does what it says.
func TestServer_CopiesWhatTheFileSays(t *testing.T) {
	n := newNode(t)
	d := &Daemon{Control: n.control, Manner: Manner{Buffer: 64}}
	a, b, none := n.load(1, 0, 3, 1000), n.load(2, 0, 1, 0), n.load(1, 1, 0, 0)
	a.Limits = transfer.Limits{Bandwidth: 52428800, CPU: 0.5}
	b.Limits, none.Limits = a.Limits, a.Limits
	for _, l := range []*Request{b, a, none} {
		_, err := d.Start(l)
		must(t, err)
	}
	h := n.read()
	path := a.Files[0].Path
	for key, want := range map[string]string{keyCommand: "RUN", keyBandwidth: "52428800.000000", keyPercent: "50.000000", keyFlag: ""} {
		if got := h.Text(key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if e := h.Get("FILES", path); e.Text("DESTINATION") != filepath.Join(n.prefix, a.Files[0].Meta.File()) || e.Text("SIZE") != "1000" || e.Text("WRITTEN") != "0" {
		t.Errorf("%v", e)
	}
	must(t, (&Server{Control: n.control}).Run())
	for _, l := range []*Request{a, b, none} {
		n.check(l)
	}
	h = n.read()
	if h.Text(keyFlag) != "DONE" || h.Text(keyState) != "STOPPED" || h.Get("FILES", path).Text("WRITTEN") != "1000" {
		t.Errorf("FLAG %q, STATE %q, WRITTEN %q", h.Text(keyFlag), h.Text(keyState), h.Get("FILES", path).Text("WRITTEN"))
	}
	if running(n.control) {
		t.Error("its lock is held")
	}
}

// What has been copied is not copied again.
func TestServer_GoesOnWhereOneWasKilled(t *testing.T) {
	n := newNode(t)
	l := n.load(1, 0, 3, 500)
	_, err := (&Daemon{Control: n.control}).Start(l)
	must(t, err)
	done := l.destination(l.Files[1])
	must(t, os.MkdirAll(filepath.Dir(done), 0o700))
	must(t, os.WriteFile(done, bytes.Repeat([]byte{2}, 500), 0o600))
	must(t, os.WriteFile(l.destination(l.Files[0]), []byte("half"), 0o600))
	must(t, hash.Update(filePath(n.control), func(h *hash.Hash) error {
		recordWritten(h, []string{l.Files[1].Path})
		h.SetValue(keyState, stateRunning)
		return nil
	}))
	before, err := os.Stat(done)
	must(t, err)
	must(t, (&Server{Control: n.control}).Run())
	n.check(l)
	if after, err := os.Stat(done); err != nil || !os.SameFile(before, after) {
		t.Errorf("copied again: %v", err)
	}
	if all, _ := os.ReadDir(filepath.Dir(done)); len(all) != len(l.Files) {
		t.Errorf("left behind: %v", all)
	}
}

// The copy of an empty file is there before it has the mode and times of the original, and is not
// taken for finished if the process was killed in between.
func TestServer_GoesOnWithAnEmptyFile(t *testing.T) {
	n := newNode(t)
	l := n.load(1, 0, 1, 0)
	from := l.Files[0]
	written := time.Unix(1_000_000_000, 17)
	must(t, os.Chmod(from.Path, 0o640))
	must(t, os.Chtimes(from.Path, written, written))
	must(t, from.Meta.Record(from.Path))
	_, err := (&Daemon{Control: n.control}).Start(l)
	must(t, err)
	to := l.destination(from)
	must(t, os.MkdirAll(filepath.Dir(to), 0o700))
	must(t, os.WriteFile(to, nil, 0o600))
	must(t, (&Server{Control: n.control}).Run())
	n.check(l)
	if info, err := os.Stat(to); err != nil || !info.ModTime().Equal(written) || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}

// What does not say what it is is passed over, and what goes nowhere fails.
func TestServer_Nonsense(t *testing.T) {
	n := newNode(t)
	for id := 1; id <= 4; id++ {
		_, err := (&Daemon{Control: n.control}).Start(n.load(id, 0, 1, 10))
		must(t, err)
	}
	must(t, hash.Update(filePath(n.control), func(h *hash.Hash) error {
		h.Get(keyDataset, "1").Unset(keyDesc)
		h.Get(keyDataset, "2").Unset(keyPrefix)
		h.Unset(keyFiles)
		h.At(keyDataset, "4", keyRank, "1") // without files, as a rank may be
		return nil
	}))
	must(t, (&Server{Control: n.control}).Run())
	for id, want := range map[int]bool{1: false, 2: true, 3: true, 4: true} {
		if ended, err := outcome(n.read(), id, 0); ended != want || ended && err == nil {
			t.Errorf("dataset %d: %v, %v", id, ended, err)
		}
	}
	if ended, err := outcome(n.read(), 4, 1); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
}

func TestServer_OneOnANode(t *testing.T) {
	n := newNode(t)
	f, err := lock.Try(lockPath(n.control), lock.Exclusive)
	must(t, err)
	l := n.load(1, 0, 1, 10)
	_, err = (&Daemon{Control: n.control}).Start(l)
	must(t, err)
	must(t, (&Server{Control: n.control}).Run())
	if _, err := prefix.ReadPart(n.prefix, 1, 0); err == nil {
		t.Error("it has copied, beside another")
	}
	f.Release()
	must(t, (&Server{Control: n.control}).Run())
	n.check(l)
}

// A file that nobody wants any more does not get its name.
func TestServer_WhatIsNotWanted(t *testing.T) {
	n := newNode(t)
	l := n.load(1, 0, 1, 10)
	x, err := (&Daemon{Control: n.control}).Start(l)
	must(t, err)
	must(t, prefix.Locate(n.prefix, l.Dataset, prefix.Flushing, false))
	var said error
	must(t, (&Server{Control: n.control, Warn: func(err error) { said = err }}).Run())
	if _, err := os.Lstat(l.destination(l.Files[0])); err == nil || said == nil {
		t.Errorf("%v; said %v", err, said)
	}
	if !x.Ended() || x.Wait() == nil {
		t.Error("it has not failed")
	}
}

// One that is stopped before it has begun does not hold up those behind it.
func TestThreads_StoppedBeforeItHasBegun(t *testing.T) {
	n := newNode(t)
	m := &Threads{Queue: &background.Queue{}, Copier: func(dataset.Dataset) *transfer.Copier { return transfer.NewCopier(100) }}
	first, err := m.Start(n.load(1, 0, 1, 100))
	must(t, err)
	l := n.load(2, 0, 1, 100)
	second, err := m.Start(l)
	must(t, err)
	must(t, second.Begin())
	if second.Ended() {
		t.Error("the second has not waited for the first")
	}
	must(t, first.Cancel())
	if err := first.Wait(); !errors.Is(err, transfer.ErrStopped) {
		t.Error(err)
	}
	must(t, second.Wait())
	n.check(l)
}

// resting lets whoever begins to copy rest for so long first.
func resting(t *testing.T, d time.Duration) {
	before := background.Delay
	background.Delay = d
	t.Cleanup(func() { background.Delay = before })
}

// nothing fails the test if anything of a load has arrived.
func (n *node) nothing(l *Request) {
	n.t.Helper()
	if _, err := os.Lstat(filepath.Dir(l.destination(l.Files[0]))); !errors.Is(err, fs.ErrNotExist) {
		n.t.Errorf("something has been copied: %v", err)
	}
}

// Nothing is copied before the rest is over, which ends when somebody waits.
func TestThreads_Rest(t *testing.T) {
	resting(t, time.Hour)
	n := newNode(t)
	m := &Threads{Queue: &background.Queue{}, Copier: func(dataset.Dataset) *transfer.Copier { return transfer.NewCopier(100) }}
	begun := func(id int) (*Request, Transfer) {
		l := n.load(id, 0, 2, 1000)
		x, err := m.Start(l)
		must(t, err)
		must(t, x.Begin())
		return l, x
	}
	stopped, x := begun(1)
	must(t, x.Cancel())
	n.nothing(stopped)
	first, x := begun(2)
	second, y := begun(3)
	if x.Ended() || y.Ended() {
		t.Error("it has ended")
	}
	n.nothing(first)
	n.nothing(second)
	must(t, x.Wait())
	must(t, y.Wait()) // does not rest again
	n.check(first)
	n.check(second)
}

func TestServer_Rests(t *testing.T) {
	n := newNode(t)
	d := &Daemon{Control: n.control, Manner: Manner{Buffer: 100}}
	first, second := n.load(1, 0, 1, 100), n.load(1, 1, 1, 100)
	for _, l := range []*Request{first, second} {
		_, err := d.Start(l)
		must(t, err)
	}
	resting(t, time.Hour)
	ended := make(chan error)
	go func() { ended <- (&Server{Control: n.control}).Run() }()
	eventually(t, func() bool { return running(n.control) })
	n.nothing(first)
	must(t, Exit(n.control)) // also while it rests
	must(t, <-ended)
	n.nothing(first)
	background.Delay = 10 * time.Millisecond // once
	must(t, (&Server{Control: n.control}).Run())
	n.check(first)
	n.check(second)
}

func TestServer_StaysUntilToldToEnd(t *testing.T) {
	n := newNode(t)
	d := &Daemon{Control: n.control}
	ended := make(chan error)
	go func() {
		ended <- (&Server{Control: n.control, Stay: true, Poll: time.Millisecond, Alone: func() bool { return false }}).Run()
	}()
	eventually(t, func() bool { return running(n.control) })
	for id := 1; id <= 2; id++ {
		l := n.load(id, 0, 2, 100)
		x, err := d.Start(l)
		must(t, err)
		must(t, x.Begin())
		must(t, x.Wait())
		n.check(l)
		must(t, Forget(n.control, id))
	}
	must(t, Close(n.control)) // does not wait for it
	must(t, Exit(n.control))
	must(t, <-ended)
	must(t, Exit(n.control)) // there is none
	must(t, Close(n.control))
	if _, err := os.Lstat(filePath(n.control)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// One that stays takes the place of one that does not, and not that of its like.
func TestServer_StaysAfterAnother(t *testing.T) {
	n := newNode(t)
	other, err := lock.Try(lockPath(n.control), lock.Exclusive)
	must(t, err)
	stay := func() chan error {
		ended := make(chan error, 1)
		go func() {
			ended <- (&Server{Control: n.control, Stay: true, Poll: time.Millisecond, Alone: func() bool { return false }}).Run()
		}()
		return ended
	}
	first := stay()
	l := n.load(1, 0, 2, 100)
	x, err := (&Daemon{Control: n.control, Launch: func(string) error { return nil }}).Start(l)
	must(t, err)
	other.Release()
	eventually(t, func() bool { return Stays(n.control) })
	must(t, x.Wait()) // by the first, as there is nobody else
	n.check(l)
	must(t, <-stay())
	if !running(n.control) {
		t.Error("two that stay have both ended")
	}
	must(t, Exit(n.control))
	must(t, <-first)
}

// One that waits to take the place of another ends with it.
func TestServer_WaitsAndIsToldToEnd(t *testing.T) {
	n := newNode(t)
	other, err := lock.Try(lockPath(n.control), lock.Exclusive)
	must(t, err)
	ended := make(chan error)
	go func() {
		ended <- (&Server{Control: n.control, Stay: true, Poll: 50 * time.Millisecond, Alone: func() bool { return false }}).Run()
	}()
	eventually(t, func() bool { return awaited(n.control) })
	other.Release() // nobody is at work now
	must(t, Exit(n.control))
	if running(n.control) || awaited(n.control) {
		t.Error("Exit has not waited for it")
	}
	must(t, <-ended)
}

// Whoever stays ends when it is told to, in the middle of a copy too.
func TestServer_StaysAndIsToldToEndWhileItCopies(t *testing.T) {
	n := newNode(t)
	ended := make(chan error)
	go func() {
		ended <- (&Server{Control: n.control, Stay: true, Poll: time.Millisecond, Alone: func() bool { return false }}).Run()
	}()
	eventually(t, func() bool { return running(n.control) })
	l := n.load(1, 0, 2, 1000)
	l.Limits.Bandwidth = 1
	x, err := (&Daemon{Control: n.control}).Start(l)
	must(t, err)
	must(t, x.Begin())
	eventually(t, func() bool { return n.read().Text(keyState) == stateRunning })
	must(t, Exit(n.control))
	must(t, <-ended)
}

// What one that was told to end has not copied, another does.
func TestServer_GoesOnWhereOneWasToldToEnd(t *testing.T) {
	n := newNode(t)
	d, wait := n.served()
	l := n.load(1, 0, 2, 1000)
	l.Limits.Bandwidth = 1
	x, err := d.Start(l)
	must(t, err)
	must(t, x.Begin())
	eventually(t, func() bool { return running(n.control) })
	must(t, Exit(n.control))
	wait()
	if n.read().Get(keyDataset, "1", keyRank, "0").Has(keyDone) {
		t.Fatal("it has copied all")
	}
	must(t, hash.Update(filePath(n.control), func(h *hash.Hash) error { h.SetValue(keyBandwidth, "0"); return nil }))
	must(t, (&Server{Control: n.control}).Run())
	n.check(l)
	must(t, x.Wait())
}

func TestServer_EndsWithWhoeverStartedIt(t *testing.T) {
	n := newNode(t)
	must(t, (&Server{Control: n.control, Stay: true, Poll: time.Millisecond, Alone: func() bool { return true }}).Run())
	must(t, (&Server{Control: filepath.Join(n.control, "none"), Stay: true, Poll: time.Millisecond, Alone: func() bool { return true }}).Run())
}

// Both movers: what is stopped is gone, and what was there before stays.
func TestStop(t *testing.T) {
	for _, kind := range []Kind{ByThread, ByDaemon} {
		t.Run(string(kind), func(t *testing.T) {
			n := newNode(t)
			d, wait := n.served()
			var m Mover = d
			if kind == ByThread {
				m = &Threads{Queue: &background.Queue{}, Copier: func(dataset.Dataset) *transfer.Copier { return transfer.NewCopier(100) }}
			}
			first, second := n.load(1, 0, 2, 1000), n.load(2, 0, 2, 1000)
			first.Limits.Bandwidth, second.Limits.Bandwidth = 1000, 1000
			old := filepath.Join(n.prefix, second.Files[1].Meta.File())
			must(t, os.MkdirAll(filepath.Dir(old), 0o700))
			must(t, os.WriteFile(old, []byte("of another dataset"), 0o600))
			must(t, os.Chtimes(old, time.Unix(1000, 0), time.Unix(1000, 0)))
			var list []Transfer
			for _, l := range []*Request{first, second} {
				x, err := m.Start(l)
				must(t, err)
				list = append(list, x)
				must(t, x.Begin())
			}
			for _, x := range list {
				must(t, x.Cancel())
			}
			for _, f := range append(first.Files, second.Files[0]) {
				for _, path := range []string{filepath.Join(n.prefix, f.Meta.File()), first.destination(f)} {
					if _, err := os.Lstat(path); err == nil {
						t.Errorf("%s is there", path)
					}
				}
			}
			if data, _ := os.ReadFile(old); string(data) != "of another dataset" {
				t.Errorf("what was there is now %q", data)
			}
			must(t, Close(n.control))
			wait()
		})
	}
}

// A run begins with nothing under way, whatever the one before has left.
func TestReset(t *testing.T) {
	n := newNode(t)
	must(t, Reset(n.control))
	d, wait := n.served()
	l := n.load(1, 0, 1, 1000)
	l.Limits.Bandwidth = 100
	x, err := d.Start(l)
	must(t, err)
	must(t, x.Begin())
	must(t, Reset(n.control))
	wait()
	if running(n.control) {
		t.Error("somebody copies")
	}
	if !x.Ended() {
		t.Error("not ended")
	}
	must(t, os.WriteFile(filePath(n.control), []byte("no hash file"), 0o600))
	must(t, Reset(n.control))
	if _, err := os.Lstat(filePath(n.control)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// serving is set in the process that is the scr_transfer of a node: its control directory.
const serving = "GOSCR_TEST_SERVE"

func TestMain(m *testing.M) {
	if control := os.Getenv(serving); control != "" {
		parent := os.Getppid()
		if err := (&Server{Control: control, Stay: true, Alone: func() bool { return os.Getppid() != parent }}).Run(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Nobody waits for a stopped scr_transfer in silence, or for ever.
func TestDaemon_Stopped(t *testing.T) {
	n := newNode(t)
	d := &Daemon{Control: n.control}
	l := n.load(1, 0, 1, 10000)
	l.Limits.Bandwidth = 1 // it takes hours
	x, err := d.Start(l)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serving+"="+n.control)
	cmd.Stdout = os.Stdout
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	eventually(t, func() bool { return running(n.control) && n.read().Text(keyState) == stateRunning })
	must(t, x.Begin())
	must(t, hash.Update(filePath(n.control), func(*hash.Hash) error { // while it has not locked the file
		var status unix.WaitStatus
		err := cmd.Process.Signal(unix.SIGSTOP)
		_, e := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		return errors.Join(err, e)
	}))

	var said []string
	lock.SetPatience(lock.Patience{Limit: 150 * time.Millisecond, Tell: func(line string) { said = append(said, line) }})
	defer lock.SetPatience(lock.Patience{Limit: time.Minute, Tell: func(string) {}})
	// Reset is what Init does, and Exit is scr_transfer --exit. They end with an error.
	for _, call := range []struct {
		name string
		wait func() error
	}{{"Wait", x.Wait}, {"Cancel", x.Cancel}, {"Reset", func() error { return Reset(n.control) }}, {"Exit", func() error { return Exit(n.control) }}} {
		said = nil
		err, name := call.wait(), call.name
		want := fmt.Sprintf("process %d on ", cmd.Process.Pid)
		if !errors.Is(err, lock.ErrTimeout) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("%s: %v", name, err)
		}
		if len(said) == 0 || !strings.Contains(said[0], "waiting for "+want) {
			t.Errorf("%s: said %q", name, said)
		}
	}
	// Close, when all has been copied, continues without it.
	must(t, hash.Update(filePath(n.control), func(h *hash.Hash) error { h.Unset(keyStay); return nil }))
	said = nil
	if err := Close(n.control); err != nil || len(said) == 0 {
		t.Errorf("%v, said %q", err, said)
	}

	lock.SetPatience(lock.Patience{Limit: time.Minute, Tell: func(string) {}})
	must(t, cmd.Process.Signal(unix.SIGCONT))
	must(t, Reset(n.control))
	if _, err := os.Lstat(l.destination(l.Files[0])); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was copied all the same: %v", err)
	}
}

// One that dies over and over is given up.
func TestDaemon_ThatDies(t *testing.T) {
	n := newNode(t)
	launched := 0
	d := &Daemon{Control: n.control, First: true, Launch: func(string) error { launched++; return nil }, patience: time.Millisecond}
	x, err := d.Start(n.load(1, 0, 1, 10))
	must(t, err)
	must(t, x.Begin())
	if err := x.Wait(); err == nil || launched != maxLaunches {
		t.Errorf("%v, started %d times", err, launched)
	}
}

// One that is slow to start is waited for, by all processes of the node.
func TestDaemon_ThatIsSlowToStart(t *testing.T) {
	n := newNode(t)
	d, wait := n.served()
	defer wait()
	launch, launched := d.Launch, 0
	d.Launch = func(string) error { launched++; return nil }
	d.patience = time.Hour
	first, second := n.load(1, 0, 1, 10), n.load(1, 1, 1, 10)
	a, err := d.Start(first)
	must(t, err)
	b, err := d.Start(second)
	must(t, err)
	must(t, a.Begin())
	for range 2 * maxLaunches {
		if a.Ended() || b.Ended() {
			t.Fatalf("given up: %v, %v", a.Wait(), b.Wait())
		}
	}
	if launched != 1 {
		t.Errorf("started %d times", launched)
	}
	must(t, launch(n.control)) // here it is
	must(t, errors.Join(a.Wait(), b.Wait()))
}

// A file system may give the same inode again, and the same time.
func TestWatched_SameInodeAndTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	when := time.Unix(1000, 0)
	put := func(text string) {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		must(t, os.Chtimes(path, when, when))
	}
	put("1")
	w := watched{path: path}
	if !w.changed() {
		t.Fatal("not seen")
	}
	put("2")
	for !w.changed() {
		time.Sleep(time.Millisecond)
	}
	for range 3 {
		time.Sleep(tick)
		if w.changed() {
			t.Error("nothing has changed")
		}
	}
}

// A corrupt file is told from other failures by both movers.
func TestCorrupt(t *testing.T) {
	n := newNode(t)
	d, wait := n.served()
	defer wait()
	for id, m := range map[int]Mover{1: d, 2: &Threads{Queue: &background.Queue{}, Copier: func(dataset.Dataset) *transfer.Copier { return transfer.NewCopier(100) }}} {
		l := n.load(id, 0, 1, 100)
		must(t, os.WriteFile(l.Files[0].Path, []byte("short"), 0o600))
		x, err := m.Start(l)
		must(t, err)
		must(t, x.Begin())
		var corrupt *redundancy.CorruptError
		if err := x.Wait(); !errors.As(err, &corrupt) || corrupt.Path != l.Files[0].Path {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// The limits of the transfer file hold while a load is copied, also when they are
// changed: with a limit at which it would take hours, the copy ends when that is lifted.
func TestServer_LimitsMayChange(t *testing.T) {
	n := newNode(t)
	d, wait := n.served()
	defer wait()
	l := n.load(1, 0, 1, 10000)
	l.Limits.Bandwidth = 1
	x, err := d.Start(l)
	must(t, err)
	must(t, x.Begin())
	if x.Ended() {
		t.Fatal("no limit")
	}
	must(t, hash.Update(filePath(n.control), func(h *hash.Hash) error { h.SetValue(keyBandwidth, "0"); return nil }))
	must(t, x.Wait())
	n.check(l)
}
