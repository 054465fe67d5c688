package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/goscr/goscr/internal/config"
	"github.com/goscr/goscr/internal/lifecycle/flush"
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
	err = s.callIn(idle, "HaveRestart", func() error {
		name, ok, err = s.reader.have()
		return err
	})
	return name, ok && err == nil, err
}

// StartRestart begins to restart from the checkpoint that HaveRestart offered,
// and returns its name. Until CompleteRestart, Route returns the paths of its files.
func (s *Session) StartRestart() (name string, err error) {
	err = s.callIn(idle, "StartRestart", func() error {
		if name, err = s.reader.start(); err == nil {
			s.state = restarting
		}
		return err
	})
	return name, err
}

// CompleteRestart ends a restart. valid says whether this rank has read the data that it
// needs. If it is false on any rank, the checkpoint is not used again, every rank gets an
// error, and HaveRestart offers the next older checkpoint. If the program has refused two
// checkpoints on all ranks, HaveRestart offers no older one, and returns an error: its input may be another.
func (s *Session) CompleteRestart(valid bool) error {
	return s.callIn(restarting, "CompleteRestart", func() error {
		s.state = idle
		return s.reader.complete(valid)
	})
}

// reader lets the program restart: it offers a checkpoint, routes its files while the program reads it, and knows
// whether the run continues from it.
type reader struct {
	*common
	restart *restart.Restart
	flusher *flush.Flusher
	numbers *numbers

	goesOn    bool      // the run continues from a checkpoint, which is offered, accepted or chosen
	asked     bool      // the program has asked for a checkpoint; Route asks on the caller only
	started   bool      // a dataset has been begun in this run
	began     time.Time // when the restart that is under way began
	beginning bool      // it has been logged that there is no checkpoint to restart from
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

// have offers a checkpoint, and returns its name.
func (r *reader) have() (name string, ok bool, err error) {
	r.asked = true
	if err := r.restart.Stopped(); err != nil && !r.started {
		return "", false, mpi.OnRoot(r.world, func() error { return err })
	}
	if r.started { // the numbers of datasets continue from the last one
		err = r.restart.FindInRun()
	} else {
		err = r.offer(r.restart.Find(true))
	}
	if err != nil {
		return "", false, err
	}
	offer := r.restart.Offered()
	if offer == nil {
		if !r.started {
			r.goesOn = false
			if err := mustRestart(r.world, r.config); err != nil {
				return "", false, err
			}
			r.tellBeginning(true)
		}
		return "", false, nil
	}
	if !r.started && r.world.Rank() == 0 {
		restart.WarnOfNewer(r.restart)
	}
	return offer.Name(), true, nil
}

// findIn offers the newest checkpoint of a series of which wanted is true, if there is one.
func (r *reader) findIn(series string, wanted func(version int) bool) error {
	err := r.restart.FindIn(series, wanted, r.started)
	if !r.started { // else the run has a history, and numbers of its own, as in have
		err = r.offer(err)
	}
	if err != nil {
		return err
	}
	r.asked = r.asked || r.restart.Offered() != nil
	return nil
}

// offer continues counting from the checkpoint that a search has offered. err is
// the error of the search.
func (r *reader) offer(err error) error {
	if offer := r.restart.Offered(); offer != nil {
		r.numbers.continueFrom(offer.Dataset)
		r.goesOn = true
	}
	return err
}

// start begins to read the offered checkpoint, and returns its name.
func (r *reader) start() (name string, err error) {
	offer := r.restart.Offered()
	if offer == nil {
		return "", idle.misplaced("StartRestart", "there is no checkpoint to restart from; {HaveRestart} says whether there is one")
	}
	r.asked = true
	restart.MarkOffered(r.restart)
	r.prefix.Note(func() error { return prefix.BeginRestart(r.prefix.Dir, offer.Dataset) })
	r.began = time.Now()
	r.events.Dataset(eventlog.RestartStart, offer.Dataset, eventlog.Record{})
	return offer.Name(), nil
}

// complete ends what start has begun.
func (r *reader) complete(valid bool) error {
	r.prefix.Note(func() error { return prefix.EndRestart(r.prefix.Dir) })
	offer := r.restart.Offered()
	var err error
	if !valid {
		err = fmt.Errorf("the program could not restart from %s; it is not used again, unless SCR_CURRENT=%s names it", offer.Name(), offer.Name())
	}
	failed := mpi.Agree(r.world, err)
	r.events.Result(eventlog.RestartSuccess, eventlog.RestartFail, offer.Dataset, r.began, failed)
	if failed == nil {
		r.prefix.Note(func() error { return prefix.Acquit(r.prefix.Dir, offer.Dataset) })
		r.numbers.checkpoint.set(offer.Series(), offer.Checkpoint())
		r.restart.Accepted()
		return nil
	}
	r.log.Info("%v", failed)
	byAll := mpi.All(r.world, !valid)
	r.goesOn = false
	return errors.Join(returned(failed), r.offer(r.restart.Fail(byAll && !r.started)))
}

// abandon ends a restart that the program has begun and not completed.
func (r *reader) abandon(why error) {
	r.events.Result(eventlog.RestartSuccess, eventlog.RestartFail, r.restart.Offered().Dataset, r.began, why)
}

// stop withdraws the offered checkpoint when the program begins a dataset.
func (r *reader) stop() error {
	defer r.restart.Withdraw()
	if r.started {
		return nil
	}
	if r.goesOn {
		// A program that was offered a checkpoint, and has not asked for it, starts from the beginning.
		r.goesOn = mpi.Any(r.world, r.asked)
	}
	if !r.goesOn {
		r.restart.Withdraw()
		r.numbers.history = beginHistory(r.config, r.numbers.id)
		if r.numbers.history != dataset.AnyHistory {
			newest, err := r.flusher.Contents.Newest("")
			if err != nil {
				return err
			}
			flush.NewLeftovers(r.flusher).SaveAbandoned(newest)
		}
		r.tellBeginning(false)
	}
	r.started = true
	return nil
}

// route returns the path that a file of the offered checkpoint has now.
func (r *reader) route(name string) (string, error) {
	below, err := r.paths.below(name)
	if err != nil {
		return r.restart.Route(name) // the last element of name may suffice
	}
	if path, ok := r.restart.Written(below); ok {
		return path, nil
	}
	direct, err := r.paths.direct(below)
	if err != nil {
		return "", err
	}
	return r.restart.Route(name, below, direct)
}

// routeUnasked returns the path of a file for a program that has not called StartRestart: those that use SCR's first API read
// a checkpoint so. If it is no file of the offered checkpoint, it has its own name.
func (r *reader) routeUnasked(name string) string {
	if r.restart.Offered() == nil || r.started {
		return name
	}
	path, err := r.route(name)
	if err != nil {
		return name
	}
	r.asked = true
	return path
}

// tellBeginning logs, once, that there is no checkpoint from which the run restarts. asked is whether the
// program has asked for one.
func (r *reader) tellBeginning(asked bool) {
	if r.beginning || r.restart.Offered() != nil {
		return
	}
	r.beginning = true
	missed := ""
	if r.world.Rank() == 0 && (asked || !readsItself(r.config)) {
		missed = r.restart.Missed(asked)
	}
	if missed != "" {
		r.log.WarnJob("THE RUN STARTS FROM THE BEGINNING, although %s. What is there is not replaced. SCR_RESTART=must makes this an error; with SCR_RESTART=never, or SCR_FETCH=0, the run replaces it without a word", missed)
	} else {
		r.log.Info("no checkpoint to restart from: the run starts from the beginning")
	}
	r.events.Add(eventlog.Record{Type: eventlog.RestartNone, Note: "from the beginning"})
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

// UnknownError says that there is no dataset of a name.
type UnknownError = restart.UnknownError

// Current makes the dataset called name the one to restart from: HaveRestart offers it
// in this run, until the program begins a dataset, and in the next run. Current deletes
// datasets from the cache that would be offered before it. It returns an *UnknownError if there
// is no dataset of that name.
func (s *Session) Current(name string) error {
	return s.call("Current", func() error {
		if err := s.state.expectNamed(s.world, "Current", name); err != nil {
			return err
		}
		return s.reader.current(name)
	})
}

// Drop removes the dataset called name from the index and the cache, so that no restart
// uses it. Its files in the prefix directory stay. Drop returns nil if there is no such
// dataset.
func (s *Session) Drop(name string) error {
	return s.remove("Drop", name, func() error {
		return mpi.OnRoot(s.world, func() error {
			return prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error { s.reader.meant(name).Drop(x); return nil })
		})
	})
}

// Delete removes the dataset called name, its files, and directories that become empty,
// from the prefix directory and from the cache. It returns nil if there is no such
// dataset.
func (s *Session) Delete(name string) error {
	return s.remove("Delete", name, func() error { return s.prefix.Delete(s.reader.meant(name)) })
}

// remove removes all datasets called name from the cache, and calls there to remove them
// from the prefix directory. If one of them was offered for a restart, another is offered.
func (s *Session) remove(call, name string, there func() error) error {
	return s.call(call, func() error {
		if err := s.state.expectNamed(s.world, call, name); err != nil {
			return err
		}
		return s.reader.remove(name, there)
	})
}

// current makes a dataset the one that the run continues from.
func (r *reader) current(name string) error {
	chosen, err := r.restart.SetCurrent(name, !r.started)
	if err := r.offer(err); err != nil {
		return err
	}
	if chosen.Checkpoint > 0 { // an output has no number
		r.numbers.checkpoint.set(chosen.Series, chosen.Checkpoint)
	}
	r.numbers.history, r.goesOn, r.asked = chosen.History, true, true
	return nil
}

// remove removes datasets, as Session.remove says, and offers another one.
func (r *reader) remove(name string, there func() error) error {
	return r.offer(r.restart.Remove(name, r.meant(name).Of, !r.started, there))
}

// meant returns what the program means by the name of datasets to remove. Once it has begun a dataset, a name is one that it has given
// itself: it may also be of a checkpoint that the run has not gone on from.
func (r *reader) meant(name string) prefix.Meant {
	m := prefix.Meant{Name: name, Of: dataset.AnyHistory, GoesOn: r.goesOn, Continued: r.numbers.history}
	if r.started {
		m.Of = r.numbers.history
	}
	return m
}
