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
		x, err := prefix.ReadIndex(s.prefix.Dir)
		if err != nil {
			return err
		}
		e, ok := x.Find(name)
		if !ok && cached != nil {
			return nil // it will be entered when it is flushed
		}
		if ok {
			id[0], id[1] = int64(e.ID), int64(e.Checkpoint())
		}
		return s.markCurrent(name)
	})
	if err != nil {
		return err
	}
	if err := s.world.Allreduce(id, mpi.Max); err != nil {
		return err
	}
	if err := s.forgetAfter(int(id[0])); err != nil {
		return err
	}
	if cached == nil {
		// It has to be fetched, and what is older would go before it as well.
		if err := s.forgetWhere(func(c *cache.Cached) bool { return c.Flags().Has(Checkpoint) }); err != nil {
			return err
		}
	}
	delete(s.useless, int(id[0])) // it gets another chance
	if err := s.offerAgain(); err != nil {
		return err
	}
	s.checkpoint = int(id[1])
	return nil
}

// Drop takes the dataset of a name out of the index and the cache, so that it is
// not restarted from. Its files in the prefix directory stay. A name that is not
// there is no error.
func (s *Session) Drop(name string) error {
	return s.remove("Drop", name, func() error {
		return s.onRoot(func() error {
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

// remove deletes all datasets of a name from the cache, and from the prefix
// directory as there says. If it was what a restart is offered, another is.
func (s *Session) remove(call, name string, there func() error) error {
	if err := s.named(call, name); err != nil {
		return err
	}
	offered := s.restart != nil && s.restart.Name() == name
	if offered {
		s.offer(nil)
	}
	if err := s.forgetWhere(func(c *cache.Cached) bool { return c.Name() == name }); err != nil {
		return err
	}
	if err := there(); err != nil || !offered {
		return err
	}
	return s.offerAgain()
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

// offerAgain offers what there now is, as long as a restart is possible.
func (s *Session) offerAgain() error {
	if s.started {
		return nil
	}
	return s.offerNewest()
}

// forgetWhere deletes the datasets from the cache that are so.
func (s *Session) forgetWhere(so func(*cache.Cached) bool) error {
	for _, c := range slices.Clone(s.cache.List()) {
		if !so(c) {
			continue
		}
		s.log.Info("dataset %d (%s) leaves the cache", c.ID(), c.Name())
		if err := s.forget(c); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes a dataset from the cache.
func (s *Session) forget(c *cache.Cached) error {
	if f := s.flightOf(c); f != nil {
		if err := s.cancel(f); err != nil {
			return err
		}
	}
	if err := s.cache.Delete(c.ID()); err != nil {
		return err
	}
	delete(s.flushed, c.ID())
	s.note(func() error { return prefix.Locate(s.prefix.Dir, c.Dataset, prefix.InCache, false) })
	return nil
}
