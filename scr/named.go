package scr

import (
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
)

// Current makes the dataset of a name the one to restart from: HaveRestart
// offers it, as long as the program has written none, and so does the next run.
// Datasets in the cache that would go before it are dropped there.
func (s *Session) Current(name string) error {
	if err := s.checkNamed("Current", name); err != nil {
		return err
	}
	checkpoint, err := s.restart.SetCurrent(name, !s.started)
	if err := s.offerRestart(err); err != nil {
		return err
	}
	s.numbers.checkpoint = checkpoint
	return nil
}

// Drop takes the dataset of a name out of the index and the cache, so that it is
// not restarted from. Its files in the prefix directory stay. A name that is not
// there is no error.
func (s *Session) Drop(name string) error {
	return s.remove("Drop", name, func() error {
		return mpi.OnRoot(s.world, func() error {
			return prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error { x.Remove(name); return nil })
		})
	})
}

// Delete removes the dataset of a name, with its files and the directories that
// leaves empty, from the prefix directory and from the cache. A name that is not
// there is no error.
func (s *Session) Delete(name string) error {
	return s.remove("Delete", name, func() error { return s.prefix.Delete(name) })
}

// remove removes all datasets of a name from the cache, and from the prefix
// directory as there does. If it was what a restart is offered, another is.
func (s *Session) remove(call, name string, there func() error) error {
	if err := s.checkNamed(call, name); err != nil {
		return err
	}
	return s.offerRestart(s.restart.Remove(name, !s.started, there))
}

// checkNamed checks that a dataset can be dealt with, and that all ranks mean the same.
func (s *Session) checkNamed(call, name string) error {
	if err := s.state.expect(call, idle); err != nil {
		return err
	}
	return sameEverywhere(s.world, name, 0)
}
