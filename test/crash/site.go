package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goscr/goscr/test/tracer"
)

// A site has the directories of a job, all below one: node/NAME of each node, prefix,
// and shared. Beside them are the log of the program and what the last run said.
type site struct {
	settings
	root string
	said bytes.Buffer
}

func newSite(s settings) (*site, error) {
	base := "/dev/shm" // where syncing takes no time
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = ""
	}
	root, err := os.MkdirTemp(base, "goscr-crash-")
	if err != nil {
		return nil, err
	}
	root, err = filepath.EvalSymlinks(root)
	return &site{settings: s, root: root}, err
}

func (s *site) close() { os.RemoveAll(s.root) }

func (s *site) at(name ...string) string { return filepath.Join(append([]string{s.root}, name...)...) }

// tops are the directories that a job sees.
var tops = []string{"node", "prefix", "shared"}

// clear makes all directories empty.
func (s *site) clear() error {
	var err error
	for _, name := range append(tops, "log") {
		err = errors.Join(err, os.RemoveAll(s.at(name)))
	}
	for _, name := range tops {
		err = errors.Join(err, os.Mkdir(s.at(name), 0o700))
	}
	return err
}

// lose removes the storage of nodes.
func (s *site) lose(nodes ...string) error {
	var err error
	for _, n := range nodes {
		err = errors.Join(err, os.RemoveAll(s.at("node", n)))
	}
	return err
}

// loseAll removes the storage of all nodes there are.
func (s *site) loseAll() error {
	return errors.Join(os.RemoveAll(s.at("node")), os.Mkdir(s.at("node"), 0o700))
}

// saved is a file, a directory or a link as it was.
type saved struct {
	path string
	mode fs.FileMode
	time time.Time
	data []byte
}

// save returns all that is at the site.
func (s *site) save() (list []saved, err error) {
	for _, top := range append(tops, "log") {
		err := filepath.WalkDir(s.at(top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			f := saved{path: path, mode: info.Mode(), time: info.ModTime()}
			switch {
			case info.Mode().IsRegular():
				f.data, err = os.ReadFile(path)
			case info.Mode()&fs.ModeSymlink != 0:
				var to string
				to, err = os.Readlink(path)
				f.data = []byte(to)
			}
			list = append(list, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// restore puts back what was saved. Directories get their modes and times last.
func (s *site) restore(list []saved) error {
	if err := s.clear(); err != nil {
		return err
	}
	var err error
	for _, f := range list {
		switch {
		case f.mode.IsDir():
			err = errors.Join(err, os.MkdirAll(f.path, 0o700))
		case f.mode&fs.ModeSymlink != 0:
			when, failed := unix.TimeToTimespec(f.time)
			err = errors.Join(err, failed, os.Symlink(string(f.data), f.path),
				unix.UtimesNanoAt(unix.AT_FDCWD, f.path, []unix.Timespec{when, when}, unix.AT_SYMLINK_NOFOLLOW))
		case f.mode.IsRegular():
			err = errors.Join(err, os.WriteFile(f.path, f.data, 0o600), os.Chmod(f.path, f.mode.Perm()), os.Chtimes(f.path, f.time, f.time))
		}
	}
	for _, f := range slices.Backward(list) {
		if f.mode.IsDir() {
			err = errors.Join(err, os.Chmod(f.path, f.mode.Perm()), os.Chtimes(f.path, f.time, f.time))
		}
	}
	return err
}

// events is what the log of the program says.
type events struct {
	begun, complete int // the highest
	restarted       int // of the last run, -1 if it has not
	ended           bool
}

// startRun notes in the log that a run begins.
func (s *site) startRun() error {
	f, err := os.OpenFile(s.at("log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("run 0\n")
	return errors.Join(err, f.Close())
}

func (s *site) events() (e events, err error) {
	data, err := os.ReadFile(s.at("log"))
	for line := range strings.Lines(string(data)) {
		var what string
		var step int
		if n, _ := fmt.Sscan(line, &what, &step); n != 2 || !strings.HasSuffix(line, "\n") {
			continue // a kill has cut it
		}
		switch {
		case what == "run":
			e.restarted, e.ended = -1, false
		case what == "begun":
			e.begun = max(e.begun, step)
		case what == "complete":
			e.complete = max(e.complete, step)
		case what == "restarted":
			e.restarted = max(e.restarted, step)
		case what == "ended":
			e.ended = true
		}
	}
	return e, err
}

// run runs argv under the tracer.
func (s *site) run(argv, env []string, at int, victim tracer.Victim) (tracer.Result, error) {
	s.said.Reset()
	var watched []string
	for _, top := range tops {
		watched = append(watched, s.at(top))
	}
	return tracer.Start(tracer.Run{
		Argv: argv, Dir: s.root, Output: &s.said, Watched: watched, At: at, Victim: victim,
		Env: append([]string{"PATH=" + s.tools + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, env...),
	})
}

// job is the command line of a job at this site.
func (s *site) job(j job) ([]string, error) {
	j.Root, j.Log = s.root, s.at("log")
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	return []string{self, "job", string(text)}, err
}
