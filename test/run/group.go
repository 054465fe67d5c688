package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

var errSilent = errors.New("is silent")

// startGroup starts a command as a process group of its own, and sends the lines
// of its output to a channel, which it closes when all processes that write to the
// output have ended. Then ended has one value: the command's error. The group is
// terminated, and killed 10 s later, when the context is cancelled, or when no line
// came for the given time.
func startGroup(ctx context.Context, cmd *exec.Cmd, lines chan<- string, silence time.Duration) (ended <-chan error, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	out, in, err := os.Pipe()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		cancel(nil)
		return nil, err
	}
	group := -cmd.Process.Pid
	overdue := time.AfterFunc(silence, func() { cancel(errSilent) })
	done := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = syscall.Kill(group, syscall.SIGKILL)
			out.Close() // of what has left the group, no more is read
		}
	}()
	result := make(chan error, 1)
	go func() {
		read := bufio.NewReader(out)
		for {
			line, err := read.ReadString('\n')
			if line != "" {
				overdue.Reset(silence)
				lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				break
			}
		}
		err := cmd.Wait()
		overdue.Stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		close(done)
		<-killed
		out.Close()
		cancel(nil)
		close(lines)
		result <- err
	}()
	return result, nil
}

// used is the processor time of a command that has ended, and of the processes below it that were waited for.
func used(cmd *exec.Cmd) time.Duration {
	if cmd.ProcessState == nil {
		return 0
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
