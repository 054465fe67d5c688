package session

import (
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/internal/prefix/dataset"
	"github.com/goscr/goscr/mpi"
)

// Current makes the dataset called name the one to restart from: HaveRestart offers it
// in this run, until the program begins a dataset, and in the next run. Current deletes
// datasets from the cache that would be offered before it. It returns an error if there
// is no dataset of that name.
func (s *Session) Current(name string) error {
	return s.call("Current", func() error { return s.current(name) })
}

func (s *Session) current(name string) error {
	if err := s.checkNamed("Current", name); err != nil {
		return err
	}
	chosen, err := s.restart.SetCurrent(name, !s.started)
	if err := s.offerRestart(err); err != nil {
		return err
	}
	if chosen.Checkpoint > 0 { // an output has no number
		s.numbers.checkpoint.set(chosen.Series, chosen.Checkpoint)
	}
	s.numbers.history, s.numbers.goesOn, s.numbers.asked = chosen.History, true, true
	return nil
}

// Drop removes the dataset called name from the index and the cache, so that no restart
// uses it. Its files in the prefix directory stay. Drop returns nil if there is no such
// dataset.
func (s *Session) Drop(name string) error {
	return s.remove("Drop", name, func() error {
		return mpi.OnRoot(s.world, func() error {
			return prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error {
				if e, ok := x.Find(name); ok && e.Of(mine(s)) {
					x.Remove(name)
				}
				return nil
			})
		})
	})
}

// Delete removes the dataset called name, its files, and directories that become empty,
// from the prefix directory and from the cache. It returns nil if there is no such
// dataset.
func (s *Session) Delete(name string) error {
	return s.remove("Delete", name, func() error { return s.prefix.Delete(name, mine(s)) })
}

// mine is the history whose datasets the program can remove. Once it has begun a dataset, a name is one that it has given itself:
// it may also be of a checkpoint that the run has not gone on from.
func mine(s *Session) int64 {
	if !s.started {
		return dataset.AnyHistory
	}
	return s.numbers.history
}

// remove removes all datasets called name from the cache, and calls there to remove them
// from the prefix directory. If one of them was offered for a restart, another is offered.
func (s *Session) remove(call, name string, there func() error) error {
	return s.call(call, func() error {
		if err := s.checkNamed(call, name); err != nil {
			return err
		}
		return s.offerRestart(s.restart.Remove(name, mine(s), !s.started, there))
	})
}

// checkNamed checks that the call is possible now, and that all ranks gave the same
// name.
func (s *Session) checkNamed(call, name string) error {
	if err := s.state.expect(call, idle); err != nil {
		return err
	}
	_, err := sameEverywhere(s.world, name, 0, false)
	return err
}
