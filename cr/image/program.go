package image

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is how often this package looks at a process.
const tick = 10 * time.Millisecond

// Program is the process that a rank protects. Use it on one thread, which must not end: the
// program ends with it.
type Program struct {
	commands Commands
	argv     []string
	pidFile  string

	child  *child // the program, or the command that has restored it
	pid    int    // the program
	status int    // of a program that has ended
	ended  bool

	running atomic.Pointer[processes] // for Abort
}

// processes are those of a program that runs: the program, and the group of the child.
type processes struct{ program, group int }

// NewProgram returns the program argv, which is not started yet. scratch is a directory for a
// small file.
func NewProgram(argv []string, c Commands, scratch string) *Program {
	return &Program{commands: c, argv: argv, pidFile: filepath.Join(scratch, "process")}
}

// Start starts the program as it is.
func (p *Program) Start() error {
	path, err := exec.LookPath(p.argv[0])
	if err != nil {
		return err
	}
	p.child, err = start(path, p.argv, "")
	if err == nil {
		p.runs(p.child, p.child.pid)
	}
	return err
}

// endedFile has the exit status of a program that had ended before the checkpoint.
const endedFile = "goscr.ended"

// Save saves the program to files in dir, which is empty. It continues, or is ended by the command;
// then GoOn starts it again. A program that has failed cannot be saved.
func (p *Program) Save(dir string) error {
	if err := p.Failure(); err != nil {
		return err
	}
	if p.Ended() {
		return os.WriteFile(filepath.Join(dir, endedFile), []byte(strconv.Itoa(p.status)+"\n"), 0o600)
	}
	if err := p.run(p.commands.Dump, dir); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the command of SCR_CR_IMAGE has succeeded, and there is no file in %s", dir)
	}
	return err
}

// run runs a command to its end, or for the limit.
func (p *Program) run(text, dir string) error {
	c, err := p.shell(text, dir)
	if err != nil {
		return err
	}
	if !within(p.commands.Limit, c.hasEnded) {
		c.kill()
		return fmt.Errorf("the command of SCR_CR_IMAGE has not ended within %v, and was killed", p.commands.Limit)
	}
	if c.status != 0 {
		return fmt.Errorf("the command of SCR_CR_IMAGE ended with status %d", c.status)
	}
	return nil
}

func (p *Program) shell(text, dir string) (*child, error) {
	text, err := expand(text, p.pid, dir, p.pidFile)
	if err != nil {
		return nil, err
	}
	return start("/bin/sh", []string{"sh", "-c", text}, dir)
}

// GoOn starts the program from dir if the command that has saved it there has ended it by SIGKILL,
// before it ended itself.
func (p *Program) GoOn(dir string) error {
	if p.ended || alive(p.pid) {
		return nil
	}
	if !within(p.commands.Limit, p.child.hasEnded) {
		return fmt.Errorf("process %d has ended, and the command that had restored it has not", p.pid)
	}
	if p.child.status != 128+int(unix.SIGKILL) { // it has come to its end meanwhile
		p.Ended()
		return nil
	}
	return p.Restore(dir)
}

// Restore starts the program from the files that Save has left in dir. It returns when the program
// runs, and changes none of the files.
func (p *Program) Restore(dir string) error {
	if text, err := os.ReadFile(filepath.Join(dir, endedFile)); err == nil {
		p.ended = true
		p.status, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	}
	if err := os.Remove(p.pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	c, err := p.shell(p.commands.Restore, dir)
	if err != nil {
		return err
	}
	pid := 0
	restored := func() bool {
		text, _ := os.ReadFile(p.pidFile)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	}
	arrived := within(p.commands.Limit, func() bool { return restored() || c.hasEnded() })
	switch {
	case !arrived:
		c.kill()
		return fmt.Errorf("the command of SCR_CR_IMAGE_RESTORE has not restored the program within %v, and was killed", p.commands.Limit)
	case !restored(): // once more: it may have written the file as its last
		return fmt.Errorf("the command of SCR_CR_IMAGE_RESTORE ended with status %d before it had restored the program", c.status)
	}
	p.runs(c, pid)
	return nil
}

func (p *Program) runs(c *child, pid int) {
	p.child, p.pid, p.ended = c, pid, false
	p.running.Store(&processes{pid, c.pid})
}

// Ended reports whether the program has come to its end.
func (p *Program) Ended() bool {
	if !p.ended && p.child.hasEnded() {
		p.ended, p.status = true, p.child.status
		p.running.Store(nil)
	}
	return p.ended
}

// Failure returns how the program has failed, nil if it runs or has ended with status 0.
func (p *Program) Failure() error {
	if p.Ended() && p.status != 0 {
		return &Failed{p.argv[0], p.status}
	}
	return nil
}

// Failed is a program that has not ended with status 0.
type Failed struct {
	Program string
	Status  int // 128 and a signal, or an exit status
}

func (f *Failed) Error() string { return fmt.Sprintf("%s ended with status %d", f.Program, f.Status) }

// End ends the program: by SIGTERM, and by SIGKILL if it takes longer than grace. It has not failed then.
func (p *Program) End(grace time.Duration) {
	if p.child == nil || p.ended {
		return
	}
	if p.pid == p.child.pid {
		_ = unix.Kill(-p.child.pid, unix.SIGTERM)
	} else { // the command that has restored it ends after it
		_ = unix.Kill(p.pid, unix.SIGTERM)
	}
	if !within(grace, p.isGone) {
		p.kill()
	}
	p.ended, p.status = true, 0
	p.running.Store(nil)
}

// isGone reports whether neither the program nor the child runs, nor another process of its group.
func (p *Program) isGone() bool {
	return p.child.hasEnded() && !alive(p.pid) && unix.Kill(-p.child.pid, 0) != nil
}

// kill kills the processes of the program, and waits for their end.
func (p *Program) kill() {
	if p.pid != p.child.pid && alive(p.pid) {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	p.child.kill()
	within(0, func() bool { return !alive(p.pid) })
}

// Kill ends the program at once.
func (p *Program) Kill() {
	if p.child != nil && !p.Ended() {
		p.kill()
	}
}

// Abort kills the processes of the program, and does not wait. Any goroutine may call it at any time:
// it is for a process that a signal ends.
func (p *Program) Abort() {
	if r := p.running.Load(); r != nil {
		_ = unix.Kill(-r.group, unix.SIGKILL)
		if r.program != r.group {
			_ = unix.Kill(r.program, unix.SIGKILL)
		}
	}
}

// child is a process of its own process group.
type child struct {
	pid    int
	ended  bool
	status int
}

func start(path string, argv []string, dir string) (*child, error) {
	// Those of MPI have nothing to do in the program, and could not be restored.
	if err := keepDescriptors(); err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: dir, Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &child{pid: pid}, nil
}

// keepDescriptors keeps all but 0, 1 and 2 for this process: what it executes does not get them.
func keepDescriptors() error {
	list, err := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if fd, wrong := strconv.Atoi(e.Name()); wrong == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

func (c *child) hasEnded() bool {
	var status unix.WaitStatus
	for !c.ended {
		pid, err := unix.Wait4(c.pid, &status, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			c.ended, c.status = true, 1
		case pid != c.pid:
			return false
		case status.Signaled():
			c.ended, c.status = true, 128+int(status.Signal())
		case status.Exited():
			c.ended, c.status = true, status.ExitStatus()
		}
	}
	return true
}

// kill ends the process and all of its group, and waits for it.
func (c *child) kill() {
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	within(0, c.hasEnded)
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	return !ok || rest == "" || rest[0] != 'Z' && rest[0] != 'X'
}

// within waits until done, for a limit at most; 0: for ever.
func within(limit time.Duration, done func() bool) bool {
	for end := time.Now().Add(limit); !done(); time.Sleep(tick) {
		if limit > 0 && time.Now().After(end) {
			return done()
		}
	}
	return true
}
