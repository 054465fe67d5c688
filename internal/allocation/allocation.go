// Package allocation asks the resource manager about the allocation that the job
// runs in.
package allocation

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Environ looks up a variable, as os.LookupEnv does.
type Environ func(name string) (string, bool)

// Run runs a command and returns what it prints.
type Run func(name string, args ...string) (string, error)

// End is when an allocation ends.
type End struct {
	Time  time.Time
	Where string // what says so
}

// source is one that may know the end. ok is false where it does not apply.
type source struct {
	where string
	end   func(environ Environ, run Run) (t time.Time, ok bool, err error)
}

// The first of these that knows counts.
var sources = []source{
	{"SLURM_JOB_END_TIME", epoch("SLURM_JOB_END_TIME")},
	{"squeue", squeue},
	{"flux job timeleft", flux},
}

// FindEnd finds out when the allocation ends; ok is false if nobody knows. A
// source that should know and does not is an error. run is nil for commands of
// the system.
func FindEnd(environ Environ, run Run) (end End, ok bool, err error) {
	if run == nil {
		run = command
	}
	for _, s := range sources {
		t, ok, err := s.end(environ, run)
		if err != nil {
			return End{}, false, fmt.Errorf("%s: %w", s.where, err)
		}
		if ok {
			return End{t, s.where}, true, nil
		}
	}
	return End{}, false, nil
}

// epoch is for a variable with the seconds since the epoch.
func epoch(name string) func(Environ, Run) (time.Time, bool, error) {
	return func(environ Environ, _ Run) (time.Time, bool, error) {
		text, _ := environ(name)
		if text == "" {
			return time.Time{}, false, nil
		}
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, false, fmt.Errorf("%q is not a number of seconds since 1970", text)
		}
		return time.Unix(seconds, 0), true, nil
	}
}

// squeue asks Slurm, older releases of which do not set a variable.
func squeue(environ Environ, run Run) (time.Time, bool, error) {
	id, _ := environ("SLURM_JOB_ID")
	if id == "" {
		return time.Time{}, false, nil
	}
	text, err := run("squeue", "--noheader", "--jobs", id, "--format", "%e")
	if err != nil {
		return time.Time{}, false, err
	}
	switch text {
	case "", "N/A", "NONE", "Unknown", "UNLIMITED":
		return time.Time{}, false, nil
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	return t, err == nil, err
}

// flux asks Flux, which tells what is left.
func flux(environ Environ, run Run) (time.Time, bool, error) {
	if id, _ := environ("FLUX_JOB_ID"); id == "" {
		return time.Time{}, false, nil
	}
	text, err := run("flux", "job", "timeleft")
	if err != nil {
		return time.Time{}, false, err
	}
	left, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%q is not a number of seconds", text)
	}
	const year = 365 * 24 * 3600
	if left > year { // as good as no end
		return time.Time{}, false, nil
	}
	return time.Now().Add(time.Duration(left * float64(time.Second))), true, nil
}

// command runs a command of the system that should answer soon.
func command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = time.Second
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w %s", strings.Join(c.Args, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
