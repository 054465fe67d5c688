package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goscr/goscr/internal/job/request"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/sys/processes"
)

// jobNamed says which running job a command is about. Of its fields one is set at most,
// except that job may come with prefix.
type jobNamed struct {
	pid    int    // of the launcher, on this machine
	job    string // its id
	prefix string // its prefix directory
}

// find returns the prefix directory of the job, "" if that is not known yet. runs says
// whether something runs in which the job is, or may begin. before is what the last call
// has returned.
func (n jobNamed) find(before string) (dir string, runs bool, err error) {
	switch {
	case n.pid != 0:
		dir, err := prefixOfProcess(n.pid)
		return dir, true, err
	case n.job != "" && n.prefix == "":
		if before != "" && (request.Alive(before) || request.Restarts(before)) {
			return before, true, nil
		}
		dir = prefixOfJob(n.job)
	default:
		if dir, err = prefixDir(n.prefix); err != nil {
			return "", false, err
		}
	}
	return dir, dir != "" && (request.Alive(dir) || request.Restarts(dir)), nil
}

// launcherRuns reports whether the launcher that was named runs.
func (n jobNamed) launcherRuns() bool {
	if n.pid == 0 {
		return false
	}
	p, err := processes.Read(n.pid)
	return err == nil && p.State != 'Z'
}

// denied explains the error of a request to a job that the caller may not ask for anything.
func denied(dir string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("the job with the prefix directory %s is of %s, and only that user or root can do this: %w", dir, ownerOf(dir), err)
}

// ownerOf is the user to whom a prefix directory belongs, for messages.
func ownerOf(dir string) string {
	info, err := os.Stat(filepath.Join(dir, prefix.Metadata))
	if err != nil {
		return "another user"
	}
	id := strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return "user " + u.Username
	}
	return "user " + id
}

// noJob is the error if no job runs. dir is "" if no prefix directory was found.
func (n jobNamed) noJob(dir string) error {
	if dir == "" {
		return fmt.Errorf("no job %s is found on this machine, in the current directory or by Slurm; name its prefix directory with -p", n.job)
	}
	f, err := os.Open(request.LockPath(dir))
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the prefix directory %s belongs to %s, and only that user or root can see whether a job runs with it", dir, ownerOf(dir))
	}
	f.Close()
	return fmt.Errorf("no job that uses goscr runs with the prefix directory %s", dir)
}

// prefixOfProcess returns the prefix directory of the job that a launcher has started, "" if the
// program has not come to SCR_Init yet.
func prefixOfProcess(pid int) (string, error) {
	p, err := processes.Read(pid)
	if err != nil {
		return "", err
	}
	if p.State == 'Z' {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	if _, err := processes.Environ(pid); errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("the environment of process %d, which belongs to user %d, cannot be read: only that user or root can find its job", pid, p.UID)
	}
	for _, p := range append([]processes.Process{p}, processes.Below(pid)...) {
		if i := slices.IndexFunc(prefixesOf(p), request.Alive); i >= 0 {
			return prefixesOf(p)[i], nil
		}
	}
	return "", nil
}

// prefixesOf returns what may be the prefix directory of a process, likely ones first.
func prefixesOf(p processes.Process) (list []string) {
	dir, err := processes.Dir(p.PID)
	if err != nil {
		return nil
	}
	environ, _ := processes.Environ(p.PID) // nil if it cannot be read
	if value, ok := processes.Variable(environ, "SCR_PREFIX"); ok {
		list = append(list, value)
	}
	for i, word := range p.Argv { // of scr_run, and of a launcher that sets variables
		for _, begin := range []string{"SCR_PREFIX=", "--prefix="} {
			if value, ok := strings.CutPrefix(word, begin); ok {
				list = append(list, value)
			}
		}
		if (word == "-p" || word == "--prefix") && i+1 < len(p.Argv) {
			list = append(list, p.Argv[i+1])
		}
	}
	list = append(list, dir)
	for i, d := range list {
		if !filepath.IsAbs(d) {
			list[i] = filepath.Join(dir, d)
		}
	}
	return list
}

// prefixOfJob returns the prefix directory of a job by its id: the current one, one of a process
// on this machine that belongs to the job, or the directory in which Slurm has started it;
// "" if it is none of these.
func prefixOfJob(id string) string {
	if dir, err := prefixDir(""); err == nil && request.Alive(dir) {
		return dir
	}
	for _, p := range processes.All() {
		environ, err := processes.Environ(p.PID)
		if err != nil || p.PID == os.Getpid() {
			continue
		}
		for _, name := range []string{"SCR_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"} {
			if value, _ := processes.Variable(environ, name); value != id {
				continue
			}
			if i := slices.IndexFunc(prefixesOf(p), request.Alive); i >= 0 {
				return prefixesOf(p)[i]
			}
		}
	}
	out, err := exec.Command("squeue", "--noheader", "--jobs="+id, "--format=%Z").Output()
	if dir := strings.TrimSpace(string(out)); err == nil && dir != "" {
		if _, err := os.Stat(filepath.Join(dir, prefix.Metadata)); err == nil {
			return dir
		}
	}
	return ""
}
