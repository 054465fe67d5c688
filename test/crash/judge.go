package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/test/tracer"
)

// Fault is what is wrong after a kill.
type Fault string

// The faults that there can be.
const (
	Lost          Fault = "lost"           // a restart from an older checkpoint than there has to be
	Wrong         Fault = "wrong"          // other bytes, modes or times than were written
	FalseComplete Fault = "false complete" // the index has a dataset as complete that is not
	Hangs         Fault = "hangs"
	Fails         Fault = "fails"  // a call or a command fails after the kill
	Left          Fault = "litter" // parts of files that nobody removes; it harms nobody, and is only counted
)

// fault is an error with its kind.
type fault struct {
	Kind Fault
	Text string
}

func (f *fault) Error() string { return string(f.Kind) + ": " + f.Text }

func (s *site) fault(kind Fault, format string, args ...any) error {
	return &fault{kind, fmt.Sprintf(format, args...) + "\n" + s.said.String()}
}

// what happened in a case.
type outcome struct {
	killed   bool
	call     tracer.Call
	restarts int
	after    string // what was lost after the kill
}

// try runs a case at a site that has the state of its scenario.
func (s *site) try(sc *scenario, at int) (o outcome, err error) {
	result, err := s.strike(sc, at)
	if err != nil {
		return o, err
	}
	o.killed, o.call = result.Killed, result.Call
	if result.Hangs {
		return o, s.fault(Hangs, "the run that is killed")
	}
	if (!result.Killed && result.Status != 0) || result.Status == statusWrong {
		kind := Fails
		if result.Status == statusWrong {
			kind = Wrong
		}
		return o, s.fault(kind, "the run that is to be killed ended with status %d", result.Status)
	}
	if crashed(s.said.String()) {
		return o, s.fault(Fails, "the run that was killed has crashed")
	}
	stored, err := s.checkIndex(sc)
	if err != nil {
		return o, err
	}
	e, err := s.events()
	if err != nil {
		return o, err
	}
	if len(sc.commands) > 0 {
		return o, s.judgeCommands(sc, e, &o)
	}
	return o, s.judgeRun(sc, at, e, stored, &o)
}

func crashed(said string) bool {
	for _, sign := range []string{"internal error", "panic:", "fatal error", "goroutine ", "SIGSEGV"} {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}

// judgeRun checks what a run finds after another that was killed. Which nodes are lost
// in between differs from call to call.
func (s *site) judgeRun(sc *scenario, at int, e events, stored int, o *outcome) error {
	// All is as the scheme wants it, unless a run had something to rebuild or to move
	// and was killed before it had told the program of the checkpoint.
	whole := e.restarted >= 0 || len(sc.lost) == 0 && slices.Equal(sc.nodes, sc.first)
	losses := [][]string{nil}
	if whole && sc.bears > 0 {
		losses = append(losses, []string{sc.nodes[at%len(sc.nodes)]})
	}
	if whole && sc.bears > 1 {
		losses = append(losses, []string{sc.nodes[at%len(sc.nodes)], sc.nodes[(at+2)%len(sc.nodes)]})
	}
	if sc.keep != nothing {
		losses = append(losses, []string{"*"})
	}
	lost := losses[at/len(sc.nodes)%len(losses)]
	least := e.complete
	o.after = strings.Join(lost, " ")
	switch {
	case o.after == "*":
		if sc.keep == later {
			least = stored
		}
		if err := s.loseAll(); err != nil {
			return err
		}
	default:
		if err := s.lose(lost...); err != nil {
			return err
		}
	}
	if sc.kill != nil && sc.least == 0 {
		least = min(least, stored) // it has emptied the cache
	}
	if sc.least > 0 {
		least = min(least, sc.least)
	}
	found, err := s.restart(sc, job{Nodes: sc.nodes, Count: 1, End: true}, least, e.begun, o)
	if err != nil {
		return err
	}
	if _, err := s.checkIndex(sc); err != nil {
		return err
	}
	left := s.litter()
	// And what that run has written is there too.
	switch {
	case sc.keep != nothing && !slices.Contains(sc.env, "SCR_FLUSH_POSTSTAGE=1"):
		err = s.loseAll()
	case sc.bears > 0:
		err = s.lose(sc.nodes[(at+1)%len(sc.nodes)])
	}
	if err != nil {
		return err
	}
	if _, err = s.restart(sc, job{Nodes: sc.nodes}, found+1, found+1, o); err != nil {
		return err
	}
	return left
}

// judgeCommands does the commands again, and checks what a run finds that has nothing else.
func (s *site) judgeCommands(sc *scenario, e events, o *outcome) error {
	result, err := s.command(sc, 0)
	switch {
	case err != nil:
		return err
	case result.Hangs:
		return s.fault(Hangs, "the commands, done again")
	case result.Status != 0 || crashed(s.said.String()):
		return s.fault(Fails, "the commands, done again, end with status %d", result.Status)
	}
	if _, err := s.checkIndex(sc); err != nil {
		return err
	}
	if err := s.litter(); err != nil {
		return err
	}
	if err := s.loseAll(); err != nil {
		return err
	}
	_, err = s.restart(sc, job{Nodes: sc.nodes, Count: 1, End: true}, e.complete, e.begun, o)
	return err
}

// restart is a run that has to restart from one of some checkpoints, and returns from which.
func (s *site) restart(sc *scenario, j job, least, most int, o *outcome) (int, error) {
	o.restarts++
	result, err := s.play(sc, j)
	if err != nil {
		return 0, err
	}
	e, err := s.events()
	switch {
	case err != nil:
		return 0, err
	case result.Hangs:
		return 0, s.fault(Hangs, "the run after the kill")
	case result.Status == statusWrong:
		return 0, s.fault(Wrong, "the run after the kill")
	case result.Status != 0 || crashed(s.said.String()):
		return 0, s.fault(Fails, "the run after the kill ends with status %d", result.Status)
	case e.restarted < least:
		return 0, s.fault(Lost, "the run after the kill restarts from %d, %d has to be there", e.restarted, least)
	case e.restarted > most:
		return 0, s.fault(Wrong, "the run after the kill restarts from %d, the newest begun was %d", e.restarted, most)
	}
	return e.restarted, nil
}

// checkIndex checks that every dataset is right that the index has as complete, and
// returns the newest checkpoint among those, 0 if there is none.
func (s *site) checkIndex(sc *scenario) (newest int, err error) {
	x, err := prefix.ReadIndex(s.at("prefix"))
	if err != nil && strings.Contains(sc.name, "repair") {
		return 0, nil // was damaged before
	}
	if err != nil {
		return 0, s.fault(Fails, "%v", err)
	}
	var names []string
	for _, entry := range x.Entries() {
		if !entry.Complete || entry.Failed || !entry.Flags().Has(dataset.Checkpoint) {
			continue
		}
		step, err := strconv.Atoi(strings.TrimPrefix(entry.Name, "ckpt."))
		if err != nil {
			return 0, s.fault(Wrong, "the index has %q", entry.Name)
		}
		newest = max(newest, step)
		names = append(names, entry.Name)
		if sc.compressed() || sc.mpi {
			continue
		}
		for rank := range sc.nodes {
			for _, f := range contents(step, rank, sc.same) {
				if err := f.compare(s.at("prefix", f.name)); err != nil {
					return 0, s.fault(FalseComplete, "%s: %v", entry.Name, err)
				}
			}
		}
	}
	if len(names) > 0 && (sc.compressed() || sc.mpi) {
		said := s.said.String()
		result, err := s.run(append([]string{"scr_index", "-p", s.at("prefix"), "--verify"}, names...), nil, 0, tracer.All)
		if err != nil {
			return 0, err
		}
		if result.Status != 0 {
			return 0, s.fault(FalseComplete, "scr_index --verify %s: %s", strings.Join(names, " "), said)
		}
	}
	return newest, nil
}

// litter looks for parts of files in the prefix directory that a flush has left.
func (s *site) litter() error {
	return filepath.WalkDir(s.at("prefix"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".flush") {
			return s.fault(Left, "%s", path)
		}
		return err
	})
}
