package run

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/job/batch"
)

// process is a launcher process.
type process struct {
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	err   error         // of Wait, valid when done is closed
	group bool          // it is the leader of a process group of its own
}

// start starts a launcher with the given standard streams.
func start(l batch.Launch, in io.Reader, out, problems io.Writer) (*process, error) {
	cmd := exec.Command(l.Argv[0], l.Argv[1:]...)
	cmd.Env = append(os.Environ(), l.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, problems
	p := &process{cmd: cmd, done: make(chan struct{}), group: !isTerminal()}
	// If stdin is a terminal, the launcher stays in our process group, so that Ctrl-C
	// reaches it too, and the program can read from the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: p.group}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func isTerminal() bool {
	_, err := unix.IoctlGetTermios(0, unix.TCGETS)
	return err == nil
}

// signal sends a signal to the launcher only, which forwards it to the ranks.
func (p *process) signal(s os.Signal) {
	if s == os.Interrupt && !p.group {
		return // the terminal has sent it to the whole process group
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
}

// kill kills the launcher, and the other processes of its group on this node.
func (p *process) kill() {
	if p.group {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
	_ = p.cmd.Process.Kill()
}

// ended waits until the launcher has ended, but not longer than limit, and reports
// whether it has ended.
func (p *process) ended(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// status returns the exit status in the way of a shell: 128 + n after signal n.
func (p *process) status() int {
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		return 0
	case errors.As(p.err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	return 1
}

// stepper is a manager that can list the job steps that launchers have started.
type stepper interface {
	Steps(ctx context.Context) ([]string, error)
}

// end ends the run. It sends SIGTERM, so that the launcher can clean up; if that has not
// ended after grace, it kills the job steps of the run; and if that does not help within
// grace, it kills the launcher.
func (r *running) end(ctx context.Context) {
	r.signal(unix.SIGTERM)
	if r.ended(r.grace) {
		return
	}
	r.job.Detail("the launcher does not end within %v of SIGTERM", r.grace)
	if m, ok := r.job.Manager.(stepper); ok {
		r.killNewSteps(ctx, m)
		if r.ended(r.grace) {
			return
		}
	}
	r.kill()
	<-r.done
}

// killNewSteps kills the job steps that are not in r.earlier.
func (r *running) killNewSteps(ctx context.Context, m stepper) {
	steps, err := m.Steps(ctx)
	r.job.warn(err)
	for _, s := range steps {
		if !slices.Contains(r.earlier, s) {
			r.job.warn(r.job.Manager.Kill(ctx, s))
		}
	}
}
