package scr

import (
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/prefix"
	"github.com/goscr/goscr/mpi"
)

// Current makes the dataset of a name the one to restart from: HaveRestart
// offers it, as long as the program has written none, and so does the next run.
// Datasets in the cache that would go before it are dropped there.
func (s *Session) Current(name string) error {
	if err := s.named("Current", name); err != nil {
		return err
	}
	cached := s.find(name)
	id := []int64{0, 0} // of the dataset, 0 if there is none; its number as a checkpoint
	err := s.onRoot(func() error {
		if cached != nil {
			id[0], id[1] = int64(cached.ID()), int64(cached.Checkpoint())
		}
		return prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error {
			err := x.SetCurrent(name)
			if err != nil && cached != nil {
				return nil // it will be entered when it is flushed
			}
			for _, e := range x.Entries() {
				if e.Name == name {
					id[0], id[1] = int64(e.ID), int64(e.Checkpoint())
				}
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := s.world.Allreduce(id, mpi.Max); err != nil {
		return err
	}
	for _, c := range slices.Clone(s.cache.List()) {
		// What is older goes before it as well if it has to be fetched.
		if c.ID() > int(id[0]) || cached == nil && c.Flags().Has(Checkpoint) {
			s.log.Info("dataset %s leaves the cache, since %s is to be the current one", c.Name(), name)
			if err := s.forget(c); err != nil {
				return err
			}
		}
	}
	s.offerNewest()
	s.checkpoint = int(id[1])
	return nil
}

// Drop takes the dataset of a name out of the index and the cache, so that it is
// not restarted from. Its files in the prefix directory stay. A name that is not
// there is no error.
func (s *Session) Drop(name string) error {
	if err := s.named("Drop", name); err != nil {
		return err
	}
	if err := s.forgetNamed(name); err != nil {
		return err
	}
	return s.onRoot(func() error {
		return prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error { x.Remove(name); return nil })
	})
}

// Delete removes the dataset of a name, with its files and the directories that
// leaves empty, from the prefix directory and from the cache. A name that is not
// there is no error.
func (s *Session) Delete(name string) error {
	if err := s.named("Delete", name); err != nil {
		return err
	}
	if err := s.forgetNamed(name); err != nil {
		return err
	}
	return s.prefix.Delete(name)
}

// named checks that a dataset can be dealt with, and that all ranks mean the same.
func (s *Session) named(call, name string) error {
	if err := s.expect(call, idle); err != nil {
		return err
	}
	return s.sameEverywhere(call, name, 0)
}

// find returns the dataset of a name in the cache, the newest if there are
// several, nil if there is none.
func (s *Session) find(name string) *cache.Cached {
	for _, c := range s.cache.List() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// forgetNamed deletes all datasets of a name from the cache.
func (s *Session) forgetNamed(name string) error {
	for c := s.find(name); c != nil; c = s.find(name) {
		if err := s.forget(c); err != nil {
			return err
		}
	}
	s.offerNewest()
	return nil
}

// offerNewest offers the newest checkpoint in the cache, as long as a restart is
// possible.
func (s *Session) offerNewest() {
	if !s.started {
		s.offer(s.newestCheckpoint())
	}
}

// forget deletes a dataset from the cache.
func (s *Session) forget(c *cache.Cached) error {
	if err := s.cache.Delete(c.ID()); err != nil {
		return err
	}
	delete(s.flushed, c.ID())
	s.note(func() error { return prefix.Locate(s.prefix.Dir, c.Dataset, prefix.InCache, false) })
	return nil
}
