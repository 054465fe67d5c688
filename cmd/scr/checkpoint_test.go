package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/internal/sys/lock"
	"github.com/goscr/goscr/internal/sys/processes"
)

// jobIn begins to answer requests in a new prefix directory.
func jobIn(t *testing.T) (dir string, a *request.Answers) {
	t.Helper()
	dir = t.TempDir()
	must(t, hash.MakeDirs(filepath.Join(dir, ".scr")))
	a, err := request.Begin(dir, request.Job{ID: "job"}, true)
	must(t, err)
	t.Cleanup(a.Close)
	return dir, a
}

// asks runs a command that asks for a checkpoint, and calls answer once the job has seen
// the request.
func asks(t *testing.T, status int, a *request.Answers, answer func(), argv ...string) (out, errors string) {
	t.Helper()
	seen, out, errors := mayAsk(t, status, a, answer, argv...)
	if !seen {
		t.Fatalf("%q has not waited: %s", argv, errors)
	}
	return out, errors
}

// mayAsk is asks, but the command may end before the job has seen the request.
func mayAsk(t *testing.T, status int, a *request.Answers, answer func(), argv ...string) (seen bool, out, errors string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, errors = run(t, status, argv...)
	}()
	for {
		select {
		case <-done:
			return false, out, errors
		default:
		}
		yes, err := a.Wanted()
		must(t, err)
		if yes {
			break
		}
	}
	answer()
	<-done
	return true, out, errors
}

func TestCheckpoint(t *testing.T) {
	dir, a := jobIn(t)
	writes := func(id int) func() {
		return func() {
			_, err := a.Start(id, fmt.Sprint("ckpt.", id))
			must(t, err)
			for _, s := range []request.State{request.InCache, request.Flushing, request.Finished} {
				must(t, a.Reach(id, s, 2048))
			}
		}
	}
	out, errors := asks(t, 0, a, writes(3), "scr_checkpoint", "-p", dir)
	if out != "Snapshot Ref.:   3 "+dir+"\n" || errors != "" {
		t.Errorf("%q %q", out, errors)
	}
	_, errors = asks(t, 0, a, writes(4), "/usr/share/goscr/ompi/ompi-checkpoint", "-s", "-p", dir, "--jobid", "job")
	if !strings.Contains(errors, "s  finished: 4 (ckpt.4), 2.0 KiB\n") {
		t.Errorf("%q", errors)
	}
	for _, state := range []string{"requested", "pending"} { // by how fast the test is, it sees one of them at least
		if strings.Contains(errors, state) {
			errors = "seen"
		}
	}
	if errors != "seen" {
		t.Errorf("%q", errors)
	}
	if _, errors = asks(t, 0, a, writes(5), "scr_checkpoint", "-v", "-p", dir); !strings.Contains(errors, "MPIR_checkpoint_handle) -s 5 "+dir+"\n") {
		t.Errorf("%q", errors)
	}
	t.Setenv("SCR_PREFIX", dir)
	_, errors = asks(t, 1, a, func() {
		_, err := a.Start(6, "six")
		must(t, err)
		must(t, a.Fail(6, "no room"))
	}, "scr_checkpoint", "--term")
	if !strings.Contains(errors, "no checkpoint: no room") {
		t.Errorf("%q", errors)
	}
	// The job ends.
	_, errors = asks(t, 1, a, func() { must(t, a.End("the program has ended")) }, "scr_checkpoint")
	if !strings.Contains(errors, "the program has ended") {
		t.Errorf("%q", errors)
	}
	_, errors = run(t, 1, "scr_checkpoint")
	if !strings.Contains(errors, "no job that uses goscr runs") {
		t.Errorf("%q", errors)
	}
}

// A job that is killed leaves no answer.
func TestCheckpoint_JobIsKilled(t *testing.T) {
	dir, a := jobIn(t)
	_, errors := asks(t, 1, a, a.Close, "scr_checkpoint", "-p", dir)
	if !strings.Contains(errors, "the job has ended, and has not written the checkpoint") {
		t.Errorf("%q", errors)
	}
	if r, ok, err := request.Read(dir, 1); ok || err != nil {
		t.Errorf("the request stays: %+v, %v", r, err)
	}
}

// A run that takes the place of one that was killed gets the request, too.
func TestCheckpoint_NextRun(t *testing.T) {
	dir, a := jobIn(t)
	var b *request.Answers
	loop, err := lock.Try(request.LoopPath(dir), lock.Exclusive) // of scr_run
	must(t, err)
	defer loop.Release()
	out, _ := asks(t, 0, a, func() {
		_, err := a.Start(1, "one")
		must(t, err)
		a.Close()
		b, err = request.Begin(dir, request.Job{ID: "job"}, true)
		must(t, err)
		for yes := false; !yes; {
			yes, err = b.Wanted()
			must(t, err)
		}
		_, err = b.Start(9, "nine")
		must(t, err)
		must(t, b.Reach(9, request.Finished, 1))
		b.Close()
	}, "scr_checkpoint", "-p", dir)
	if !strings.Contains(out, "  9 "+dir) {
		t.Errorf("%q", out)
	}
}

func TestCheckpoint_Timeout(t *testing.T) {
	dir, a := jobIn(t)
	_, errors := run(t, 1, "scr_checkpoint", "-p", dir, "--timeout", "0.05")
	if !strings.Contains(errors, "the job has not written a checkpoint within 0.05 s") {
		t.Errorf("%q", errors)
	}
	if yes, err := a.Wanted(); yes || err != nil {
		t.Error("the request was not taken back", err)
	}
	const begun, late = "it has begun one, which can no longer be taken back", "the job has not written a checkpoint within"
	for id, timeout := 1, 0.3; ; id, timeout = id+1, 4*timeout { // a busy machine may not begin one in time
		_, _, errors = mayAsk(t, 1, a, func() {
			_, err := a.Start(id, fmt.Sprint("ckpt.", id))
			must(t, err)
		}, "scr_checkpoint", "-p", dir, "--timeout", fmt.Sprint(timeout))
		if strings.Contains(errors, begun) {
			return
		}
		if !strings.Contains(errors, late) || timeout > 60 {
			t.Fatalf("with a timeout of %v s: %q", timeout, errors)
		}
	}
}

func TestCheckpoint_Launcher(t *testing.T) {
	dir, a := jobIn(t)
	for name, argv := range map[string][]string{
		"its working directory": {"sh", "-c", "sleep 1000 & wait"},
		"an option":             {"sh", "-c", "sleep 1000 & wait", "scr_run", "-p", dir},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		if cmd.Dir = dir; len(argv) > 3 {
			cmd.Dir = "/"
		}
		must(t, cmd.Start())
		id := 10
		out, _ := asks(t, 0, a, func() {
			id++
			_, err := a.Start(id, "x")
			must(t, err)
			must(t, a.Reach(id, request.Finished, 1))
		}, "scr_checkpoint", fmt.Sprint(cmd.Process.Pid))
		if !strings.Contains(out, dir) {
			t.Errorf("%s: %q", name, out)
		}
		below := processes.Below(cmd.Process.Pid)
		must(t, cmd.Process.Kill())
		for _, p := range below {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it may have ended
		}
		_ = cmd.Wait() // it was killed
		_, errors := run(t, 1, "scr_checkpoint", fmt.Sprint(cmd.Process.Pid))
		if !strings.Contains(errors, "there is no process") {
			t.Errorf("%q", errors)
		}
	}
}

func TestCheckpoint_OtherJob(t *testing.T) {
	dir, a := jobIn(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, errors := run(t, 1, "scr_checkpoint", "-p", dir, "--jobid", "other")
		if !strings.Contains(errors, "the job that runs here is job") {
			t.Errorf("%q", errors)
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if yes, err := a.Wanted(); yes || err != nil {
			t.Error(yes, err)
		}
	}
}

func TestCheckpoint_Usage(t *testing.T) {
	for _, argv := range [][]string{{"x"}, {"0"}, {"-5"}, {"1", "2"}, {"1", "-p", "/"}, {"1", "--jobid", "2"}, {"--timeout", "-1"}} {
		run(t, 2, append([]string{"scr_checkpoint"}, argv...)...)
	}
}

func TestCheckpoint_List(t *testing.T) {
	when := time.Date(2026, 11, 21, 12, 30, 0, 0, time.Local)
	dir, _ := jobIn(t)
	run(t, 1, "scr_checkpoint", "-l", "-p", dir)
	must(t, prefix.UpdateIndex(dir, func(x *prefix.Index) error {
		for id, name := range []string{1: "one", 2: "two", 3: "three"} {
			if name != "" {
				x.Add(dataset.New(id, name, dataset.Checkpoint, id, dataset.Owner{}, when), id != 3, when)
			}
		}
		x.MarkFailed(2, "it was bad", when)
		return nil
	}))
	for id, name := range map[int]string{1: "one", 7: "seven"} {
		must(t, prefix.Locate(dir, dataset.New(id, name, dataset.Checkpoint, id, dataset.Owner{}, when), prefix.InCache, true))
	}
	out, _ := run(t, 0, "scr_checkpoint", "--list", "-p", dir)
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"SEQ WHERE WRITTEN SIZE NAME", "7 nodes 2026-11-21T12:30:00 0 B seven", "1 nodes, prefix 2026-11-21T12:30:00 0 B one", "Snapshot Ref.: " + dir}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}

func TestCheckpoint_Continue(t *testing.T) {
	dir, _ := jobIn(t)
	_, errors := run(t, 1, "scr_checkpoint", "--continue", "-p", dir)
	if !strings.Contains(errors, "no job with the prefix directory "+dir+" has stopped") {
		t.Errorf("%q", errors)
	}
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	must(t, request.RecordStopped(dir, "node", []int{cmd.Process.Pid}, false))
	must(t, unix.Kill(cmd.Process.Pid, unix.SIGSTOP))
	run(t, 0, "scr_checkpoint", "--continue", "-p", dir)
	if p, err := processes.Read(cmd.Process.Pid); err != nil || p.State == 'T' {
		t.Errorf("%+v, %v", p, err)
	}
	for _, argv := range [][]string{{"--stop", "--term"}, {"--attach", "--detach"}, {"--continue", "--term"}} {
		run(t, 2, append([]string{"scr_checkpoint", "-p", dir}, argv...)...)
	}
}
