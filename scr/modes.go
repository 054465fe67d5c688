package scr

import (
	"fmt"
	"slices"

	"github.com/goscr/goscr/internal/cache"
	"github.com/goscr/goscr/internal/dataset"
	"github.com/goscr/goscr/internal/prefix"
)

// takeUp makes what earlier runs have left usable, or removes it where a purge is
// asked for. What should be in the prefix directory by now is flushed.
func (s *Session) takeUp() error {
	missing, err := s.prefix.CompleteFlushes()
	if err != nil {
		return err
	}
	if s.config.PrefixPurge {
		if err := s.prefix.Purge(); err != nil {
			return err
		}
	}
	take := s.cache.Rebuild
	if s.config.CachePurge {
		take = s.cache.Purge
	}
	if err := take(); err != nil {
		return err
	}
	if err := s.recordCache(); err != nil {
		return err
	}
	if err := s.dropCondemned(); err != nil {
		return err
	}
	all := s.config.FlushOnRestart || s.config.GlobalRestart
	s.takeForeign(all)
	if err := s.flushLeft(all); err != nil {
		return err
	}
	var ids []int
	for _, d := range missing {
		ids = append(ids, d.ID())
	}
	return s.departAgain(ids)
}

// flushLeft flushes outputs that an earlier run could not, and checkpoints too if
// they are asked for. That an older one cannot be is no reason not to go on; a
// program that reads the newest in the prefix directory itself would go back to
// another without a word.
func (s *Session) flushLeft(checkpoints bool) error {
	newest := s.newestCheckpoint()
	list := slices.Clone(s.cache.List())
	slices.Reverse(list) // so that the newest is current in the end
	for _, c := range list {
		if s.flushed[c.ID()] || !c.Flags().Has(Output) && !(checkpoints && c.Flags().Has(Checkpoint)) {
			continue
		}
		err := s.flush(c)
		if err == nil {
			err = s.leave(c)
		}
		switch {
		case err == nil:
		case checkpoints && c == newest:
			return fmt.Errorf("%w (it has to be flushed, as SCR_FLUSH_ON_RESTART or SCR_GLOBAL_RESTART says)", err)
		case s.world.Rank() == 0:
			s.log.Warn("%v; dataset %s stays in the cache", err, c.Name())
		}
	}
	return nil
}

// takeForeign flushes checkpoints in the cache that a job of another size has
// written, oldest first, as far as that is possible; or says how they can be used,
// where nobody has asked for that.
func (s *Session) takeForeign(flush bool) {
	const until = "it stays in the cache until this run begins a checkpoint"
	list := slices.Clone(s.cache.Foreign())
	slices.Reverse(list)
	for _, f := range list {
		var err error
		if flush {
			err = s.flushParts(f)
		}
		switch {
		case s.world.Rank() != 0:
		case err != nil:
			s.log.Warn("dataset %d (%s), which %d ranks have written, cannot be flushed: %v; %s", f.ID(), f.Name(), f.Ranks, err, until)
		case !flush:
			s.log.Warn("dataset %d in the cache was written by %d ranks, this run has %d: to use it, end this run and start "+
				"with %d ranks, which can also flush it to the prefix directory, or with SCR_GLOBAL_RESTART=1; %s",
				f.ID(), f.Ranks, s.world.Size(), f.Ranks, until)
		}
	}
}

func (s *Session) flushParts(f cache.Foreign) error {
	known, there, err := s.prefix.Lookup(f.Name())
	if err != nil || there && known.ID() == f.ID() {
		return err
	}
	parts, err := s.cache.Parts(f)
	if err != nil {
		return err
	}
	if err := s.prefix.Flush(f.Dataset, f.Ranks, parts); err != nil {
		return err
	}
	return s.window(f.Dataset)
}

// choose decides on the checkpoint to restart from: that of SCR_CURRENT, the
// newest in the cache, or one that the program wrote to the prefix directory since.
func (s *Session) choose() error {
	if name := s.config.Current; name != "" {
		chosen, err := s.chooseNamed(name)
		if chosen || err != nil {
			return err
		}
		if s.world.Rank() == 0 {
			s.log.Warn("SCR_CURRENT names %s, which is no complete checkpoint in the cache or in the index of %s; ignored", name, s.prefix.Dir)
		}
	}
	return s.offerNewest()
}

// chooseNamed makes a checkpoint of a name the one to restart from, wherever it
// is. Once it is, those that are newer leave the cache.
func (s *Session) chooseNamed(name string) (bool, error) {
	known := func() error {
		x, err := prefix.ReadIndex(s.prefix.Dir)
		if _, ok := x.Lookup(name); err != nil || !ok {
			return err
		}
		return s.markCurrent(name)
	}
	if err := s.onRoot(known); err != nil {
		return false, err
	}
	for _, c := range s.cache.List() {
		if c.Name() == name && c.Flags().Has(Checkpoint) && !s.config.GlobalRestart {
			s.offer(c)
			return true, s.forgetAfter(c.ID())
		}
	}
	if !s.config.Fetch {
		return false, nil
	}
	d, ok, err := s.prefix.Lookup(name)
	if err != nil || !ok || !s.try(d) {
		return false, err
	}
	return true, s.forgetAfter(d.ID())
}

// forgetAfter deletes datasets from the cache that are newer than the one to
// restart from.
func (s *Session) forgetAfter(id int) error {
	return s.forgetWhere(func(c *cache.Cached) bool { return c.ID() > id })
}

// offerNewest offers the newest checkpoint that needs no fetch: in the cache, or
// one that the program wrote to the prefix directory itself.
func (s *Session) offerNewest() error {
	c := s.newestCheckpoint()
	if s.config.GlobalRestart && s.config.Fetch {
		c = nil // it is in the prefix directory too
	}
	s.offer(c)
	if !s.config.Fetch {
		return nil
	}
	after := 0
	if c != nil {
		after = c.ID()
	}
	for below := 1 << 62; ; {
		d, ok, err := s.prefix.Written(after, below)
		if err != nil || !ok {
			return err
		}
		if s.try(d) {
			return nil
		}
		below = d.ID()
	}
}

// markCurrent makes the dataset of a name the current one of the index. Rank 0
// calls it.
func (s *Session) markCurrent(name string) error {
	return prefix.UpdateIndex(s.prefix.Dir, func(x *prefix.Index) error {
		if err := x.SetCurrent(name); err != nil || !s.config.DropAfterCurrent {
			return err
		}
		id, _ := x.Lookup(name)
		for _, later := range x.RemoveAfter(id) {
			s.log.Info("dataset %s, which is newer than %s, leaves the index", later, name)
		}
		return nil
	})
}

// waiting returns what has to be flushed before the session ends, oldest first:
// outputs that could not be, and the newest checkpoint if that is asked for.
func (s *Session) waiting(checkpoint bool) []*cache.Cached {
	newest := s.newestCheckpoint()
	var list []*cache.Cached
	for _, c := range slices.Backward(s.cache.List()) {
		if s.flushed[c.ID()] || s.flightOf(c) != nil {
			continue
		}
		if c.Flags().Has(Output) || checkpoint && c == newest && c.ID() > s.written {
			list = append(list, c)
		}
	}
	return list
}

// window deletes the oldest checkpoints in the prefix directory that are more than
// SCR_PREFIX_SIZE, after one has arrived there. It has, so that others cannot be
// deleted is no error.
func (s *Session) window(arrived dataset.Dataset) error {
	most := s.config.PrefixSize
	if most <= 0 || !arrived.Flags().Has(Checkpoint) {
		return nil
	}
	// An older one that is still on its way, and would be deleted before it has files,
	// sees to it when it has arrived.
	if slices.ContainsFunc(s.flights, func(f *flight) bool { return f.cached.ID() < arrived.ID() }) {
		return nil
	}
	if err := s.prefix.Keep(most); err != nil && s.world.Rank() == 0 {
		s.log.Warn("old checkpoints cannot be deleted from %s: %v", s.prefix.Dir, err)
	}
	return nil
}
