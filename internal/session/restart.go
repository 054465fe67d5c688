package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/lifecycle/restart"
	"github.com/goscr/goscr/internal/observe/eventlog"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// HaveRestart reports whether there is a checkpoint to restart from, and returns its
// name. It offers the newest one in the cache; if the cache has none, it fetches one from
// the prefix directory. After a dataset has been completed, it offers the newest
// checkpoint that is complete now, which the program has just written as a rule.
func (s *Session) HaveRestart() (name string, ok bool, err error) {
	err = s.call("HaveRestart", func() error {
		name, ok, err = s.haveRestart()
		return err
	})
	return name, ok && err == nil, err
}

// errMustRestart is the error if the user wants no run that starts from the beginning.
var errMustRestart = errors.New("there is no checkpoint from which the program can restart, and SCR_RESTART=must: SCR_RESTART=may lets it start from the beginning")

// mustRestart returns an error, which is agreed, if the user wants no run that starts from the beginning.
func mustRestart(world mpi.Comm, cfg *config.Config) error {
	if cfg.Restart != "MUST" {
		return nil
	}
	return mpi.OnRoot(world, func() error { return errMustRestart })
}

func (s *Session) haveRestart() (name string, ok bool, err error) {
	if err := s.state.expect("HaveRestart", idle); err != nil {
		return "", false, err
	}
	s.numbers.asked = true
	if err := s.restart.Stopped(); err != nil && !s.started {
		return "", false, mpi.OnRoot(s.world, func() error { return err })
	}
	if s.started { // the numbers of datasets continue from the last one
		err = s.restart.FindInRun()
	} else {
		err = s.offerRestart(s.restart.Find(true))
	}
	if err != nil {
		return "", false, err
	}
	offer := s.restart.Offered()
	if offer == nil {
		if !s.started {
			s.numbers.goesOn = false
			if err := mustRestart(s.world, s.config); err != nil {
				return "", false, err
			}
			s.tellBeginning(true)
		}
		return "", false, nil
	}
	if !s.started && s.world.Rank() == 0 {
		restart.WarnOfNewer(s.restart)
	}
	return offer.Name(), true, nil
}

// offerRestart continues counting from the checkpoint that a search has offered. err is
// the error of the search.
func (s *Session) offerRestart(err error) error {
	if offer := s.restart.Offered(); offer != nil {
		s.numbers.continueFrom(offer.Dataset)
	}
	return err
}

// StartRestart begins to restart from the checkpoint that HaveRestart offered,
// and returns its name. Until CompleteRestart, Route returns the paths of its files.
func (s *Session) StartRestart() (name string, err error) {
	err = s.call("StartRestart", func() error {
		name, err = s.startRestart()
		return err
	})
	return name, err
}

func (s *Session) startRestart() (name string, err error) {
	if err := s.state.expect("StartRestart", idle); err != nil {
		return "", err
	}
	offer := s.restart.Offered()
	if offer == nil {
		return "", s.state.misplaced("StartRestart", "there is no checkpoint to restart from; {HaveRestart} says whether there is one")
	}
	s.numbers.asked = true
	s.prefix.Note(func() error { return prefix.BeginRestart(s.prefix.Dir, offer.Dataset) })
	s.state, s.began = restarting, time.Now()
	s.events.Dataset(eventlog.RestartStart, offer.Dataset, eventlog.Record{})
	return offer.Name(), nil
}

// CompleteRestart ends a restart. valid says whether this rank has read the data that it
// needs. If it is false on any rank, the checkpoint is not used again, every rank gets an
// error, and HaveRestart offers the next older checkpoint. If the program has refused two
// checkpoints on all ranks, HaveRestart offers no older one, and returns an error: its input may be another.
func (s *Session) CompleteRestart(valid bool) error {
	return s.call("CompleteRestart", func() error { return s.completeRestart(valid) })
}

func (s *Session) completeRestart(valid bool) error {
	if err := s.state.expect("CompleteRestart", restarting); err != nil {
		return err
	}
	s.state = idle
	s.prefix.Note(func() error { return prefix.EndRestart(s.prefix.Dir) })
	offer := s.restart.Offered()
	var err error
	if !valid {
		err = fmt.Errorf("the program could not restart from %s; it is not used again, unless SCR_CURRENT=%s names it", offer.Name(), offer.Name())
	}
	failed := mpi.Agree(s.world, err)
	s.events.Result(eventlog.RestartSuccess, eventlog.RestartFail, offer.Dataset, s.began, failed)
	if failed == nil {
		s.prefix.Note(func() error { return prefix.Acquit(s.prefix.Dir, offer.Dataset) })
		s.numbers.checkpoint.set(offer.Series(), offer.Checkpoint())
		s.restart.Accepted()
		return nil
	}
	s.log.Info("%v", failed)
	byAll := mpi.All(s.world, !valid)
	s.numbers.goesOn = false
	return errors.Join(returned(failed), s.offerRestart(s.restart.Fail(byAll && !s.started)))
}

// stopRestart withdraws the offered checkpoint when the program begins a dataset.
func (s *Session) stopRestart() error {
	defer s.restart.Withdraw()
	if s.started {
		return nil
	}
	if s.numbers.goesOn {
		// A program that was offered a checkpoint, and has not asked for it, starts from the beginning.
		s.numbers.goesOn = mpi.Any(s.world, s.numbers.asked)
	}
	if !s.numbers.goesOn {
		s.restart.Withdraw()
		s.numbers.history = beginHistory(s.config, s.numbers.id)
		if s.numbers.history != dataset.AnyHistory {
			newest, err := s.flusher.Contents.Newest("")
			if err != nil {
				return err
			}
			s.flusher.Left.SaveAbandoned(newest)
		}
		s.tellBeginning(false)
	}
	s.started = true
	return nil
}

// readsItself reports whether the user has said that the program itself reads the newest checkpoint in the prefix directory.
func readsItself(c *config.Config) bool { return c.FlushOnRestart || c.GlobalRestart }

// beginHistory returns the history of a run that starts from the beginning. That of rank 0 counts. newest is the number of the newest
// dataset: if there is none, there is nothing from which the history has to be told.
func beginHistory(c *config.Config, newest int) int64 {
	if newest == 0 {
		return dataset.UnknownHistory
	}
	if c.Restart == "NEVER" || !c.Fetch || readsItself(c) {
		return dataset.AnyHistory
	}
	return time.Now().UnixMicro()
}
