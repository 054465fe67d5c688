package run

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/internal/batch"
)

// process is a launcher that runs.
type process struct {
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has ended
	err   error         // of Wait
	group bool          // it is the first of a process group of its own
}

// start begins a launch with the standard streams of this process.
func start(l batch.Launch, in io.Reader, out, problems io.Writer) (*process, error) {
	cmd := exec.Command(l.Argv[0], l.Argv[1:]...)
	cmd.Env = append(os.Environ(), l.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, problems
	p := &process{cmd: cmd, done: make(chan struct{}), group: !isTerminal()}
	// At a terminal, Ctrl-C has to reach the launcher as well, and the program may
	// want to read, so the launcher stays in our process group there.
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

// signal passes a signal on, to the launcher alone: it tells its ranks.
func (p *process) signal(s os.Signal) {
	if s == os.Interrupt && !p.group {
		return // the terminal has told it
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
}

// kill ends the launcher and all that it has started on this node.
func (p *process) kill() {
	if p.group {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
	_ = p.cmd.Process.Kill()
}

// ended waits for the end, at most for a time.
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

// status is the exit status as a shell has it.
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

// end ends a run: by SIGTERM, so that the launcher can clean up; after grace, by
// killing its job steps; at last by killing the launcher. earlier are the job steps that
// were there before the run.
func (j *Job) end(ctx context.Context, p *process, earlier []string, grace time.Duration) {
	p.signal(unix.SIGTERM)
	if p.ended(grace) {
		return
	}
	j.Detail("the launcher does not end within %v of SIGTERM", grace)
	if m, ok := j.Manager.(stepper); ok {
		j.killSteps(ctx, m, earlier)
		if p.ended(grace) {
			return
		}
	}
	p.kill()
	<-p.done
}

func (j *Job) killSteps(ctx context.Context, m stepper, earlier []string) {
	steps, err := m.Steps(ctx)
	if err != nil {
		j.Tell("%v", err)
	}
	old := map[string]bool{}
	for _, s := range earlier {
		old[s] = true
	}
	for _, s := range steps {
		if old[s] {
			continue
		}
		if err := j.Manager.Kill(ctx, s); err != nil {
			j.Tell("%v", err)
		}
	}
}
