// Package tracer runs a command and kills it, or one of its processes, in place of its
// n-th system call that changes a file below given directories.
//
// It is for tests of what a kill at any instant leaves behind: between two such calls
// nothing changes on disk, so a kill in place of each shows every state that a kill can
// leave. The calls of all threads of all processes that the command starts are counted,
// in the order in which they are made.
//
//	calls.go     which calls change files, and what a call is about
//	filter.go    the seccomp filter by which the kernel stops a process at these only
//	progress.go  whether what is traced still does something
package tracer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Victim is what is killed in place of a call.
type Victim int

// What is killed.
const (
	All Victim = iota // every process of the command
	One               // the process that makes the call; the others continue
)

// Run is one run of a command.
type Run struct {
	Argv   []string
	Env    []string
	Dir    string
	Output io.Writer // standard output and error; nil discards them

	Watched []string // directories; calls that change something below them count
	At      int      // kill in place of the call of this number, from 1; 0: never
	Victim  Victim
	Calls   func(number int, call Call) // if not nil, is told of every call that counts
}

// Result is how a run ended.
type Result struct {
	Calls  int  // that counted
	Killed bool // At was reached
	Call   Call // in place of which it was killed
	Status int  // exit status of the command, 128 + number of the signal that ended it
	Hangs  bool // it had to be killed, since it did nothing any more
}

// Setup is the argument by which the calling program, as a process of its own, becomes the
// traced command. Such a program calls Become first of all.
const Setup = "tracer-setup"

// Become does nothing, unless the process is one that Start has started to become a command.
func Become() {
	if len(os.Args) > 2 && os.Args[1] == Setup {
		err := become(os.Args[2:])
		fmt.Fprintln(os.Stderr, "tracer:", err)
		os.Exit(127)
	}
}

// Start runs a command to its end, with all processes that it has started. It must be
// called in a program that calls Become.
func Start(r Run) (Result, error) {
	type end struct {
		result Result
		err    error
	}
	done := make(chan end)
	go func() {
		// A tracer is a thread. This one ends with the goroutine, and what it still traces
		// is killed with it.
		runtime.LockOSThread()
		t := &trace{Run: r, tracer: unix.Gettid(), processes: map[int]int{}}
		result, err := t.run()
		done <- end{result, err}
	}()
	e := <-done
	return e.result, e.err
}

// trace is a run under way. Its methods run on the thread that traces.
type trace struct {
	Run
	result    Result
	main      int         // first process
	processes map[int]int // by thread, the process that it belongs to
	ending    bool        // all are to be killed
	tracer    int         // the thread
	counted   atomic.Int64
	hangs     atomic.Bool
}

const options = unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESECCOMP

func (t *trace) run() (Result, error) {
	output, closeOutput, err := t.output()
	if err != nil {
		return Result{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return Result{}, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return Result{}, err
	}
	defer null.Close()
	p, err := os.StartProcess(self, append([]string{self, Setup}, t.Argv...), &os.ProcAttr{
		Dir: t.Dir, Env: t.Env, Files: []*os.File{null, output, output},
		Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		closeOutput()
		return Result{}, err
	}
	t.main = p.Pid
	stop := t.watch()
	err = t.follow()
	stop()
	closeOutput()
	t.result.Hangs = t.hangs.Load()
	return t.result, err
}

// output is the file that the command writes to, and a function that waits until all of
// it has been passed on.
func (t *trace) output() (*os.File, func(), error) {
	if t.Output == nil {
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		return f, func() { f.Close() }, err
	}
	if f, ok := t.Output.(*os.File); ok {
		return f, func() {}, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		io.Copy(t.Output, from)
	}()
	return to, func() { to.Close(); <-copied; from.Close() }, nil
}

// follow handles what happens to the processes until none is left.
func (t *trace) follow() error {
	started := false
	for {
		var status unix.WaitStatus
		// Only children of this thread: others of the program start processes too.
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("wait4: %w", err)
		}
		if t.hangs.Load() && !t.ending {
			t.killAll()
		}
		if !status.Stopped() {
			t.ended(tid, status)
			continue
		}
		if !started && tid == t.main { // the first stop, before any code of ours
			started = true
			if err := unix.PtraceSetOptions(tid, options); err != nil {
				t.killAll()
				return fmt.Errorf("ptrace: %w", err)
			}
			t.processes[tid] = tid
			t.proceed(tid, 0)
			continue
		}
		if _, known := t.processes[tid]; !known {
			t.processes[tid] = processOf(tid)
			if t.ending {
				unix.Kill(t.processes[tid], unix.SIGKILL)
			}
		}
		t.stopped(tid, status)
	}
}

// ended notes that a thread has ended.
func (t *trace) ended(tid int, status unix.WaitStatus) {
	if tid == t.main {
		t.result.Status = status.ExitStatus()
		if status.Signaled() {
			t.result.Status = 128 + int(status.Signal())
		}
	}
	delete(t.processes, tid)
}

// stopped handles a thread that has stopped.
func (t *trace) stopped(tid int, status unix.WaitStatus) {
	switch cause := status.TrapCause(); {
	case status.StopSignal() != unix.SIGTRAP:
		s := status.StopSignal()
		if s == unix.SIGSTOP { // how new threads begin
			s = 0
		}
		t.proceed(tid, int(s))
	case cause == unix.PTRACE_EVENT_SECCOMP:
		if t.called(tid) {
			t.proceed(tid, 0)
		}
	case cause == unix.PTRACE_EVENT_EXEC:
		// The other threads are gone, and this one has the number of the process.
		t.processes[tid] = tid
		t.proceed(tid, 0)
	case cause > 0:
		t.proceed(tid, 0)
	default: // a SIGTRAP for the program
		t.proceed(tid, int(unix.SIGTRAP))
	}
}

// proceed lets a thread continue. One that was killed meanwhile is gone.
func (t *trace) proceed(tid, signal int) { _ = unix.PtraceCont(tid, signal) }

// called handles a thread that is about to make a call, and reports whether it may.
func (t *trace) called(tid int) bool {
	if t.ending {
		return false
	}
	call, ok := readCall(tid, t.Watched)
	if !ok {
		return true
	}
	call.Main = t.processes[tid] == t.main
	t.result.Calls++
	t.counted.Add(1)
	if t.Calls != nil {
		t.Calls(t.result.Calls, call)
	}
	if t.result.Calls != t.At {
		return true
	}
	t.result.Killed, t.result.Call = true, call
	if t.Victim == One {
		unix.Kill(t.processes[tid], unix.SIGKILL)
		return false
	}
	t.killAll()
	return false
}

// killAll kills every process. Those that are being made are killed when they appear.
func (t *trace) killAll() {
	t.ending = true
	var done []int
	for _, p := range t.processes {
		if !slices.Contains(done, p) {
			unix.Kill(p, unix.SIGKILL)
			done = append(done, p)
		}
	}
}

// processOf returns the process that a thread belongs to; the thread itself if it is gone.
func processOf(tid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return tid
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "Tgid:"); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
				return n
			}
		}
	}
	return tid
}
