package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/test/tracer"
)

// jobArgument makes a process a run.
const jobArgument = "soak-job"

// Become makes a process that was started as a run of a job that run, and does not return
// then. Every program that calls Run calls it first.
func Become() {
	if len(os.Args) == 3 && os.Args[1] == jobArgument {
		cache.Bug = func(err error) { go panic(err) } // ends the process, since no call of goscr can recover it
		os.Exit(runJob(os.Args[2]))
	}
}

// ran is what a run has left.
type ran struct {
	status int
	events []event
	said   string // by the library
	hangs  string // why it is taken to hang
}

// start runs a job in a process, and waits for its end.
func (j job) start() (*ran, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, jobArgument, string(text))
	cmd.Dir = j.Root
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &ran{}
	var once sync.Once
	stop := tracer.Watch(func() []int { return []int{cmd.Process.Pid} }, func(why string) {
		once.Do(func() { r.hangs = why; _ = cmd.Process.Kill() })
	})
	_ = cmd.Wait() // its status says more
	stop()
	r.status, r.said = cmd.ProcessState.ExitCode(), said.String()
	lines := bufio.NewReader(&out)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // a kill may have cut the last line
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		r.events = append(r.events, e)
	}
}
